//! The stash. Rows, the committed offsets that allow to drain them, epochs and drain leases stand in one file with one
//! writer: a check and the write that it allows are one transaction.

mod dead_rows;
mod ownership;
mod page;
mod reads;
mod rows;
mod view;
mod writes;

use std::sync::Arc;
use std::time::Duration;

pub(super) use self::view::SqliteStashRows;
use super::database::{Database, savepoint};
use super::errors::JobError;
use crate::domain::config::ClientId;
use crate::domain::dead_row::{DeadRow, DeadRowQuery};
use crate::domain::stash::{Backlog, Claim, StashCheck, StashPage};
use crate::domain::transfer::{DocumentHash, EventId, NewTransfer, Sequence};
use crate::ports::clock::Clock;
use crate::ports::stash::{DrainLease, Ownership, Stash, StashBatch};
use crate::ports::{BoxFuture, StoreError, StoreResult};

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
    fn take_ownership(&self, incarnation: u32, partition: u32) -> BoxFuture<'_, StoreResult<Ownership>> {
        Box::pin(self.database.write(move |connection| ownership::take(connection, incarnation, partition)))
    }

    fn committed(&self, ownership: Ownership, next_offset: i64) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.database.write(move |connection| ownership::commit(connection, ownership, next_offset)))
    }

    fn apply(&self, batches: Vec<StashBatch>) -> BoxFuture<'_, StoreResult<Vec<StoreResult<()>>>> {
        let clock = Arc::clone(&self.clock);
        Box::pin(self.database.write_bulk(move |connection| {
            let now_ms = clock.now_ms();
            batches
                .iter()
                .map(|batch| {
                    match savepoint(connection, |connection| writes::apply(connection, batch, now_ms))? {
                        Ok(()) => Ok(Ok(())),
                        // No space, or no file: the other batches would fare no better.
                        Err(error) => match StoreError::from(error) {
                            error if error.is_transient() => Err(JobError::Store(error)),
                            error => Ok(Err(error)),
                        },
                    }
                })
                .collect()
        }))
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
        now_ms: i64,
        ttl_ms: i64,
    ) -> BoxFuture<'a, StoreResult<DrainLease>> {
        let client = client.clone();
        Box::pin(
            self.database.write(move |connection| {
                ownership::lease(connection, &client, ownership, held, now_ms, ttl_ms)
            }),
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

    /// A part at a time: a client may have millions, and others write between. When a part fails, those before it are dead, and the next
    /// call goes on.
    fn bury<'a>(
        &'a self,
        client: &'a ClientId,
        ownership: Ownership,
        reason: &'a str,
    ) -> BoxFuture<'a, StoreResult<u64>> {
        Box::pin(async move {
            let mut buried = 0;
            loop {
                let (client, reason, now_ms) = (client.clone(), reason.to_owned(), self.clock.now_ms());
                let part = self
                    .database
                    .write_bulk(move |connection| {
                        writes::bury(connection, &client, ownership, &reason, now_ms)
                    })
                    .await?;
                if part == 0 {
                    return Ok(buried);
                }
                buried += part;
            }
        })
    }

    fn purge(&self, older_than: Duration, limit: usize) -> BoxFuture<'_, StoreResult<u64>> {
        let age_ms = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
        let before_ms = self.clock.now_ms().saturating_sub(age_ms);
        Box::pin(self.database.write_bulk(move |connection| writes::purge(connection, before_ms, limit)))
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
