//! What is asked of the stash.

use diesel::connection::DefaultLoadingMode;
use diesel::dsl::{exists, min, not, select, sql};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool};
use diesel::sqlite::SqliteConnection;

use super::super::errors::JobResult;
use super::super::schema::{partitions, stash, stash_totals};
use super::dead_rows;
use super::rows::DrainRow;
use crate::domain::config::ClientId;
use crate::domain::stash::{Backlog, Claim, RowState, StashCheck, StashRow};
use crate::domain::transfer::{DocumentHash, EventId, Sequence};

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

/// A document is held by a row that may not be tried yet, or that somebody has in hand. The second line of the condition is that of the
/// index `stash_held`: a document with 10,000 rows costs one look.
const HELD: &str = "EXISTS (SELECT 1 FROM stash AS held
    WHERE held.client = stash.client AND held.document_hash = stash.document_hash
    AND held.state = 'pending' AND (held.next_attempt_at_ms > 0 OR held.claim IS NOT NULL)
    AND (held.next_attempt_at_ms > ";

/// A clock that was set back behind the failure says nothing of the time of the next attempt, which may lie days ahead.
/// A step of less than this only makes the wait so much longer.
const CLOCK_STEP_MS: i64 = 60_000;

/// Pending rows below the committed offset of their partition, or of an earlier incarnation, oldest first.
pub(super) fn drainable(
    connection: &mut SqliteConnection,
    client: &ClientId,
    current_incarnation: u32,
    after: Option<Sequence>,
    held: (i64, Claim),
    limit: usize,
    bytes: usize,
) -> JobResult<Vec<StashRow>> {
    let (incarnation, partition, offset) = after.map_or((-1, -1, -1), |after| {
        (i64::from(after.incarnation), i64::from(after.partition), after.offset)
    });
    let after_place = stash::incarnation.gt(incarnation).or(stash::incarnation.eq(incarnation).and(
        stash::partition.gt(partition).or(stash::partition.eq(partition).and(stash::offset.gt(offset))),
    ));
    let committed = stash::incarnation
        .lt(i64::from(current_incarnation))
        .or(partitions::committed.nullable().gt(stash::offset.nullable()).assume_not_null());
    let held = sql::<Bool>(HELD)
        .bind::<BigInt, _>(held.0)
        .sql(" AND coalesce(held.last_failed_at_ms, 0) <= ")
        .bind::<BigInt, _>(held.0.saturating_add(CLOCK_STEP_MS))
        .sql(" OR held.claim = ")
        .bind::<BigInt, _>(held.1.0.cast_signed())
        .sql("))");
    let rows = stash::table
        .left_join(partitions::table.on(
            partitions::incarnation.eq(stash::incarnation).and(partitions::partition.eq(stash::partition)),
        ))
        .filter(stash::client.eq(client.as_str()))
        .filter(stash::state.eq(RowState::Pending.as_str()))
        .filter(stash::incarnation.ge(incarnation))
        .filter(after_place)
        .filter(committed)
        .filter(not(held))
        .order((stash::incarnation, stash::partition, stash::offset))
        .limit(limit as i64)
        .select(DrainRow::as_select())
        .load_iter::<DrainRow, DefaultLoadingMode>(connection)?;
    let mut found = Vec::new();
    let mut left = bytes;
    for row in rows {
        let row = row?;
        let weight = row.weight();
        if weight > left && !found.is_empty() {
            break;
        }
        left = left.saturating_sub(weight);
        found.push(row.read()?);
    }
    Ok(found)
}

fn with_times(
    connection: &mut SqliteConnection,
    client: &str,
    pending: i64,
    pending_bytes: i64,
    dead: i64,
) -> JobResult<Backlog> {
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let mut backlog = Backlog {
        pending: count(pending),
        pending_bytes: count(pending_bytes),
        dead: count(dead),
        ..Backlog::default()
    };
    if pending > 0 {
        backlog.oldest_ts_ms = stash::table
            .filter(stash::client.eq(client))
            .filter(stash::state.eq(RowState::Pending.as_str()))
            .order((stash::incarnation, stash::partition, stash::offset))
            .select(stash::ts_ms)
            .first(connection)
            .optional()?;
        backlog.next_attempt_at_ms = stash::table
            .filter(stash::client.eq(client))
            .filter(stash::state.eq(RowState::Pending.as_str()))
            .filter(stash::next_attempt_at_ms.gt(0))
            .select(min(stash::next_attempt_at_ms))
            .first(connection)?;
    }
    Ok(backlog)
}

/// What waits for a client.
pub(super) fn backlog(connection: &mut SqliteConnection, client: &ClientId) -> JobResult<Backlog> {
    let totals: Option<(i64, i64, i64)> = stash_totals::table
        .find(client.as_str())
        .select((stash_totals::pending, stash_totals::pending_bytes, stash_totals::dead))
        .first(connection)
        .optional()?;
    totals.map_or(Ok(Backlog::default()), |(pending, bytes, dead)| {
        with_times(connection, client.as_str(), pending, bytes, dead)
    })
}

/// What waits for every client that has rows.
pub(super) fn backlogs(connection: &mut SqliteConnection) -> JobResult<Vec<(ClientId, Backlog)>> {
    let totals: Vec<(String, i64, i64, i64)> = stash_totals::table
        .select((
            stash_totals::client,
            stash_totals::pending,
            stash_totals::pending_bytes,
            stash_totals::dead,
        ))
        .load(connection)?;
    totals
        .into_iter()
        .map(|(client, pending, bytes, dead)| {
            let backlog = with_times(connection, &client, pending, bytes, dead)?;
            Ok((ClientId::new(&client), backlog))
        })
        .collect()
}
