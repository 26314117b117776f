//! What is asked of the stash. Every question names its client, and the words of its index's condition as they stand
//! there (`state = 'pending'`): the index is found by them.

use std::collections::HashMap;

use diesel::sql_types::{Array, BigInt, Binary, Nullable, Text};
use diesel::{OptionalExtension as _, sql_query};
use diesel_async::{AsyncPgConnection, RunQueryDsl as _};

use super::super::errors::JobResult;
use super::super::{client_id, key};
use crate::domain::config::ClientId;
use crate::domain::dead_row::OwnRow;
use crate::domain::stash::{Backlog, StashCheck};
use crate::domain::transfer::{DocumentHash, EventId};
use crate::ports::{StoreError, StoreResult};

#[derive(diesel::QueryableByName)]
struct Known {
    #[diesel(sql_type = Text)]
    what: String,
    #[diesel(sql_type = Binary)]
    key: Vec<u8>,
}

/// Most clients have no rows: then the first condition answers for all. `LIMIT 1` keeps each look one look: without it
/// the planner may read all rows of the client instead.
const CHECK: &str = "WITH client AS MATERIALIZED (SELECT FROM stash_totals WHERE client = $1)
    SELECT 'waiting' AS what, asked.key FROM unnest($2) AS asked (key)
    CROSS JOIN LATERAL (
        SELECT FROM stash WHERE client = $1 AND document_hash = asked.key AND state = 'pending' LIMIT 1
    ) AS found WHERE EXISTS (SELECT FROM client)
    UNION ALL
    SELECT 'dead', asked.key FROM unnest($2) AS asked (key)
    CROSS JOIN LATERAL (
        SELECT FROM stash WHERE client = $1 AND document_hash = asked.key
        AND state <> 'pending' AND state = 'dead' LIMIT 1
    ) AS found WHERE EXISTS (SELECT FROM client)
    UNION ALL
    SELECT 'row ' || found.state || CASE WHEN found.newer_waits THEN ' newer' ELSE '' END, asked.key
    FROM unnest($3) AS asked (key)
    CROSS JOIN LATERAL (
        SELECT state, EXISTS (SELECT FROM stash AS newer
            WHERE newer.client = $1 AND newer.document_hash = stash.document_hash AND newer.state = 'pending'
            AND (newer.incarnation, newer.partition, newer.\"offset\")
                > (stash.incarnation, stash.partition, stash.\"offset\") LIMIT 1
        ) AS newer_waits FROM stash WHERE client = $1 AND event_id = asked.key LIMIT 1
    ) AS found WHERE EXISTS (SELECT FROM client)";

/// What is known of these documents and events.
pub(super) async fn check(
    connection: &mut AsyncPgConnection,
    client: &ClientId,
    documents: &[DocumentHash],
    events: Vec<EventId>,
) -> JobResult<StashCheck> {
    let hashes: Vec<&[u8]> = documents.iter().map(|document| &document.0[..]).collect();
    let ids: Vec<&[u8]> = events.iter().map(|event| event.as_str().as_bytes()).collect();
    let rows: Vec<Known> = sql_query(CHECK)
        .bind::<Binary, _>(key(client.as_str())?)
        .bind::<Array<Binary>, _>(hashes)
        .bind::<Array<Binary>, _>(ids)
        .load(connection)
        .await?;
    let mut known = StashCheck::default();
    let mut stashed = HashMap::new();
    for row in rows {
        match (row.what.as_str(), <[u8; 16]>::try_from(&row.key[..])) {
            ("waiting", Ok(hash)) => _ = known.waiting.insert(DocumentHash(hash)),
            ("dead", Ok(hash)) => _ = known.dead.insert(DocumentHash(hash)),
            (what, _) => _ = stashed.insert(row.key, own_row(what)?),
        }
    }
    known.stashed = events
        .into_iter()
        .filter_map(|event| stashed.get(event.as_str().as_bytes()).map(|row| (event, *row)))
        .collect();
    Ok(known)
}

fn own_row(what: &str) -> StoreResult<OwnRow> {
    let mut words = what.split(' ').skip(1);
    let state = words.next().unwrap_or_default().parse().map_err(StoreError::Refused)?;
    Ok(OwnRow { state, newer_waits: words.next().is_some() })
}

#[derive(diesel::QueryableByName)]
struct BacklogRow {
    #[diesel(sql_type = Binary)]
    client: Vec<u8>,
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
            ORDER BY incarnation, partition, \"offset\" LIMIT 1
        ) AS oldest_ts_ms, (
            SELECT next_attempt_at_ms FROM stash
            WHERE stash.client = totals.client AND state = 'pending' AND next_attempt_at_ms > 0
            ORDER BY next_attempt_at_ms LIMIT 1
        ) AS next_attempt_at_ms
    FROM stash_totals AS totals";

/// What waits for a client.
pub(super) async fn backlog(connection: &mut AsyncPgConnection, client: &ClientId) -> JobResult<Backlog> {
    let row: Option<BacklogRow> = sql_query(format!("{BACKLOGS} WHERE client = $1"))
        .bind::<Binary, _>(key(client.as_str())?)
        .get_result(connection)
        .await
        .optional()?;
    Ok(row.as_ref().map(BacklogRow::read).unwrap_or_default())
}

/// What waits for every client that has rows.
pub(super) async fn backlogs(connection: &mut AsyncPgConnection) -> JobResult<Vec<(ClientId, Backlog)>> {
    let rows: Vec<BacklogRow> = sql_query(BACKLOGS).load(connection).await?;
    rows.into_iter().map(|mut row| Ok((client_id(std::mem::take(&mut row.client))?, row.read()))).collect()
}
