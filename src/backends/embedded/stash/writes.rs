//! What a batch of writes does to the rows of a client.

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable};
use diesel::sqlite::SqliteConnection;

use super::super::errors::{JobError, JobResult};
use super::super::schema::stash;
use super::rows::NewStashRow;
use super::{dead_rows, older, ownership};
use crate::domain::config::ClientId;
use crate::domain::stash::{NewRow, RowFailure, RowState, StashWrite};
use crate::domain::transfer::{EventId, Transfer};
use crate::ports::stash::{Ownership, StashBatch};

#[diesel::declare_sql_function]
extern "SQL" {
    fn coalesce(value: Nullable<BigInt>, otherwise: BigInt) -> BigInt;
}

/// Applies a batch, if its right to write still holds.
pub(super) fn apply(connection: &mut SqliteConnection, batch: &StashBatch, now_ms: i64) -> JobResult<()> {
    ownership::check_batch(connection, batch)?;
    for write in &batch.writes {
        match write {
            StashWrite::Insert(row) => insert(connection, batch, row, now_ms)?,
            StashWrite::Delivered { transfer } => delivered(connection, &batch.client, transfer)?,
            StashWrite::Coalesced { transfer } => older::coalesce(connection, &batch.client, transfer)?,
            StashWrite::Failed { event_id, failure } => {
                failed(connection, &batch.client, event_id, failure, RowState::Pending, now_ms)?;
            }
            StashWrite::Dead { event_id, failure } => {
                failed(connection, &batch.client, event_id, failure, RowState::Dead, now_ms)?;
            }
            StashWrite::Replay { transfer } => dead_rows::replay(connection, &batch.client, transfer)?,
        }
    }
    Ok(())
}

fn insert(connection: &mut SqliteConnection, batch: &StashBatch, row: &NewRow, now_ms: i64) -> JobResult<()> {
    if row.transfer.client != batch.client {
        return Err(JobError::refused("a row of another client than the batch's"));
    }
    diesel::insert_into(stash::table)
        .values(NewStashRow::of(row, now_ms))
        .on_conflict((stash::client, stash::event_id))
        .do_nothing()
        .execute(connection)?;
    Ok(())
}

fn delivered(connection: &mut SqliteConnection, client: &ClientId, transfer: &Transfer) -> JobResult<()> {
    diesel::delete(stash::table)
        .filter(stash::client.eq(client.as_str()))
        .filter(stash::event_id.eq(transfer.event_id.as_str()))
        .execute(connection)?;
    older::supersede(connection, client, transfer)
}

fn failed(
    connection: &mut SqliteConnection,
    client: &ClientId,
    event: &EventId,
    failure: &RowFailure,
    state: RowState,
    now_ms: i64,
) -> JobResult<()> {
    diesel::update(stash::table)
        .filter(stash::client.eq(client.as_str()))
        .filter(stash::event_id.eq(event.as_str()))
        .filter(stash::state.eq(RowState::Pending.as_str()))
        .set((
            stash::state.eq(state.as_str()),
            stash::claim.eq(None::<i64>),
            stash::attempts.eq(stash::attempts + 1),
            stash::payload_failures.eq(stash::payload_failures + failure.payload_failures()),
            stash::next_attempt_at_ms.eq(failure.next_attempt_at_ms),
            stash::first_failed_at_ms.eq(coalesce(stash::first_failed_at_ms, now_ms).nullable()),
            stash::last_failed_at_ms.eq(now_ms),
            stash::last_class.eq(failure.class.as_str()),
            stash::last_reason.eq(&failure.reason),
            stash::last_status.eq(failure.status.map(i32::from)),
        ))
        .execute(connection)?;
    Ok(())
}

/// How many rows are buried at once.
const BURY_ROWS: i64 = 500;

/// Turns pending rows of a client into dead ones, the oldest first. Returns how many: 0 when none is left.
pub(super) fn bury(
    connection: &mut SqliteConnection,
    client: &ClientId,
    ownership: Ownership,
    reason: &str,
    now_ms: i64,
) -> JobResult<u64> {
    ownership::check(connection, ownership)?;
    let oldest: Vec<i64> = stash::table
        .filter(stash::client.eq(client.as_str()))
        .filter(stash::state.eq(RowState::Pending.as_str()))
        .order((stash::incarnation, stash::partition, stash::offset))
        .limit(BURY_ROWS)
        .select(stash::id)
        .load(connection)?;
    let buried = diesel::update(stash::table)
        .filter(stash::id.eq_any(oldest))
        .set((
            stash::state.eq(RowState::Dead.as_str()),
            stash::claim.eq(None::<i64>),
            stash::first_failed_at_ms.eq(coalesce(stash::first_failed_at_ms, now_ms).nullable()),
            stash::last_failed_at_ms.eq(now_ms),
            stash::last_reason.eq(reason),
        ))
        .execute(connection)?;
    Ok(buried as u64)
}
