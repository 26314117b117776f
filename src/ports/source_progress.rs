//! How far the change events are read and routed: what a resync waits for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{BoxFuture, StoreResult};

/// A place in each partition of the source stream: what stands before it is meant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourcePlaces(pub BTreeMap<(Arc<str>, i32), i64>);

impl SourcePlaces {
    /// Whether the stream has this topic.
    pub fn has_topic(&self, topic: &str) -> bool {
        self.0.keys().any(|(known, _)| **known == *topic)
    }
}

/// How far the source stream is read.
pub trait SourceProgress: Send + Sync {
    /// Where its partitions end now.
    fn ends(&self) -> BoxFuture<'_, StoreResult<SourcePlaces>>;

    /// Waits until the transfers of everything that stands before these places are in the transfer log, but not longer than `within`. Whether
    /// they are.
    fn passes<'a>(&'a self, places: &'a SourcePlaces, within: Duration) -> BoxFuture<'a, StoreResult<bool>>;
}
