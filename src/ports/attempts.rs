//! Attempts to deliver, as they are remembered: those that failed, and what followed them.

use super::{BoxFuture, StoreResult};
use crate::domain::attempt::Attempt;
use crate::domain::config::ClientId;

/// Attempts on a page, at most.
pub const LARGEST_ATTEMPT_PAGE: usize = 1_000;

/// Remembers attempts.
pub trait Attempts: Send + Sync {
    /// Remembers attempts, all or none, in order; of each client that they are of the newest `keep` stay. One that is there already is left
    /// as it is.
    fn append(&self, attempts: Vec<Attempt>, keep: u32) -> BoxFuture<'_, StoreResult<()>>;

    /// A client's attempts with their numbers, the newest first: those with a number below `before`, at most `limit` and
    /// [`LARGEST_ATTEMPT_PAGE`].
    fn list<'a>(
        &'a self,
        client: &'a ClientId,
        before: Option<i64>,
        limit: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<(i64, Attempt)>>>;

    /// Forgets those of before this time (milliseconds since 1970), a part at a time. Returns how many.
    fn purge(&self, before_ms: i64) -> BoxFuture<'_, StoreResult<u64>>;
}
