//! What must be remembered of a log outside of it: a log that was deleted and made again does not know that it was.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{BoxFuture, StoreResult};

/// A transfer log, as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownLog {
    /// Which creation of it: larger for each.
    pub incarnation: u32,
    /// Its partitions: fixed at its creation.
    pub partitions: u32,
    /// The copies of its committed offsets, by partition. Partitions that nobody took yet are left out.
    pub committed: BTreeMap<u32, i64>,
}

/// Remembers logs.
pub trait LogRegistry: Send + Sync {
    /// The newest creation of the transfer log of this name; `None`: never seen.
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, StoreResult<Option<KnownLog>>>;

    /// Remembers a new creation of a transfer log, unless a replica was quicker since `find` returned `known`. Returns what is
    /// remembered now. Incarnations rise over all names.
    fn register<'a>(
        &'a self,
        name: &'a str,
        partitions: u32,
        known: Option<u32>,
    ) -> BoxFuture<'a, StoreResult<KnownLog>>;

    /// Asks for the right to commit where a consumer group begins. Whoever gets it has `within` for it, and marks it by `group_begun`; after
    /// that another gets the right, for he may have died.
    fn begin_group<'a>(&'a self, group: &'a str, within: Duration) -> BoxFuture<'a, StoreResult<GroupBegin>>;

    /// It is committed where the group begins: nobody does it again.
    fn group_begun<'a>(&'a self, group: &'a str) -> BoxFuture<'a, StoreResult<()>>;
}

/// Whether a consumer group has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBegin {
    /// It is known where.
    Known,
    /// It was never seen, and it is ours to say where.
    Ours,
    /// Another replica is about to say where.
    Others,
}
