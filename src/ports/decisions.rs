//! What operators decided, so that it outlives the process and the copies in Redis.

use super::{BoxFuture, StoreResult};
use crate::domain::decision::{Decision, DecisionKind, Subject};

/// The decisions that hold.
pub trait Decisions: Send + Sync {
    /// All of a kind.
    fn list(&self, kind: DecisionKind) -> BoxFuture<'_, StoreResult<Vec<Decision>>>;

    /// Makes a decision. One that holds already holds since it was made first, by whom and why it is said now. Returns it as it holds.
    fn put(&self, kind: DecisionKind, decision: Decision) -> BoxFuture<'_, StoreResult<Decision>>;

    /// Takes a decision back. `false`: there was none.
    fn remove<'a>(&'a self, kind: DecisionKind, subject: &'a Subject) -> BoxFuture<'a, StoreResult<bool>>;

    /// Ready when another process may have decided something: read again. Cancel-safe; for one listener. The default is for a store that
    /// has one process: it never is.
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}
