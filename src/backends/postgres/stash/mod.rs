//! The stash. Rows, the committed offsets that allow to drain them, epochs and drain leases stand in one database: a check and the
//! write that it allows are one transaction, which holds what it checked (`FOR SHARE`) until it has ended. A plain
//! `WHERE epoch = ...` would pass on a snapshot that is older than the next owner.

mod apply;
mod dead_rows;
mod older;
mod ownership;
mod page;
mod reads;
mod rows;
mod steps;
mod view;
mod writes;

use std::sync::Arc;
use std::time::Duration;

pub(super) use self::view::PgStashRows;
use super::database::Database;
use crate::domain::config::ClientId;
use crate::domain::dead_row::{DeadRow, DeadRowQuery};
use crate::domain::stash::{Backlog, Claim, StashCheck, StashPage};
use crate::domain::transfer::{DocumentHash, EventId, NewTransfer, Sequence};
use crate::ports::stash::{DrainLease, Ownership, Stash, StashBatch};
use crate::ports::{BoxFuture, StoreResult};

pub(super) struct PgStash {
    database: Arc<Database>,
}

impl PgStash {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

impl Stash for PgStash {
    fn take_ownership(
        &self,
        incarnation: u32,
        partition: u32,
        next_offset: i64,
    ) -> BoxFuture<'_, StoreResult<Ownership>> {
        Box::pin(self.database.run(move |connection| {
            Box::pin(ownership::take(connection, incarnation, partition, next_offset))
        }))
    }

    fn committed(&self, ownership: Ownership, next_offset: i64) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(
            self.database
                .run(move |connection| Box::pin(ownership::commit(connection, ownership, next_offset))),
        )
    }

    fn apply(&self, batches: Vec<StashBatch>) -> BoxFuture<'_, StoreResult<Vec<StoreResult<()>>>> {
        Box::pin(apply::apply(&self.database, batches))
    }

    fn check<'a>(
        &'a self,
        client: &'a ClientId,
        documents: Vec<DocumentHash>,
        events: Vec<EventId>,
    ) -> BoxFuture<'a, StoreResult<StashCheck>> {
        let client = client.clone();
        Box::pin(self.database.run(|connection| {
            Box::pin(async move { reads::check(connection, &client, &documents, events).await })
        }))
    }

    fn lease_drain<'a>(
        &'a self,
        client: &'a ClientId,
        ownership: Ownership,
        held: Option<i64>,
        ttl_ms: i64,
    ) -> BoxFuture<'a, StoreResult<DrainLease>> {
        let client = client.clone();
        Box::pin(self.database.transaction(move |connection| {
            Box::pin(async move { ownership::lease(connection, &client, ownership, held, ttl_ms).await })
        }))
    }

    fn release_drain<'a>(&'a self, client: &'a ClientId, token: i64) -> BoxFuture<'a, StoreResult<()>> {
        let client = client.clone();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move { ownership::release(connection, &client, token).await })
        }))
    }

    fn drainable<'a>(
        &'a self,
        client: &'a ClientId,
        after: Option<Sequence>,
        held: (i64, Claim),
        limit: usize,
        bytes: usize,
    ) -> BoxFuture<'a, StoreResult<StashPage>> {
        let client = client.clone();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move { page::drainable(connection, &client, after, held, limit, bytes).await })
        }))
    }

    fn backlog<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Backlog>> {
        let client = client.clone();
        Box::pin(
            self.database
                .run(|connection| Box::pin(async move { reads::backlog(connection, &client).await })),
        )
    }

    fn backlogs(&self) -> BoxFuture<'_, StoreResult<Vec<(ClientId, Backlog)>>> {
        Box::pin(self.database.run(|connection| Box::pin(reads::backlogs(connection))))
    }

    fn bury<'a>(
        &'a self,
        client: &'a ClientId,
        ownership: Ownership,
        reason: &'a str,
    ) -> BoxFuture<'a, StoreResult<u64>> {
        let (client, reason) = (client.clone(), reason.to_owned());
        Box::pin(self.database.transaction(move |connection| {
            Box::pin(async move { writes::bury(connection, &client, ownership, &reason).await })
        }))
    }

    fn purge(&self, older_than: Duration, limit: usize) -> BoxFuture<'_, StoreResult<u64>> {
        Box::pin(self.database.run(move |connection| Box::pin(writes::purge(connection, older_than, limit))))
    }

    fn dead_rows(&self, query: DeadRowQuery) -> BoxFuture<'_, StoreResult<Vec<DeadRow>>> {
        Box::pin(
            self.database
                .run(move |connection| Box::pin(async move { dead_rows::list(connection, &query).await })),
        )
    }

    fn dead_row<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<DeadRow>>> {
        let (client, event) = (client.clone(), event.clone());
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move { dead_rows::one(connection, &client, &event).await })
        }))
    }

    fn dead_payload<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<NewTransfer>>> {
        let (client, event) = (client.clone(), event.clone());
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move { dead_rows::payload(connection, &client, &event).await })
        }))
    }

    fn delete_dead<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<bool>> {
        let (client, event) = (client.clone(), event.clone());
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move { dead_rows::delete(connection, &client, &event).await })
        }))
    }
}
