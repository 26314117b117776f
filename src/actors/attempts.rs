//! Attempts to deliver: how they are recorded.

use std::sync::Arc;
use std::time::Duration;

use super::recorder::{Record, Recorder, Records};
use crate::domain::attempt::Attempt;
use crate::ports::attempts::Attempts;
use crate::ports::{BoxFuture, StoreResult};

/// Takes attempts, and never waits.
pub type AttemptRecorder = Recorder<Attempt>;

impl Record for Attempt {
    const KIND: &'static str = "attempts";
    const WAITING: usize = 5_000;
    const AT_ONCE: usize = 500;
    // Nobody is in a hurry to read them, and the store has more urgent work.
    const LINGER: Duration = Duration::from_millis(250);
}

/// The store of attempts, and how many stay for how long.
pub struct KeptAttempts {
    /// Where they are.
    pub store: Arc<dyn Attempts>,
    /// The newest of each client that stay.
    pub keep: u32,
    /// Older ones are removed.
    pub retention: Duration,
}

impl Records<Attempt> for KeptAttempts {
    fn write(&self, attempts: Vec<Attempt>) -> BoxFuture<'_, StoreResult<()>> {
        if self.keep == 0 {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.store.append(attempts, self.keep)
    }

    fn purge(&self, now_ms: i64) -> BoxFuture<'_, StoreResult<u64>> {
        let retention_ms = i64::try_from(self.retention.as_millis()).unwrap_or(i64::MAX);
        self.store.purge(now_ms.saturating_sub(retention_ms))
    }
}
