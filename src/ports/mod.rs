//! What the service needs from the outside, as traits. Each has one contract suite (`tests/contract`) that
//! every backend passes.

pub mod actor_restarts;
pub mod attempts;
pub mod audit;
pub mod blocked_owners;
pub mod client_configs;
pub mod client_states;
pub mod clock;
pub mod dashboard_parts;
pub mod decisions;
pub mod documents;
pub mod event_log;
pub mod findings;
pub mod heavy_jobs;
pub mod job_queue;
pub mod locks;
pub mod log_registry;
pub mod operational_events;
pub mod owner_kicks;
pub mod paused_queues;
pub mod session_keys;
pub mod source_progress;
pub mod stash;
pub mod stash_rows;
pub mod webhook_sender;

pub use futures_util::future::{BoxFuture, LocalBoxFuture};

/// Why a store did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be asked right now (away, locked, out of space): wait, and ask again.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// It will never take this data.
    #[error("store refused the data: {0}")]
    Refused(String),
    /// Somebody else owns the partition or the lease by now: drop what you hold.
    #[error("fenced: {0}")]
    Fenced(String),
}

impl StoreError {
    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// The answer of a store.
pub type StoreResult<T> = Result<T, StoreError>;
