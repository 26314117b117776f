//! What must be remembered of a log outside of it: a log that was deleted and made again does not know that it was.

use std::collections::BTreeMap;

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

    /// Whether this consumer group was never seen before. From now on it was.
    fn is_new_group<'a>(&'a self, group: &'a str) -> BoxFuture<'a, StoreResult<bool>>;
}
