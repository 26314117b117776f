//! What is remembered of logs.

use std::sync::Arc;
use std::time::Duration;

use diesel::dsl::{max, sql};
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};

use super::database::Database;
use super::errors::JobResult;
use super::schema::{partitions, source_groups, transfer_logs};
use crate::ports::log_registry::{GroupBegin, KnownLog, LogRegistry};
use crate::ports::{BoxFuture, StoreError, StoreResult};

/// Milliseconds since 1970, by the store's clock.
const NOW_MS: &str = "(extract(epoch FROM now()) * 1000)::bigint";

pub(super) struct PgLogRegistry {
    database: Arc<Database>,
}

impl PgLogRegistry {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

fn small(number: i64, what: &str) -> StoreResult<u32> {
    number.try_into().map_err(|_| StoreError::Refused(format!("stored {what} is broken")))
}

async fn find(connection: &mut AsyncPgConnection, name: &str) -> JobResult<Option<KnownLog>> {
    let newest: Option<(i64, i64)> = transfer_logs::table
        .filter(transfer_logs::name.eq(name))
        .order(transfer_logs::incarnation.desc())
        .select((transfer_logs::incarnation, transfer_logs::partitions))
        .first(connection)
        .await
        .optional()?;
    let Some((incarnation, count)) = newest else { return Ok(None) };
    let committed: Vec<(i64, i64)> = partitions::table
        .filter(partitions::incarnation.eq(incarnation))
        .select((partitions::partition, partitions::committed))
        .load(connection)
        .await?;
    let committed = committed
        .into_iter()
        .map(|(partition, offset)| Ok((small(partition, "partition")?, offset)))
        .collect::<StoreResult<_>>()?;
    Ok(Some(KnownLog {
        incarnation: small(incarnation, "incarnation")?,
        partitions: small(count, "count of partitions")?,
        committed,
    }))
}

/// An incarnation is the second of its creation, or one more than the last: it rises even over a database that was lost, and with it what
/// receivers compare.
async fn create(connection: &mut AsyncPgConnection, name: &str, partitions: u32) -> JobResult<()> {
    let (last, now_ms): (Option<i64>, i64) = transfer_logs::table
        .select((max(transfer_logs::incarnation), sql::<BigInt>(NOW_MS)))
        .first(connection)
        .await?;
    let incarnation = last.map_or(1, |last| last + 1).max(now_ms / 1000);
    diesel::insert_into(transfer_logs::table)
        .values((
            transfer_logs::incarnation.eq(incarnation),
            transfer_logs::name.eq(name),
            transfer_logs::partitions.eq(i64::from(partitions)),
            transfer_logs::created_at_ms.eq(now_ms),
        ))
        .execute(connection)
        .await?;
    Ok(())
}

async fn begin_group(
    connection: &mut AsyncPgConnection,
    group: &str,
    within_ms: i64,
) -> JobResult<GroupBegin> {
    let now_ms = || sql::<BigInt>(NOW_MS);
    let inserted = diesel::insert_into(source_groups::table)
        .values((
            source_groups::name.eq(group),
            source_groups::seen_at_ms.eq(now_ms()),
            source_groups::begun.eq(false),
        ))
        .on_conflict_do_nothing()
        .execute(connection)
        .await?;
    if inserted == 1 {
        return Ok(GroupBegin::Ours);
    }
    let taken_over = diesel::update(source_groups::table.find(group))
        .filter(source_groups::begun.eq(false))
        .filter((source_groups::seen_at_ms + within_ms).lt(now_ms()))
        .set(source_groups::seen_at_ms.eq(now_ms()))
        .execute(connection)
        .await?;
    if taken_over == 1 {
        return Ok(GroupBegin::Ours);
    }
    let begun: bool =
        source_groups::table.find(group).select(source_groups::begun).first(connection).await?;
    Ok(if begun { GroupBegin::Known } else { GroupBegin::Others })
}

impl LogRegistry for PgLogRegistry {
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, StoreResult<Option<KnownLog>>> {
        let name = name.to_owned();
        Box::pin(self.database.run(|connection| Box::pin(async move { find(connection, &name).await })))
    }

    fn register<'a>(
        &'a self,
        name: &'a str,
        partitions: u32,
        known: Option<u32>,
    ) -> BoxFuture<'a, StoreResult<KnownLog>> {
        let name = name.to_owned();
        Box::pin(self.database.transaction(move |connection| {
            Box::pin(async move {
                // Two replicas that found the same: the second waits here, and then finds what the first one made.
                connection.batch_execute("LOCK TABLE transfer_logs IN SHARE ROW EXCLUSIVE MODE").await?;
                let found = find(connection, &name).await?;
                if let Some(found) = found
                    && Some(found.incarnation) != known
                {
                    return Ok(found);
                }
                create(connection, &name, partitions).await?;
                let missing = || StoreError::Unavailable("what was just created is not there".into());
                Ok(find(connection, &name).await?.ok_or_else(missing)?)
            })
        }))
    }

    fn begin_group<'a>(&'a self, group: &'a str, within: Duration) -> BoxFuture<'a, StoreResult<GroupBegin>> {
        let group = group.to_owned();
        let within_ms = i64::try_from(within.as_millis()).unwrap_or(i64::MAX);
        Box::pin(self.database.run(move |connection| {
            let group = group.clone();
            Box::pin(async move { begin_group(connection, &group, within_ms).await })
        }))
    }

    fn group_begun<'a>(&'a self, group: &'a str) -> BoxFuture<'a, StoreResult<()>> {
        let group = group.to_owned();
        Box::pin(self.database.run(|connection| {
            Box::pin(async move {
                diesel::update(source_groups::table.find(&group))
                    .set(source_groups::begun.eq(true))
                    .execute(connection)
                    .await?;
                Ok(())
            })
        }))
    }
}
