//! Who may write rows, and who may send them.

use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;

use super::super::errors::{JobError, JobResult};
use super::super::schema::{drain_leases, partitions};
use crate::domain::config::ClientId;
use crate::ports::stash::{DrainLease, Ownership, StashBatch};

fn key(ownership: Ownership) -> (i64, i64) {
    (ownership.incarnation.into(), ownership.partition.into())
}

/// Raises the epoch of a partition, which is read from this offset on.
pub(super) fn take(
    connection: &mut SqliteConnection,
    incarnation: u32,
    partition: u32,
    next_offset: i64,
) -> JobResult<Ownership> {
    let epoch = diesel::insert_into(partitions::table)
        .values((
            partitions::incarnation.eq(i64::from(incarnation)),
            partitions::partition.eq(i64::from(partition)),
            partitions::epoch.eq(1),
            partitions::committed.eq(next_offset),
        ))
        .on_conflict((partitions::incarnation, partitions::partition))
        .do_update()
        .set((partitions::epoch.eq(partitions::epoch + 1), partitions::committed.eq(next_offset)))
        .returning(partitions::epoch)
        .get_result(connection)?;
    Ok(Ownership { incarnation, partition, epoch })
}

/// Whether the partition is still owned in this epoch. There is one writer, so it stays so until the transaction ends.
pub(super) fn check(connection: &mut SqliteConnection, ownership: Ownership) -> JobResult<()> {
    let epoch: Option<i64> =
        partitions::table.find(key(ownership)).select(partitions::epoch).first(connection).optional()?;
    if epoch == Some(ownership.epoch) {
        return Ok(());
    }
    Err(JobError::fenced(format!(
        "partition {} is not owned in epoch {}",
        ownership.partition, ownership.epoch
    )))
}

/// Rows below this offset may be drained. Under one ownership it never goes back.
pub(super) fn commit(
    connection: &mut SqliteConnection,
    ownership: Ownership,
    next_offset: i64,
) -> JobResult<()> {
    check(connection, ownership)?;
    diesel::update(partitions::table.find(key(ownership)))
        .filter(partitions::committed.lt(next_offset))
        .set(partitions::committed.eq(next_offset))
        .execute(connection)?;
    Ok(())
}

fn token_of(connection: &mut SqliteConnection, client: &ClientId) -> JobResult<Option<i64>> {
    Ok(drain_leases::table.find(client.as_str()).select(drain_leases::token).first(connection).optional()?)
}

fn lost(client: &ClientId) -> JobError {
    JobError::fenced(format!("the drain of {client} is another's"))
}

/// Whether the lease is still held under this token; time plays no part: nobody else took it.
fn check_lease(connection: &mut SqliteConnection, client: &ClientId, token: i64) -> JobResult<()> {
    if token_of(connection, client)? == Some(token) { Ok(()) } else { Err(lost(client)) }
}

/// Whether what a batch writes may be written, which stays so until the transaction ends.
pub(super) fn check_batch(connection: &mut SqliteConnection, batch: &StashBatch) -> JobResult<()> {
    check(connection, batch.ownership)?;
    batch.lease.map_or(Ok(()), |token| check_lease(connection, &batch.client, token))
}

/// Takes or renews the lease. There is one log and one process: who has the partition has it from earlier owners, or earlier lives of its own.
pub(super) fn lease(
    connection: &mut SqliteConnection,
    client: &ClientId,
    ownership: Ownership,
    held: Option<i64>,
) -> JobResult<DrainLease> {
    check(connection, ownership)?;
    let token = match (held, token_of(connection, client)?) {
        (Some(held), Some(token)) if held == token => return Ok(DrainLease { token }),
        (None, found) => found.map_or(1, |token| token + 1),
        _ => return Err(lost(client)),
    };
    diesel::insert_into(drain_leases::table)
        .values((drain_leases::client.eq(client.as_str()), drain_leases::token.eq(token)))
        .on_conflict(drain_leases::client)
        .do_update()
        .set(drain_leases::token.eq(token))
        .execute(connection)?;
    Ok(DrainLease { token })
}

/// Gives the lease back. Its token counts for nothing from now on.
pub(super) fn release(connection: &mut SqliteConnection, client: &ClientId, token: i64) -> JobResult<()> {
    diesel::update(drain_leases::table.find(client.as_str()))
        .filter(drain_leases::token.eq(token))
        .set(drain_leases::token.eq(token + 1))
        .execute(connection)?;
    Ok(())
}
