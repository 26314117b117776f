//! Removing what nobody needs any more.

use std::collections::HashMap;

use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;

use super::super::errors::JobResult;
use super::super::schema::{source_records, transfer_bodies, transfers};
use super::offsets::{self, Stream};

/// Records looked at in one transaction: others wait no longer than that.
pub(super) const CHUNK: usize = 500;

/// Removes source records that every group has committed and that were appended before `before_ms`; looks at the
/// oldest ones only. Returns how many went.
pub(super) fn remove_source(connection: &mut SqliteConnection, before_ms: i64) -> JobResult<usize> {
    let Some(floor) = offsets::floor(connection, Stream::Source, 0)? else { return Ok(0) };
    let oldest: Vec<(i64, i64)> = source_records::table
        .filter(source_records::offset.lt(floor))
        .order(source_records::offset)
        .limit(CHUNK as i64)
        .select((source_records::offset, source_records::timestamp_ms))
        .load(connection)?;
    let mut removed = 0;
    for (offset, _) in oldest.into_iter().filter(|(_, timestamp_ms)| *timestamp_ms < before_ms) {
        removed += diesel::delete(source_records::table.find(offset)).execute(connection)?;
    }
    Ok(removed)
}

/// The same for transfers of a partition. A body goes with the last transfer that refers to it.
pub(super) fn remove_transfers(
    connection: &mut SqliteConnection,
    partition: usize,
    before_ms: i64,
) -> JobResult<usize> {
    let partition = partition as i64;
    let Some(floor) = offsets::floor(connection, Stream::Transfer, partition)? else { return Ok(0) };
    let oldest: Vec<(i64, i64, i64)> = transfers::table
        .filter(transfers::partition.eq(partition))
        .filter(transfers::offset.lt(floor))
        .order(transfers::offset)
        .limit(CHUNK as i64)
        .select((transfers::offset, transfers::appended_at_ms, transfers::body_id))
        .load(connection)?;
    let mut removed = 0;
    let mut bodies: HashMap<i64, i64> = HashMap::new();
    for (offset, _, body) in oldest.into_iter().filter(|(_, appended_at_ms, _)| *appended_at_ms < before_ms) {
        removed += diesel::delete(transfers::table.find((partition, offset))).execute(connection)?;
        *bodies.entry(body).or_default() += 1;
    }
    for (body, refs) in bodies {
        let unused = diesel::delete(transfer_bodies::table.find(body))
            .filter(transfer_bodies::refs.le(refs))
            .execute(connection)?;
        if unused == 0 {
            diesel::update(transfer_bodies::table.find(body))
                .set(transfer_bodies::refs.eq(transfer_bodies::refs - refs))
                .execute(connection)?;
        }
    }
    Ok(removed)
}
