//! What each replica shows, where the others find it: any of them can show the whole.

use std::time::Duration;

use super::{BoxFuture, StoreResult};
use crate::domain::replica::ReplicaName;

/// Longer texts are not read, and not written.
pub const LONGEST_PART: usize = 16 << 20;

/// More replicas than this are not seen.
pub const MOST_REPLICAS: usize = 64;

/// What a replica shows. What it says is its own affair: here it is text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartTexts {
    /// What is so now. Says which `base` it goes on from.
    pub now: String,
    /// What it goes on from, when that is another than before.
    pub base: Option<String>,
}

/// The parts of all replicas. Each is gone some time after its replica has written for the last time.
pub trait DashboardParts: Send + Sync {
    /// Puts a replica's part in the place of its former one, for `ttl`. False: its base is not there any more, and has to be written again.
    fn publish<'a>(
        &'a self,
        replica: &'a ReplicaName,
        part: PartTexts,
        ttl: Duration,
    ) -> BoxFuture<'a, StoreResult<bool>>;

    /// What each other replica than this says is so now.
    fn others<'a>(
        &'a self,
        replica: &'a ReplicaName,
    ) -> BoxFuture<'a, StoreResult<Vec<(ReplicaName, String)>>>;

    /// What a replica goes on from; `None`: it is gone.
    fn base<'a>(&'a self, replica: &'a ReplicaName) -> BoxFuture<'a, StoreResult<Option<String>>>;
}
