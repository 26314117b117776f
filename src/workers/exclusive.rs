//! Work that one replica does at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::metrics::Metrics;
use crate::ports::StoreResult;
use crate::ports::clock::Clock;
use crate::ports::locks::{Lease, Locks};

/// Runs work under a lease.
#[derive(Clone)]
pub struct Exclusive {
    /// Where the leases are.
    pub locks: Arc<dyn Locks>,
    /// By which a holder knows how long it may go on without a renewal.
    pub clock: Arc<dyn Clock>,
    /// Where runs are counted.
    pub metrics: Metrics,
}

/// Rises with each holder of a lease. An effect that leaves the store carries it, so that a holder who does not know yet that he is none
/// any more is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence(pub i64);

/// What became of the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Run<T> {
    /// It was done.
    Ran(T),
    /// Another does it right now.
    Skipped,
    /// The lease was lost on the way, and the work dropped.
    Lost,
}

impl Exclusive {
    /// Does the work if nobody else holds `key`; renews the lease meanwhile. A holder that is lost is followed after `ttl`. Keys are few: they
    /// are labels of a metric.
    ///
    /// # Errors
    /// When the lease could not be asked for.
    pub async fn run<T, Fut: Future<Output = T>>(
        &self,
        key: &str,
        ttl: Duration,
        work: impl FnOnce(Fence) -> Fut,
    ) -> StoreResult<Run<T>> {
        self.run_as(key, key, ttl, work).await
    }

    /// The same for keys of which there are many: they are counted as `label`.
    ///
    /// # Errors
    /// When the lease could not be asked for.
    pub async fn run_as<T, Fut: Future<Output = T>>(
        &self,
        label: &str,
        key: &str,
        ttl: Duration,
        work: impl FnOnce(Fence) -> Fut,
    ) -> StoreResult<Run<T>> {
        let asked = self.clock.boot_ms();
        let Some(lease) = self.locks.acquire(key, millis(ttl)).await? else {
            self.count(label, "skipped");
            return Ok(Run::Skipped);
        };
        let work = work(Fence(lease.token));
        let run = tokio::select! {
            biased;
            () = self.hold(&lease, asked, ttl) => Run::Lost,
            value = work => Run::Ran(value),
        };
        if let Run::Ran(_) = run {
            self.count(label, "ran");
            // Not given back, it ends by itself.
            if let Err(err) = self.locks.release(&lease).await {
                log::warn!("lease not given back err={err} key={key}");
            }
        } else {
            self.count(label, "lost");
            log::warn!("work dropped err=its lease was lost key={key}");
        }
        Ok(run)
    }

    fn count(&self, label: &str, outcome: &str) {
        self.metrics.exclusive_runs.with_label_values(&[label, outcome]).inc();
    }

    /// Renews a lease; comes back when it is lost.
    async fn hold(&self, lease: &Lease, asked: i64, ttl: Duration) {
        let mut deadline = asked + millis(ttl);
        let mut pause = ttl / 3;
        loop {
            sleep(pause.min(until(deadline, self.clock.boot_ms()))).await;
            let asked = self.clock.boot_ms();
            let left = until(deadline, asked);
            if left.is_zero() {
                return;
            }
            let renewed = self.locks.renew(lease, millis(ttl));
            match tokio::time::timeout(left, renewed).await {
                Ok(Ok(true)) => {
                    deadline = asked + millis(ttl);
                    pause = ttl / 3;
                }
                Ok(Ok(false)) | Err(_) => return,
                Ok(Err(_)) => pause = ttl / 20,
            }
        }
    }
}

fn until(deadline: i64, now: i64) -> Duration {
    Duration::from_millis(u64::try_from(deadline - now).unwrap_or(0))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2)
}
