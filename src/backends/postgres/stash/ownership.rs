//! Who may write rows, and who may send them.

use std::collections::HashMap;

use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{Array, BigInt, Binary, Bool};
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use super::super::errors::{JobError, JobResult};
use super::super::key;
use super::super::schema::{drain_leases, partitions};
use crate::domain::config::ClientId;
use crate::ports::stash::{DrainLease, Ownership};

fn place(ownership: Ownership) -> (i64, i64) {
    (ownership.incarnation.into(), ownership.partition.into())
}

/// Raises the epoch of a partition, which is read from this offset on. It waits for every write under the epoch before to end.
pub(super) async fn take(
    connection: &mut AsyncPgConnection,
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
        .get_result(connection)
        .await?;
    Ok(Ownership { incarnation, partition, epoch })
}

#[derive(QueryableByName)]
struct Epoch {
    #[diesel(sql_type = BigInt)]
    incarnation: i64,
    #[diesel(sql_type = BigInt)]
    partition: i64,
    #[diesel(sql_type = BigInt)]
    epoch: i64,
}

/// The epochs of partitions, which stay so until the transaction ends. Locked in one order: nobody waits in a circle.
pub(super) struct Epochs(HashMap<(i64, i64), i64>);

impl Epochs {
    pub(super) async fn hold(
        connection: &mut AsyncPgConnection,
        of: impl Iterator<Item = Ownership>,
    ) -> JobResult<Self> {
        const HOLD: &str = "SELECT incarnation, partition, epoch FROM partitions
            WHERE (incarnation, partition) IN (SELECT * FROM unnest($1, $2))
            ORDER BY incarnation, partition FOR SHARE";
        let (incarnations, numbers): (Vec<i64>, Vec<i64>) = of.map(place).unzip();
        let rows: Vec<Epoch> = sql_query(HOLD)
            .bind::<Array<BigInt>, _>(incarnations)
            .bind::<Array<BigInt>, _>(numbers)
            .load(connection)
            .await?;
        Ok(Self(rows.into_iter().map(|row| ((row.incarnation, row.partition), row.epoch)).collect()))
    }

    pub(super) fn check(&self, ownership: Ownership) -> JobResult<()> {
        if self.0.get(&place(ownership)) == Some(&ownership.epoch) {
            return Ok(());
        }
        Err(JobError::fenced(format!(
            "partition {} is not owned in epoch {}",
            ownership.partition, ownership.epoch
        )))
    }
}

/// Whether the partition is owned in this epoch, and stays so until the transaction ends.
pub(super) async fn check(connection: &mut AsyncPgConnection, ownership: Ownership) -> JobResult<()> {
    Epochs::hold(connection, std::iter::once(ownership)).await?.check(ownership)
}

/// Rows below this offset may be drained. Under one ownership it never goes back. One statement: it sees the row as it is when it has it.
pub(super) async fn commit(
    connection: &mut AsyncPgConnection,
    ownership: Ownership,
    next_offset: i64,
) -> JobResult<()> {
    const COMMIT: &str = "UPDATE partitions SET committed = greatest(committed, $4)
        WHERE incarnation = $1 AND partition = $2 AND epoch = $3";
    let (incarnation, partition) = place(ownership);
    let owned = sql_query(COMMIT)
        .bind::<BigInt, _>(incarnation)
        .bind::<BigInt, _>(partition)
        .bind::<BigInt, _>(ownership.epoch)
        .bind::<BigInt, _>(next_offset)
        .execute(connection)
        .await?;
    // Says who does not own it.
    if owned == 0 { check(connection, ownership).await } else { Ok(()) }
}

fn lost(client: &ClientId) -> JobError {
    JobError::fenced(format!("the drain of {client} is another's"))
}

#[derive(QueryableByName)]
struct Token {
    #[diesel(sql_type = Binary)]
    client: Vec<u8>,
    #[diesel(sql_type = BigInt)]
    token: i64,
}

/// The tokens of the drain leases of clients, which stay so until the transaction ends.
pub(super) struct Tokens(HashMap<Vec<u8>, i64>);

impl Tokens {
    pub(super) async fn hold(
        connection: &mut AsyncPgConnection,
        of: impl Iterator<Item = &ClientId>,
    ) -> JobResult<Self> {
        const HOLD: &str =
            "SELECT client, token FROM drain_leases WHERE client = ANY($1) ORDER BY client FOR SHARE";
        let clients: Vec<&[u8]> = of.map(|client| client.as_str().as_bytes()).collect();
        if clients.is_empty() {
            return Ok(Self(HashMap::new()));
        }
        let rows: Vec<Token> = sql_query(HOLD).bind::<Array<Binary>, _>(clients).load(connection).await?;
        Ok(Self(rows.into_iter().map(|row| (row.client, row.token)).collect()))
    }

    /// Whether the lease is still held under this token; time plays no part: nobody else took it.
    pub(super) fn check(&self, client: &ClientId, token: i64) -> JobResult<()> {
        if self.0.get(client.as_str().as_bytes()) == Some(&token) { Ok(()) } else { Err(lost(client)) }
    }
}

/// A lease as it stands in the store.
#[derive(QueryableByName)]
struct Lease {
    #[diesel(sql_type = BigInt)]
    token: i64,
    #[diesel(sql_type = BigInt)]
    incarnation: i64,
    #[diesel(sql_type = BigInt)]
    epoch: i64,
    #[diesel(sql_type = Bool)]
    expired: bool,
}

impl Lease {
    /// An earlier life of the same owner took it, and its requests have ended; or an owner before it, whose permission to send has: a client has
    /// one partition in a log. Of owners by another log nothing is known but the time.
    fn is_free_for(&self, ownership: Ownership) -> bool {
        let same_log = self.incarnation == i64::from(ownership.incarnation);
        self.expired || same_log && self.epoch <= ownership.epoch
    }
}

/// Takes or renews the lease.
pub(super) async fn lease(
    connection: &mut AsyncPgConnection,
    client: &ClientId,
    ownership: Ownership,
    held: Option<i64>,
    ttl_ms: i64,
) -> JobResult<DrainLease> {
    const FIND: &str = concat!(
        "SELECT token, incarnation, epoch, deadline_ms <= ",
        store_now_ms!(),
        " AS expired FROM drain_leases WHERE client = $1 FOR UPDATE"
    );
    // A row that came since it was not found is another's.
    const TAKE: &str = concat!(
        "INSERT INTO drain_leases AS found (client, token, deadline_ms, incarnation, epoch)
        VALUES ($1, $2, ",
        store_now_ms!(),
        " + $3, $4, $5)
        ON CONFLICT (client) DO UPDATE SET token = excluded.token, deadline_ms = excluded.deadline_ms,
            incarnation = excluded.incarnation, epoch = excluded.epoch
        WHERE found.token = $6"
    );
    check(connection, ownership).await?;
    let client_key = key(client.as_str())?;
    let found: Option<Lease> =
        sql_query(FIND).bind::<Binary, _>(client_key).get_result(connection).await.optional()?;
    let token = match (held, &found) {
        (Some(held), Some(lease)) if held == lease.token => held,
        (None, Some(lease)) if lease.is_free_for(ownership) => lease.token + 1,
        (None, None) => 1,
        _ => return Err(lost(client)),
    };
    let written = sql_query(TAKE)
        .bind::<Binary, _>(client_key)
        .bind::<BigInt, _>(token)
        .bind::<BigInt, _>(ttl_ms)
        .bind::<BigInt, _>(i64::from(ownership.incarnation))
        .bind::<BigInt, _>(ownership.epoch)
        .bind::<BigInt, _>(found.map_or(0, |lease| lease.token))
        .execute(connection)
        .await?;
    if written == 1 { Ok(DrainLease { token }) } else { Err(lost(client)) }
}

/// Gives the lease back. Its token counts for nothing from now on.
pub(super) async fn release(
    connection: &mut AsyncPgConnection,
    client: &ClientId,
    token: i64,
) -> JobResult<()> {
    diesel::update(drain_leases::table.find(key(client.as_str())?))
        .filter(drain_leases::token.eq(token))
        .set((drain_leases::token.eq(token + 1), drain_leases::deadline_ms.eq(0)))
        .execute(connection)
        .await?;
    Ok(())
}
