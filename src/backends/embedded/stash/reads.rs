//! What is asked of the stash.

use diesel::dsl::{exists, select};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel::sqlite::SqliteConnection;

use super::super::errors::JobResult;
use super::super::schema::{stash, stash_totals};
use super::dead_rows;
use crate::domain::config::ClientId;
use crate::domain::stash::{Backlog, RowState, StashCheck};
use crate::domain::transfer::{DocumentHash, EventId};

/// What is known of these documents and events. Most clients have no rows: one look answers for them.
pub(super) fn check(
    connection: &mut SqliteConnection,
    client: &ClientId,
    documents: &[DocumentHash],
    events: &[EventId],
) -> JobResult<StashCheck> {
    let mut known = StashCheck::default();
    if !select(exists(stash_totals::table.find(client.as_str()))).get_result::<bool>(connection)? {
        return Ok(known);
    }
    for document in documents {
        let mut is = |state: RowState| {
            select(exists(
                stash::table
                    .filter(stash::client.eq(client.as_str()))
                    .filter(stash::document_hash.eq(&document.0[..]))
                    .filter(stash::state.eq(state.as_str())),
            ))
            .get_result::<bool>(connection)
        };
        if is(RowState::Pending)? {
            known.waiting.insert(*document);
        }
        if is(RowState::Dead)? {
            known.dead.insert(*document);
        }
    }
    for event in events {
        if let Some(row) = dead_rows::own(connection, client, event)? {
            known.stashed.insert(event.clone(), row);
        }
    }
    Ok(known)
}

#[derive(QueryableByName)]
struct BacklogRow {
    #[diesel(sql_type = Text)]
    client: String,
    #[diesel(sql_type = BigInt)]
    pending: i64,
    #[diesel(sql_type = BigInt)]
    pending_bytes: i64,
    #[diesel(sql_type = BigInt)]
    dead: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    oldest_ts_ms: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    next_attempt_at_ms: Option<i64>,
}

impl BacklogRow {
    fn read(&self) -> Backlog {
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        Backlog {
            pending: count(self.pending),
            pending_bytes: count(self.pending_bytes),
            dead: count(self.dead),
            oldest_ts_ms: self.oldest_ts_ms,
            next_attempt_at_ms: self.next_attempt_at_ms,
        }
    }
}

/// The totals, and for each client two looks at the first entry of an index.
const BACKLOGS: &str = "SELECT client, pending, pending_bytes, dead, (
            SELECT ts_ms FROM stash WHERE stash.client = totals.client AND state = 'pending'
            ORDER BY incarnation, partition, offset LIMIT 1
        ) AS oldest_ts_ms, (
            SELECT next_attempt_at_ms FROM stash
            WHERE stash.client = totals.client AND state = 'pending' AND next_attempt_at_ms > 0
            ORDER BY next_attempt_at_ms LIMIT 1
        ) AS next_attempt_at_ms
    FROM stash_totals AS totals";

/// What waits for a client.
pub(super) fn backlog(connection: &mut SqliteConnection, client: &ClientId) -> JobResult<Backlog> {
    let row: Option<BacklogRow> = sql_query(format!("{BACKLOGS} WHERE client = ?"))
        .bind::<Text, _>(client.as_str())
        .get_result(connection)
        .optional()?;
    Ok(row.as_ref().map(BacklogRow::read).unwrap_or_default())
}

/// What waits for every client that has rows.
pub(super) fn backlogs(connection: &mut SqliteConnection) -> JobResult<Vec<(ClientId, Backlog)>> {
    let rows: Vec<BacklogRow> = sql_query(BACKLOGS).load(connection)?;
    Ok(rows.iter().map(|row| (ClientId::new(&row.client), row.read())).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use diesel::connection::{InstrumentationEvent, SimpleConnection as _};

    use super::super::tests::{migrated, plan};
    use super::*;

    #[test]
    fn the_backlogs_of_all_clients_are_one_statement() {
        let mut connection = migrated();
        connection
            .batch_execute(
                "WITH RECURSIVE clients (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM clients WHERE n < 20)
                INSERT INTO stash (client, document_hash, document, event_id, incarnation, partition, offset, kind,
                    source_topic, source_partition, source_offset, ts_ms, bytes, stashed_at_ms, state, attempts,
                    payload_failures, next_attempt_at_ms, body)
                SELECT 'c' || n, x'00', x'00', 'e' || n, 1, 0, n, 'live', 't', 0, n, 100 + n, 7, 0, 'pending', 1, 0, n, x''
                FROM clients",
            )
            .unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        connection.set_instrumentation(move |event: InstrumentationEvent<'_>| {
            if matches!(event, InstrumentationEvent::StartQuery { .. }) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let backlogs = backlogs(&mut connection).unwrap();
        assert_eq!((backlogs.len(), asked.load(Ordering::Relaxed)), (20, 1));
        let (_, backlog) = backlogs.iter().find(|(client, _)| client.as_str() == "c7").unwrap();
        let expected = Backlog {
            pending: 1,
            pending_bytes: 7,
            dead: 0,
            oldest_ts_ms: Some(107),
            next_attempt_at_ms: Some(7),
        };
        assert_eq!(backlog, &expected);
    }

    #[test]
    fn a_backlog_reads_the_first_entries_of_indexes() {
        let plan = plan(&mut migrated(), BACKLOGS);
        for index in ["stash_order (client=? AND state=?)", "stash_due (client=? AND state=? AND "] {
            assert!(plan.contains(index), "{plan}");
        }
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}
