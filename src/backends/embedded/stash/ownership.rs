//! Who may write rows, and who may send them.

use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;

use super::super::errors::{JobError, JobResult};
use super::super::schema::{drain_leases, partitions};
use crate::domain::config::ClientId;
use crate::ports::stash::{DrainLease, Ownership};

fn key(ownership: Ownership) -> (i64, i64) {
    (ownership.incarnation.into(), ownership.partition.into())
}

/// Raises the epoch of a partition.
pub(super) fn take(
    connection: &mut SqliteConnection,
    incarnation: u32,
    partition: u32,
) -> JobResult<Ownership> {
    let epoch = diesel::insert_into(partitions::table)
        .values((
            partitions::incarnation.eq(i64::from(incarnation)),
            partitions::partition.eq(i64::from(partition)),
            partitions::epoch.eq(1),
            partitions::committed.eq(0),
        ))
        .on_conflict((partitions::incarnation, partitions::partition))
        .do_update()
        .set(partitions::epoch.eq(partitions::epoch + 1))
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

/// Rows below this offset may be drained. It never goes back.
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

/// A lease as it stands in the store.
#[derive(Queryable, Selectable)]
#[diesel(table_name = drain_leases)]
struct Lease {
    token: i64,
    deadline_ms: i64,
    incarnation: i64,
    epoch: i64,
}

impl Lease {
    /// The same owner took it: its actor began anew, and the old one's requests have ended.
    fn is_of(&self, ownership: Ownership) -> bool {
        (self.incarnation, self.epoch) == (ownership.incarnation.into(), ownership.epoch)
    }
}

fn lease_of(connection: &mut SqliteConnection, client: &ClientId) -> JobResult<Option<Lease>> {
    Ok(drain_leases::table.find(client.as_str()).select(Lease::as_select()).first(connection).optional()?)
}

fn lost(client: &ClientId) -> JobError {
    JobError::fenced(format!("the drain of {client} is another's"))
}

/// Whether the lease is still held under this token; time plays no part: nobody else took it.
pub(super) fn check_lease(connection: &mut SqliteConnection, client: &ClientId, token: i64) -> JobResult<()> {
    match lease_of(connection, client)? {
        Some(held) if held.token == token => Ok(()),
        _ => Err(lost(client)),
    }
}

/// Takes or renews the lease.
pub(super) fn lease(
    connection: &mut SqliteConnection,
    client: &ClientId,
    ownership: Ownership,
    held: Option<i64>,
    now_ms: i64,
    ttl_ms: i64,
) -> JobResult<DrainLease> {
    check(connection, ownership)?;
    let token = match (held, lease_of(connection, client)?) {
        (Some(held), Some(lease)) if held == lease.token => held,
        (None, Some(lease)) if lease.deadline_ms <= now_ms || lease.is_of(ownership) => lease.token + 1,
        (None, None) => 1,
        _ => return Err(lost(client)),
    };
    let deadline_ms = now_ms.saturating_add(ttl_ms);
    diesel::insert_into(drain_leases::table)
        .values((
            drain_leases::client.eq(client.as_str()),
            drain_leases::token.eq(token),
            drain_leases::deadline_ms.eq(deadline_ms),
            drain_leases::incarnation.eq(i64::from(ownership.incarnation)),
            drain_leases::epoch.eq(ownership.epoch),
        ))
        .on_conflict(drain_leases::client)
        .do_update()
        .set((
            drain_leases::token.eq(token),
            drain_leases::deadline_ms.eq(deadline_ms),
            drain_leases::incarnation.eq(i64::from(ownership.incarnation)),
            drain_leases::epoch.eq(ownership.epoch),
        ))
        .execute(connection)?;
    Ok(DrainLease { token, deadline_ms })
}

/// Gives the lease back. Its token counts for nothing from now on.
pub(super) fn release(connection: &mut SqliteConnection, client: &ClientId, token: i64) -> JobResult<()> {
    diesel::update(drain_leases::table.find(client.as_str()))
        .filter(drain_leases::token.eq(token))
        .set((drain_leases::token.eq(token + 1), drain_leases::deadline_ms.eq(0)))
        .execute(connection)?;
    Ok(())
}
