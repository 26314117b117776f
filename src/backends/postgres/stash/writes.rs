//! What the steps of a batch do to rows: each is one statement, its rows are arrays.

use std::time::Duration;

use diesel::sql_query;
use diesel::sql_types::{Array, BigInt, Binary, Integer, Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl as _};

use super::super::errors::JobResult;
use super::super::key;
use super::steps::{Attempt, Step};
use super::{dead_rows, older, ownership};
use crate::domain::config::ClientId;
use crate::domain::stash::{NewRow, RowFailure};
use crate::domain::transfer::Transfer;
use crate::ports::clock::{Clock as _, SystemClock};
use crate::ports::stash::Ownership;

/// Rows of one part of `bury`: well below the time that a statement may take.
const BURY_ROWS: i64 = 5_000;

/// Bodies of one statement: what it holds in memory, here and there.
const INSERT_BYTES: usize = 16 << 20;

/// Milliseconds since 1970, by the store's clock.
macro_rules! now_ms {
    () => {
        "(extract(epoch FROM now()) * 1000)::bigint"
    };
}

/// Does a step.
pub(super) async fn run(connection: &mut AsyncPgConnection, step: &Step<'_>) -> JobResult<()> {
    match step {
        Step::Insert(rows) => {
            let mut rest = &rows[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(fitting(rest));
                insert(connection, now).await?;
                rest = later;
            }
            Ok(())
        }
        Step::Delivered(transfers) => delivered(connection, transfers).await,
        Step::Coalesced(transfers) => older::coalesce(connection, transfers).await,
        Step::Failed(attempts, _) => failed(connection, attempts).await,
        Step::Replay(replays, _) => dead_rows::replay(connection, replays).await,
    }
}

/// How many of these go into one statement: one at least.
fn fitting(rows: &[&NewRow]) -> usize {
    let mut bytes = 0;
    let more = rows.iter().take_while(|row| {
        bytes += row.transfer.weight();
        bytes <= INSERT_BYTES
    });
    more.count().max(1)
}

const INSERT: &str = concat!(
    "INSERT INTO stash (client, event_id, document_hash, document, incarnation, partition, \"offset\", kind,
        source_topic, source_partition, source_offset, traceparent, ts_ms, bytes, claim, attempts, payload_failures,
        next_attempt_at_ms, last_class, last_reason, last_status, body,
        state, tried_at_ms, stashed_at_ms, first_failed_at_ms, last_failed_at_ms)
    SELECT r.*, 'pending', CASE WHEN r.attempts > 0 THEN $23 END, ",
    now_ms!(),
    ", CASE WHEN r.attempts > 0 THEN ",
    now_ms!(),
    " END, CASE WHEN r.attempts > 0 THEN ",
    now_ms!(),
    " END
    FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)
        AS r (client, event_id, document_hash, document, incarnation, partition, \"offset\", kind,
        source_topic, source_partition, source_offset, traceparent, ts_ms, bytes, claim, attempts, payload_failures,
        next_attempt_at_ms, last_class, last_reason, last_status, body)
    ON CONFLICT (client, event_id) DO NOTHING"
);

async fn insert(connection: &mut AsyncPgConnection, rows: &[&NewRow]) -> JobResult<()> {
    fn column<'a, T>(rows: &[&'a NewRow], value: impl Fn(&'a NewRow) -> T) -> Vec<T> {
        rows.iter().map(|row| value(row)).collect()
    }
    fn failures<'a, T>(rows: &[&'a NewRow], value: impl Fn(&'a RowFailure) -> T) -> Vec<Option<T>> {
        column(rows, |row| row.failure.as_ref().map(&value))
    }
    sql_query(INSERT)
        .bind::<Array<Binary>, _>(column(rows, |row| row.transfer.client.as_str().as_bytes()))
        .bind::<Array<Binary>, _>(column(rows, |row| row.transfer.event_id.as_str().as_bytes()))
        .bind::<Array<Binary>, _>(column(rows, |row| &row.transfer.document_hash.0[..]))
        .bind::<Array<Binary>, _>(column(rows, |row| row.transfer.document.as_bytes()))
        .bind::<Array<BigInt>, _>(column(rows, |row| i64::from(row.transfer.sequence.incarnation)))
        .bind::<Array<BigInt>, _>(column(rows, |row| i64::from(row.transfer.sequence.partition)))
        .bind::<Array<BigInt>, _>(column(rows, |row| row.transfer.sequence.offset))
        .bind::<Array<Text>, _>(column(rows, |row| row.transfer.kind.as_str()))
        .bind::<Array<Binary>, _>(column(rows, |row| row.transfer.source.topic.as_bytes()))
        .bind::<Array<Integer>, _>(column(rows, |row| row.transfer.source.partition))
        .bind::<Array<BigInt>, _>(column(rows, |row| row.transfer.source.offset))
        .bind::<Array<Nullable<Binary>>, _>(column(rows, |row| {
            row.transfer.traceparent.as_deref().map(str::as_bytes)
        }))
        .bind::<Array<BigInt>, _>(column(rows, |row| row.transfer.ts_ms))
        .bind::<Array<BigInt>, _>(column(rows, |row| row.transfer.weight() as i64))
        .bind::<Array<Nullable<BigInt>>, _>(column(rows, |row| row.claim.map(|claim| claim.0.cast_signed())))
        .bind::<Array<BigInt>, _>(column(rows, |row| i64::from(row.failure.is_some())))
        .bind::<Array<BigInt>, _>(column(rows, |row| {
            row.failure.as_ref().map_or(0, RowFailure::payload_failures)
        }))
        .bind::<Array<BigInt>, _>(column(rows, |row| {
            row.failure.as_ref().map_or(0, |failure| failure.next_attempt_at_ms)
        }))
        .bind::<Array<Nullable<Text>>, _>(failures(rows, |failure| failure.class.as_str()))
        .bind::<Array<Nullable<Binary>>, _>(failures(rows, |failure| failure.reason.as_bytes()))
        .bind::<Array<Nullable<Integer>>, _>(column(rows, |row| {
            row.failure.as_ref().and_then(|failure| failure.status).map(i32::from)
        }))
        .bind::<Array<Binary>, _>(column(rows, |row| &row.transfer.body[..]))
        .bind::<BigInt, _>(SystemClock.now_ms())
        .execute(connection)
        .await?;
    Ok(())
}

async fn delivered(connection: &mut AsyncPgConnection, transfers: &[&Transfer]) -> JobResult<()> {
    const DELETE: &str = "DELETE FROM stash USING unnest($1, $2) AS sent (client, event_id)
        WHERE stash.client = sent.client AND stash.event_id = sent.event_id";
    fn column<'a, T>(transfers: &[&'a Transfer], value: impl Fn(&'a Transfer) -> T) -> Vec<T> {
        transfers.iter().map(|transfer| value(transfer)).collect()
    }
    sql_query(DELETE)
        .bind::<Array<Binary>, _>(column(transfers, |transfer| transfer.client.as_str().as_bytes()))
        .bind::<Array<Binary>, _>(column(transfers, |transfer| transfer.event_id.as_str().as_bytes()))
        .execute(connection)
        .await?;
    older::supersede(connection, transfers).await
}

async fn failed(connection: &mut AsyncPgConnection, attempts: &[Attempt<'_>]) -> JobResult<()> {
    const FAILED: &str = concat!(
        "UPDATE stash SET state = f.state, claim = NULL, attempts = stash.attempts + 1,
            payload_failures = stash.payload_failures + f.payload_failures, next_attempt_at_ms = f.next_attempt_at_ms,
            first_failed_at_ms = coalesce(stash.first_failed_at_ms, ",
        now_ms!(),
        "), last_failed_at_ms = ",
        now_ms!(),
        ", tried_at_ms = $9, last_class = f.class, last_reason = f.reason, last_status = f.status
        FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)
            AS f (client, event_id, state, payload_failures, next_attempt_at_ms, class, reason, status)
        WHERE stash.client = f.client AND stash.event_id = f.event_id AND stash.state = 'pending'"
    );
    fn column<'a, T>(attempts: &[Attempt<'a>], value: impl Fn(Attempt<'a>) -> T) -> Vec<T> {
        attempts.iter().map(|attempt| value(*attempt)).collect()
    }
    sql_query(FAILED)
        .bind::<Array<Binary>, _>(column(attempts, |attempt| attempt.client.as_str().as_bytes()))
        .bind::<Array<Binary>, _>(column(attempts, |attempt| attempt.event.as_str().as_bytes()))
        .bind::<Array<Text>, _>(column(attempts, |attempt| attempt.state.as_str()))
        .bind::<Array<BigInt>, _>(column(attempts, |attempt| attempt.failure.payload_failures()))
        .bind::<Array<BigInt>, _>(column(attempts, |attempt| attempt.failure.next_attempt_at_ms))
        .bind::<Array<Text>, _>(column(attempts, |attempt| attempt.failure.class.as_str()))
        .bind::<Array<Binary>, _>(column(attempts, |attempt| attempt.failure.reason.as_bytes()))
        .bind::<Array<Nullable<Integer>>, _>(column(attempts, |attempt| {
            attempt.failure.status.map(i32::from)
        }))
        .bind::<BigInt, _>(SystemClock.now_ms())
        .execute(connection)
        .await?;
    Ok(())
}

/// Turns pending rows of a client into dead ones, a part of them. Returns how many; 0: there are none.
pub(super) async fn bury(
    connection: &mut AsyncPgConnection,
    client: &ClientId,
    ownership: Ownership,
    reason: &str,
) -> JobResult<u64> {
    // Found by their index and locked, then written where they are: a join by key may read the whole table.
    const BURY: &str = concat!(
        "UPDATE stash SET state = 'dead', claim = NULL, last_reason = $2, last_failed_at_ms = ",
        now_ms!(),
        ", first_failed_at_ms = coalesce(first_failed_at_ms, ",
        now_ms!(),
        ") WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM stash WHERE client = $1 AND state = 'pending'
            ORDER BY incarnation, partition, \"offset\" LIMIT $3 FOR UPDATE
        ))"
    );
    ownership::check(connection, ownership).await?;
    let buried = sql_query(BURY)
        .bind::<Binary, _>(key(client.as_str())?)
        .bind::<Binary, _>(reason.as_bytes())
        .bind::<BigInt, _>(BURY_ROWS)
        .execute(connection)
        .await?;
    Ok(buried as u64)
}

/// Removes rows that are neither needed nor young. The condition on the state is that of their index.
pub(super) async fn purge(
    connection: &mut AsyncPgConnection,
    older_than: Duration,
    limit: usize,
) -> JobResult<u64> {
    const PURGE: &str = concat!(
        "DELETE FROM stash WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM stash
            WHERE state <> 'pending' AND stashed_at_ms <= ",
        now_ms!(),
        " - $1 AND coalesce(last_failed_at_ms, 0) <= ",
        now_ms!(),
        " - $1 ORDER BY stashed_at_ms LIMIT $2 FOR UPDATE SKIP LOCKED
        ))"
    );
    let purged = sql_query(PURGE)
        .bind::<BigInt, _>(i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX / 2))
        .bind::<BigInt, _>(i64::try_from(limit).unwrap_or(i64::MAX))
        .execute(connection)
        .await?;
    Ok(purged as u64)
}
