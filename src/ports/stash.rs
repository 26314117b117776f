//! The stash: payloads that could not be delivered, and who may write them. Rows are the truth.

use std::time::Duration;

use super::{BoxFuture, StoreResult};
use crate::domain::config::ClientId;
use crate::domain::dead_row::{DeadRow, DeadRowQuery};
use crate::domain::stash::{Backlog, Claim, StashCheck, StashPage, StashWrite};
use crate::domain::transfer::{DocumentHash, EventId, NewTransfer, Sequence};

/// How many rows a page of the drain looks at, at most: of a client with 1,000,000 of which none may be attempted yet, each question is as
/// quick as of any other.
pub const LOOKED_AT: usize = 2_000;

/// The right to write rows of the clients of a partition: every write names it, and is refused when
/// somebody else took the partition since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ownership {
    /// Of which creation of the transfer log.
    pub incarnation: u32,
    /// Which partition.
    pub partition: u32,
    /// Raised by each new owner.
    pub epoch: i64,
}

/// The right to send a client's rows. Lives beside the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainLease {
    /// Rises with each new holder; every write of a drain names it.
    pub token: i64,
}

/// Writes of one client.
#[derive(Debug, Clone)]
pub struct StashBatch {
    /// Whose.
    pub client: ClientId,
    /// By which right.
    pub ownership: Ownership,
    /// For writes of a drain: refused when the lease is held by another.
    pub lease: Option<i64>,
    /// All of them or none.
    pub writes: Vec<StashWrite>,
}

/// The stash.
pub trait Stash: Send + Sync {
    /// Takes a partition over: raises its epoch, so that writes of the owner before are refused. From `next_offset` on it is read again, also
    /// when it was committed further before (the group's place was lost, or set back): only rows below it may be drained.
    fn take_ownership(
        &self,
        incarnation: u32,
        partition: u32,
        next_offset: i64,
    ) -> BoxFuture<'_, StoreResult<Ownership>>;

    /// Records that the partition is committed up to `next_offset`, beside the rows: rows below it may be drained. Under one
    /// ownership it never goes back.
    fn committed(&self, ownership: Ownership, next_offset: i64) -> BoxFuture<'_, StoreResult<()>>;

    /// Applies batches in order. The outer error: nothing was written. An inner error: that batch was not
    /// written, the others were.
    fn apply(&self, batches: Vec<StashBatch>) -> BoxFuture<'_, StoreResult<Vec<StoreResult<()>>>>;

    /// What is known of these documents and events of a client.
    fn check<'a>(
        &'a self,
        client: &'a ClientId,
        documents: Vec<DocumentHash>,
        events: Vec<EventId>,
    ) -> BoxFuture<'a, StoreResult<StashCheck>>;

    /// Takes or renews the drain lease of a client: with `held` renews that token, else takes it, at once also from an earlier life of this
    /// owner (what that one sent has ended) and from an owner before it (that one's permission to send has ended). `Fenced` when the token is
    /// another's, or while an owner by another log holds it: `ttl_ms` by the store's clock since it was asked for last.
    fn lease_drain<'a>(
        &'a self,
        client: &'a ClientId,
        ownership: Ownership,
        held: Option<i64>,
        ttl_ms: i64,
    ) -> BoxFuture<'a, StoreResult<DrainLease>>;

    /// Gives the drain lease back. Not an error when it is another's by now.
    fn release_drain<'a>(&'a self, client: &'a ClientId, token: i64) -> BoxFuture<'a, StoreResult<()>>;

    /// Pending rows of a client that may be drained (below the committed offset of their partition), oldest first, above
    /// `after`, at most `limit` rows or about `bytes` (one at least). Rows of earlier incarnations come first. Left out are whole
    /// documents that are held: one of their rows carries the claim of `held`, or may not be attempted before its time
    /// (unless the clock was set back, by more than a minute, behind the failure that set it). A page looks at [`LOOKED_AT`] rows at most, so it
    /// may end before it is full, even without a row.
    fn drainable<'a>(
        &'a self,
        client: &'a ClientId,
        after: Option<Sequence>,
        held: (i64, Claim),
        limit: usize,
        bytes: usize,
    ) -> BoxFuture<'a, StoreResult<StashPage>>;

    /// What waits for a client.
    fn backlog<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Backlog>>;

    /// What waits for every client that has rows.
    fn backlogs(&self) -> BoxFuture<'_, StoreResult<Vec<(ClientId, Backlog)>>>;

    /// Turns pending rows of a client into dead ones, a part of them: the client is gone, may have millions, and may come back. Returns how
    /// many; 0: there are none.
    fn bury<'a>(
        &'a self,
        client: &'a ClientId,
        ownership: Ownership,
        reason: &'a str,
    ) -> BoxFuture<'a, StoreResult<u64>>;

    /// Removes at most `limit` rows that are dead or superseded, and were stashed, tried and buried at least `older_than` ago by the
    /// store's clock (one in a file, whose clock is that of its machine, goes two days further than the last time, at most). Returns how many.
    fn purge(&self, older_than: Duration, limit: usize) -> BoxFuture<'_, StoreResult<u64>>;

    /// Rows that were given up, without their payloads.
    fn dead_rows(&self, query: DeadRowQuery) -> BoxFuture<'_, StoreResult<Vec<DeadRow>>>;

    /// One row that was given up, without its payload; `None`: there is none of this event.
    fn dead_row<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<DeadRow>>>;

    /// The payload of one row that was given up, as it was routed; `None`: there is none of this event.
    fn dead_payload<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<NewTransfer>>>;

    /// Deletes one row that was given up. `false`: there is none of this event.
    fn delete_dead<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<bool>>;
}
