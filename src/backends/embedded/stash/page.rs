//! A page of rows that may be drained.

use diesel::connection::DefaultLoadingMode;
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool};
use diesel::sqlite::SqliteConnection;

use super::super::errors::JobResult;
use super::super::schema::{partitions, stash};
use super::rows::DrainRow;
use crate::backends::stored::sequence;
use crate::domain::config::ClientId;
use crate::domain::stash::{Claim, RowState, StashPage};
use crate::domain::transfer::Sequence;
use crate::ports::stash::LOOKED_AT;

/// A document is held by a row that may not be tried yet, or that somebody has in hand. Such rows are few, but SQLite would choose an index that
/// leads to all rows of the document.
const HELD: &str = "EXISTS (SELECT 1 FROM stash AS held INDEXED BY stash_held
    WHERE held.client = stash.client AND held.document_hash = stash.document_hash
    AND held.state = 'pending' AND (held.next_attempt_at_ms > 0 OR held.claim IS NOT NULL)
    AND (held.next_attempt_at_ms > ";

/// A clock that was set back behind the failure says nothing of the time of the next attempt, which may lie days ahead.
/// A step of less than this only makes the wait so much longer.
const CLOCK_STEP_MS: i64 = 60_000;

/// Where a page begins and how much it holds.
pub(super) struct Bounds {
    /// Behind this place.
    pub(super) after: Option<Sequence>,
    /// Rows, at most.
    pub(super) limit: usize,
    /// Their bytes, but for one row at least.
    pub(super) bytes: usize,
}

/// A row that is looked at, without what is large: most that are left out are never read whole.
#[derive(Queryable)]
struct Candidate {
    id: i64,
    place: (i64, i64, i64),
    bytes: i64,
    committed: Option<i64>,
    held: bool,
}

impl Candidate {
    /// Whether it is below the committed offset of its partition, or of an earlier incarnation, of which nothing is read again.
    fn is_settled(&self, current_incarnation: u32) -> bool {
        let (incarnation, _, offset) = self.place;
        incarnation < i64::from(current_incarnation)
            || self.committed.is_some_and(|committed| offset < committed)
    }
}

/// Pending rows below the committed offset of their partition, or of an earlier incarnation, oldest first, without those of held documents.
pub(super) fn drainable(
    connection: &mut SqliteConnection,
    client: &ClientId,
    current_incarnation: u32,
    bounds: &Bounds,
    held: (i64, Claim),
) -> JobResult<StashPage> {
    let (incarnation, partition, offset) = bounds.after.map_or((-1, -1, -1), |after| {
        (i64::from(after.incarnation), i64::from(after.partition), after.offset)
    });
    // As one value: else every page would walk over the index from the first row on.
    let after_place = sql::<Bool>("(stash.incarnation, stash.partition, stash.offset) > (")
        .bind::<BigInt, _>(incarnation)
        .sql(", ")
        .bind::<BigInt, _>(partition)
        .sql(", ")
        .bind::<BigInt, _>(offset)
        .sql(")");
    let held = sql::<Bool>(HELD)
        .bind::<BigInt, _>(held.0)
        .sql(" AND coalesce(held.last_failed_at_ms, 0) <= ")
        .bind::<BigInt, _>(held.0.saturating_add(CLOCK_STEP_MS))
        .sql(" OR held.claim = ")
        .bind::<BigInt, _>(held.1.0.cast_signed())
        .sql("))");
    let candidates = stash::table
        .left_join(partitions::table.on(
            partitions::incarnation.eq(stash::incarnation).and(partitions::partition.eq(stash::partition)),
        ))
        .filter(stash::client.eq(client.as_str()))
        .filter(stash::state.eq(RowState::Pending.as_str()))
        .filter(after_place)
        .order((stash::incarnation, stash::partition, stash::offset))
        .limit(LOOKED_AT as i64)
        .select((
            stash::id,
            (stash::incarnation, stash::partition, stash::offset),
            stash::bytes,
            partitions::committed.nullable(),
            held,
        ))
        .load_iter::<Candidate, DefaultLoadingMode>(connection)?;
    let mut ids = Vec::new();
    let mut end = None;
    let mut looked_at = 0;
    let mut left = bounds.bytes;
    for candidate in candidates {
        let candidate = candidate?;
        if !candidate.is_settled(current_incarnation) {
            // It may be a moment later: nothing behind it is looked at.
            break;
        }
        if !candidate.held {
            let weight = usize::try_from(candidate.bytes).unwrap_or(0);
            if weight > left && !ids.is_empty() {
                break;
            }
            left = left.saturating_sub(weight);
            ids.push(candidate.id);
        }
        end = Some(candidate.place);
        looked_at += 1;
        if ids.len() >= bounds.limit {
            break;
        }
    }
    let mut page = StashPage::default();
    if ids.is_empty() && looked_at < LOOKED_AT {
        return Ok(page);
    }
    if let Some((incarnation, partition, offset)) = end {
        page.end = Some(sequence(incarnation, partition, offset)?);
    }
    for id in ids {
        let row: DrainRow = stash::table.find(id).select(DrainRow::as_select()).first(connection)?;
        page.rows.push(row.read()?);
    }
    Ok(page)
}
