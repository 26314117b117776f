//! Old rows go. How old they are is told by a clock that may jump, and then not by much.

use diesel::dsl::min;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel::sqlite::SqliteConnection;

use super::super::errors::JobResult;
use super::super::schema::{stash, stash_purged};
use crate::domain::stash::RowState;

/// How much further rows are removed than the time before. It is done daily: whoever was off for long catches up.
const STEP_MS: i64 = 2 * 24 * 3_600_000;

/// Removes rows that are neither needed nor younger than `before_ms`. The condition on the state is that of their index.
pub(super) fn purge(connection: &mut SqliteConnection, before_ms: i64, limit: usize) -> JobResult<u64> {
    const PURGE: &str = "DELETE FROM stash WHERE id IN (
        SELECT id FROM stash
        WHERE state <> 'pending' AND stashed_at_ms <= ? AND coalesce(last_failed_at_ms, 0) <= ?
        ORDER BY stashed_at_ms LIMIT ?)";
    let last: Option<i64> =
        stash_purged::table.select(stash_purged::until_ms).first(connection).optional()?;
    let oldest: Option<i64> = stash::table
        .filter(stash::state.ne(RowState::Pending.as_str()))
        .select(min(stash::stashed_at_ms))
        .first(connection)?;
    let from = match (last, oldest) {
        // From such a mark it would not come to any row for long: somebody's clock had stood at nought.
        (Some(last), Some(oldest)) if oldest > last.saturating_add(STEP_MS) => Some(oldest),
        (last, oldest) => last.or(oldest),
    };
    let Some(from_ms) = from else { return Ok(0) };
    let until_ms = before_ms.min(from_ms.saturating_add(STEP_MS));
    let purged = diesel::sql_query(PURGE)
        .bind::<BigInt, _>(until_ms)
        .bind::<BigInt, _>(until_ms)
        .bind::<BigInt, _>(i64::try_from(limit).unwrap_or(i64::MAX))
        .execute(connection)?;
    // It comes further with the last part only: all of them are one time.
    let reached_ms = if purged < limit { until_ms.max(from_ms) } else { from_ms };
    if last != Some(reached_ms) {
        diesel::insert_into(stash_purged::table)
            .values((stash_purged::id.eq(1), stash_purged::until_ms.eq(reached_ms)))
            .on_conflict(stash_purged::id)
            .do_update()
            .set(stash_purged::until_ms.eq(reached_ms))
            .execute(connection)?;
    }
    Ok(purged as u64)
}
