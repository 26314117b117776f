//! Rows that were given up: looked at, brought back, deleted. The words `state <> 'pending'` are the condition of their
//! indexes.

use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Binary, Integer, Nullable, Text};
use diesel::sqlite::SqliteConnection;

use super::super::errors::{JobError, JobResult};
use super::super::schema::stash;
use super::rows::DrainRow;
use crate::backends::stored::StoredDeadRow;
use crate::domain::config::ClientId;
use crate::domain::dead_row::{ByAge, DeadRow, DeadRowQuery, OwnRow};
use crate::domain::stash::RowState;
use crate::domain::transfer::{EventId, NewTransfer, Transfer, TransferKind};

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Text)]
    client: String,
    #[diesel(sql_type = Text)]
    event_id: String,
    #[diesel(sql_type = Binary)]
    document: Vec<u8>,
    #[diesel(sql_type = BigInt)]
    incarnation: i64,
    #[diesel(sql_type = BigInt)]
    partition: i64,
    #[diesel(sql_type = BigInt)]
    offset: i64,
    #[diesel(sql_type = Text)]
    source_topic: String,
    #[diesel(sql_type = Integer)]
    source_partition: i32,
    #[diesel(sql_type = BigInt)]
    source_offset: i64,
    #[diesel(sql_type = BigInt)]
    ts_ms: i64,
    #[diesel(sql_type = BigInt)]
    bytes: i64,
    #[diesel(sql_type = Text)]
    state: String,
    #[diesel(sql_type = BigInt)]
    attempts: i64,
    #[diesel(sql_type = BigInt)]
    payload_failures: i64,
    #[diesel(sql_type = BigInt)]
    first_failed_at_ms: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    last_failed_at_ms: Option<i64>,
    #[diesel(sql_type = Nullable<Text>)]
    last_reason: Option<String>,
    #[diesel(sql_type = Nullable<Integer>)]
    last_status: Option<i32>,
}

impl Row {
    fn read(self) -> JobResult<DeadRow> {
        let row = StoredDeadRow {
            client: self.client,
            event_id: self.event_id,
            document: self.document,
            place: (self.incarnation, self.partition, self.offset),
            source: (self.source_topic, self.source_partition, self.source_offset),
            ts_ms: self.ts_ms,
            bytes: self.bytes,
            state: self.state,
            attempts: self.attempts,
            payload_failures: self.payload_failures,
            failed_at_ms: (self.first_failed_at_ms, self.last_failed_at_ms),
            reason: self.last_reason,
            status: self.last_status,
        };
        Ok(row.read()?)
    }
}

const COLUMNS: &str = "SELECT client, event_id, document, incarnation, partition, offset, source_topic,
        source_partition, source_offset, ts_ms, bytes, state, attempts, payload_failures,
        first_failed_at_ms, last_failed_at_ms, last_reason, last_status
    FROM stash";

/// Rows between two places, which one index has in order.
pub(super) fn list(connection: &mut SqliteConnection, query: &DeadRowQuery) -> JobResult<Vec<DeadRow>> {
    let (from, until) = query.between();
    let rows: Vec<Row> = sql_query(page_of(query))
        .bind::<Nullable<Text>, _>(query.client.as_ref().map(ClientId::as_str))
        .bind::<Text, _>(query.kind.state().as_str())
        .bind::<BigInt, _>(from.first_failed_at_ms)
        .bind::<BigInt, _>(i64::from(from.sequence.incarnation))
        .bind::<BigInt, _>(i64::from(from.sequence.partition))
        .bind::<BigInt, _>(from.sequence.offset)
        .bind::<BigInt, _>(until.first_failed_at_ms)
        .bind::<BigInt, _>(i64::from(until.sequence.incarnation))
        .bind::<BigInt, _>(i64::from(until.sequence.partition))
        .bind::<BigInt, _>(until.sequence.offset)
        .bind::<BigInt, _>(i64::try_from(query.limit).unwrap_or(i64::MAX))
        .load(connection)?;
    rows.into_iter().map(Row::read).collect()
}

fn page_of(query: &DeadRowQuery) -> String {
    let whose = if query.client.is_some() { "client = ?" } else { "? IS NULL" };
    let direction = match query.order {
        ByAge::OldestFirst => "ASC",
        ByAge::NewestFirst => "DESC",
    };
    format!(
        "{COLUMNS} WHERE {whose} AND state <> 'pending' AND state = ?
        AND (first_failed_at_ms, incarnation, partition, offset) > (?, ?, ?, ?)
        AND (first_failed_at_ms, incarnation, partition, offset) < (?, ?, ?, ?)
        ORDER BY first_failed_at_ms {direction}, incarnation {direction}, partition {direction}, offset {direction}
        LIMIT ?"
    )
}

/// One row that was given up.
pub(super) fn one(
    connection: &mut SqliteConnection,
    client: &ClientId,
    event: &EventId,
) -> JobResult<Option<DeadRow>> {
    let row: Option<Row> =
        sql_query(format!("{COLUMNS} WHERE client = ? AND event_id = ? AND state <> 'pending'"))
            .bind::<Text, _>(client.as_str())
            .bind::<Text, _>(event.as_str())
            .get_result(connection)
            .optional()?;
    row.map(Row::read).transpose()
}

/// What it carries.
pub(super) fn payload(
    connection: &mut SqliteConnection,
    client: &ClientId,
    event: &EventId,
) -> JobResult<Option<NewTransfer>> {
    let row: Option<DrainRow> = stash::table
        .filter(stash::client.eq(client.as_str()))
        .filter(stash::event_id.eq(event.as_str()))
        .filter(stash::state.ne(RowState::Pending.as_str()))
        .select(DrainRow::as_select())
        .first(connection)
        .optional()?;
    row.map(|row| Ok(row.read()?.transfer.content.clone())).transpose()
}

/// Deletes one row that was given up.
pub(super) fn delete(
    connection: &mut SqliteConnection,
    client: &ClientId,
    event: &EventId,
) -> JobResult<bool> {
    let deleted = diesel::delete(stash::table)
        .filter(stash::client.eq(client.as_str()))
        .filter(stash::event_id.eq(event.as_str()))
        .filter(stash::state.ne(RowState::Pending.as_str()))
        .execute(connection)?;
    Ok(deleted > 0)
}

/// A row of the same document as `stash`, which is newer and waits. Without the plus signs SQLite compares as for columns of any two types, and
/// uses the index for the first of the three only.
const NEWER_WAITS: &str = "EXISTS (SELECT 1 FROM stash AS newer
    WHERE newer.client = stash.client AND newer.document_hash = stash.document_hash AND newer.state = 'pending'
    AND (newer.incarnation, newer.partition, newer.offset)
        > (+stash.incarnation, +stash.partition, +stash.offset))";

#[derive(QueryableByName)]
struct Own {
    #[diesel(sql_type = Text)]
    state: String,
    #[diesel(sql_type = BigInt)]
    newer_waits: i64,
}

/// What is known of the row of an event.
pub(super) fn own(
    connection: &mut SqliteConnection,
    client: &ClientId,
    event: &EventId,
) -> JobResult<Option<OwnRow>> {
    let row: Option<Own> = sql_query(format!(
        "SELECT state, {NEWER_WAITS} AS newer_waits FROM stash WHERE client = ? AND event_id = ?"
    ))
    .bind::<Text, _>(client.as_str())
    .bind::<Text, _>(event.as_str())
    .get_result(connection)
    .optional()?;
    row.map(|row| {
        let state = row.state.parse().map_err(JobError::refused)?;
        Ok(OwnRow { state, newer_waits: row.newer_waits != 0 })
    })
    .transpose()
}

/// Lets the row of a replay wait again.
pub(super) fn replay(
    connection: &mut SqliteConnection,
    client: &ClientId,
    replay: &Transfer,
) -> JobResult<()> {
    const WAIT: &str = "UPDATE stash SET state = 'pending', claim = NULL, next_attempt_at_ms = 0, kind = ?";
    let event = replay.event_id.as_str();
    if replay.kind == TransferKind::ForcedReplay {
        sql_query(format!(
            "{WAIT}, incarnation = ?, partition = ?, offset = ?
            WHERE client = ? AND event_id = ? AND state <> 'pending'"
        ))
        .bind::<Text, _>(replay.kind.as_str())
        .bind::<BigInt, _>(i64::from(replay.sequence.incarnation))
        .bind::<BigInt, _>(i64::from(replay.sequence.partition))
        .bind::<BigInt, _>(replay.sequence.offset)
        .bind::<Text, _>(client.as_str())
        .bind::<Text, _>(event)
        .execute(connection)?;
    } else {
        sql_query(format!(
            "{WAIT} WHERE client = ? AND event_id = ? AND state = 'dead' AND NOT {NEWER_WAITS}"
        ))
        .bind::<Text, _>(replay.kind.as_str())
        .bind::<Text, _>(client.as_str())
        .bind::<Text, _>(event)
        .execute(connection)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{migrated, plan};
    use super::*;
    use crate::domain::dead_row::GivenUp;

    #[test]
    fn no_question_reads_more_than_its_answer() {
        let mut connection = migrated();
        for client in [Some(ClientId::new("a")), None] {
            for order in [ByAge::OldestFirst, ByAge::NewestFirst] {
                let index = if client.is_some() { "stash_given_up " } else { "stash_given_up_of_all " };
                let query = DeadRowQuery {
                    client: client.clone(),
                    kind: GivenUp::Dead,
                    from_ms: 0,
                    until_ms: 1,
                    after: None,
                    order,
                    limit: 1,
                };
                let plan = plan(&mut connection, &page_of(&query));
                assert!(plan.contains(&format!("SEARCH stash USING INDEX {index}")), "{plan}");
                for side in [
                    "(first_failed_at_ms,incarnation,partition,offset)>",
                    " AND (first_failed_at_ms,incarnation,partition,offset)<",
                ] {
                    assert!(plan.contains(side), "{plan}");
                }
                assert!(!plan.contains("TEMP B-TREE"), "{plan}");
            }
        }
        let newer = format!("SELECT {NEWER_WAITS} FROM stash WHERE client = 'a' AND event_id = 'e'");
        let plan = plan(&mut connection, &newer);
        assert!(
            plan.contains(
                "newer USING COVERING INDEX stash_document (client=? AND document_hash=? AND state=? AND \
                (incarnation,partition,offset)>"
            ),
            "{plan}"
        );
    }
}
