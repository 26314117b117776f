//! The stash. Rows, the committed offsets that allow to drain them, epochs and drain leases stand in one file with one
//! writer: a check and the write that it allows are one transaction.

mod apply;
mod dead_rows;
mod older;
mod ownership;
mod page;
mod purge;
mod reads;
mod rows;
mod view;
mod writes;

use std::sync::Arc;
use std::time::Duration;

pub(super) use self::view::SqliteStashRows;
use super::database::Database;
use crate::domain::config::ClientId;
use crate::domain::dead_row::{DeadRow, DeadRowQuery};
use crate::domain::stash::{Backlog, Claim, StashCheck, StashPage};
use crate::domain::transfer::{DocumentHash, EventId, NewTransfer, Sequence};
use crate::ports::clock::Clock;
use crate::ports::stash::{DrainLease, Ownership, Stash, StashBatch};
use crate::ports::{BoxFuture, StoreResult};

pub(super) struct SqliteStash {
    database: Arc<Database>,
    /// Rows of an earlier creation of the log may all be drained: nothing of it is read again.
    incarnation: u32,
    clock: Arc<dyn Clock>,
}

impl SqliteStash {
    pub(super) fn new(database: Arc<Database>, incarnation: u32, clock: Arc<dyn Clock>) -> Self {
        Self { database, incarnation, clock }
    }
}

impl Stash for SqliteStash {
    fn take_ownership(
        &self,
        incarnation: u32,
        partition: u32,
        next_offset: i64,
    ) -> BoxFuture<'_, StoreResult<Ownership>> {
        Box::pin(
            self.database
                .write(move |connection| ownership::take(connection, incarnation, partition, next_offset)),
        )
    }

    fn committed(&self, ownership: Ownership, next_offset: i64) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.database.write(move |connection| ownership::commit(connection, ownership, next_offset)))
    }

    fn apply(&self, batches: Vec<StashBatch>) -> BoxFuture<'_, StoreResult<Vec<StoreResult<()>>>> {
        Box::pin(apply::apply(&self.database, &self.clock, batches))
    }

    fn check<'a>(
        &'a self,
        client: &'a ClientId,
        documents: Vec<DocumentHash>,
        events: Vec<EventId>,
    ) -> BoxFuture<'a, StoreResult<StashCheck>> {
        let client = client.clone();
        Box::pin(self.database.read(move |connection| reads::check(connection, &client, &documents, &events)))
    }

    fn lease_drain<'a>(
        &'a self,
        client: &'a ClientId,
        ownership: Ownership,
        held: Option<i64>,
        _: i64,
    ) -> BoxFuture<'a, StoreResult<DrainLease>> {
        let client = client.clone();
        Box::pin(
            self.database.write(move |connection| ownership::lease(connection, &client, ownership, held)),
        )
    }

    fn release_drain<'a>(&'a self, client: &'a ClientId, token: i64) -> BoxFuture<'a, StoreResult<()>> {
        let client = client.clone();
        Box::pin(self.database.write(move |connection| ownership::release(connection, &client, token)))
    }

    fn drainable<'a>(
        &'a self,
        client: &'a ClientId,
        after: Option<Sequence>,
        held: (i64, Claim),
        limit: usize,
        bytes: usize,
    ) -> BoxFuture<'a, StoreResult<StashPage>> {
        let (client, incarnation) = (client.clone(), self.incarnation);
        let bounds = page::Bounds { after, limit, bytes };
        Box::pin(
            self.database
                .read(move |connection| page::drainable(connection, &client, incarnation, &bounds, held)),
        )
    }

    fn backlog<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Backlog>> {
        let client = client.clone();
        Box::pin(self.database.read(move |connection| reads::backlog(connection, &client)))
    }

    fn backlogs(&self) -> BoxFuture<'_, StoreResult<Vec<(ClientId, Backlog)>>> {
        Box::pin(self.database.read(reads::backlogs))
    }

    fn bury<'a>(
        &'a self,
        client: &'a ClientId,
        ownership: Ownership,
        reason: &'a str,
    ) -> BoxFuture<'a, StoreResult<u64>> {
        let (client, reason, now_ms) = (client.clone(), reason.to_owned(), self.clock.now_ms());
        Box::pin(self.database.write_in_spare_time(move |connection| {
            writes::bury(connection, &client, ownership, &reason, now_ms)
        }))
    }

    fn purge(&self, older_than: Duration, limit: usize) -> BoxFuture<'_, StoreResult<u64>> {
        let age_ms = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
        let before_ms = self.clock.now_ms().saturating_sub(age_ms);
        Box::pin(
            self.database.write_in_spare_time(move |connection| purge::purge(connection, before_ms, limit)),
        )
    }

    fn dead_rows(&self, query: DeadRowQuery) -> BoxFuture<'_, StoreResult<Vec<DeadRow>>> {
        Box::pin(self.database.read(move |connection| dead_rows::list(connection, &query)))
    }

    fn dead_row<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<DeadRow>>> {
        let (client, event) = (client.clone(), event.clone());
        Box::pin(self.database.read(move |connection| dead_rows::one(connection, &client, &event)))
    }

    fn dead_payload<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<NewTransfer>>> {
        let (client, event) = (client.clone(), event.clone());
        Box::pin(self.database.read(move |connection| dead_rows::payload(connection, &client, &event)))
    }

    fn delete_dead<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<bool>> {
        let (client, event) = (client.clone(), event.clone());
        Box::pin(self.database.write(move |connection| dead_rows::delete(connection, &client, &event)))
    }
}

/// What the tests of plans start from.
#[cfg(test)]
mod tests {
    use diesel::prelude::*;
    use diesel::sql_types::Text;
    use diesel::sqlite::SqliteConnection;
    use diesel_migrations::MigrationHarness as _;

    use super::super::TABLES;

    /// A file in memory, with all tables.
    pub(super) fn migrated() -> SqliteConnection {
        let mut connection = SqliteConnection::establish(":memory:").unwrap();
        connection.run_pending_migrations(TABLES).unwrap();
        connection
    }

    #[derive(QueryableByName)]
    struct Plan {
        #[diesel(sql_type = Text)]
        detail: String,
    }

    /// What SQLite does for a statement. What is not bound is NULL.
    pub(super) fn plan(connection: &mut SqliteConnection, statement: &str) -> String {
        let steps: Vec<Plan> =
            diesel::sql_query(format!("EXPLAIN QUERY PLAN {statement}")).load(connection).unwrap();
        steps.into_iter().map(|step| step.detail).collect::<Vec<_>>().join("\n")
    }
}
