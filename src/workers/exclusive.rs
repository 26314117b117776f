//! Work that one replica does at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::sleep;

use crate::metrics::Metrics;
use crate::ports::StoreResult;
use crate::ports::clock::Clock;
use crate::ports::event_log::StillHeld;
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
        self.run_as(key, key, ttl, |fence, _| work(fence)).await
    }

    /// The same for keys of which there are many: they are counted as `label`. The work also gets to know whether the lease is held, for what
    /// it has others do: that is not dropped with it.
    ///
    /// # Errors
    /// When the lease could not be asked for.
    pub async fn run_as<T, Fut: Future<Output = T>>(
        &self,
        label: &str,
        key: &str,
        ttl: Duration,
        work: impl FnOnce(Fence, StillHeld) -> Fut,
    ) -> StoreResult<Run<T>> {
        let asked = self.clock.boot_ms();
        let Some(lease) = self.locks.acquire(key, millis(ttl)).await? else {
            self.count(label, "skipped");
            return Ok(Run::Skipped);
        };
        let held_until = Arc::new(AtomicI64::new(asked + millis(ttl)));
        // Also when this future is dropped.
        let _over = Over(Arc::clone(&held_until));
        let work = work(Fence(lease.token), self.still_held(&held_until));
        let run = tokio::select! {
            biased;
            () = self.hold(&lease, &held_until, ttl) => Run::Lost,
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

    fn still_held(&self, until: &Arc<AtomicI64>) -> StillHeld {
        let (clock, until) = (Arc::clone(&self.clock), Arc::clone(until));
        Arc::new(move || clock.boot_ms() < until.load(Ordering::Acquire))
    }

    /// Renews a lease; comes back when it is lost.
    async fn hold(&self, lease: &Lease, held_until: &AtomicI64, ttl: Duration) {
        let mut deadline = held_until.load(Ordering::Acquire);
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
                    held_until.store(deadline, Ordering::Release);
                    pause = ttl / 3;
                }
                Ok(Ok(false)) | Err(_) => return,
                Ok(Err(_)) => pause = ttl / 20,
            }
        }
    }
}

/// Says that a lease is not held any more.
struct Over(Arc<AtomicI64>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(i64::MIN, Ordering::Release);
    }
}

fn until(deadline: i64, now: i64) -> Duration {
    Duration::from_millis(u64::try_from(deadline - now).unwrap_or(0))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::clock::SystemClock;
    use crate::ports::{BoxFuture, StoreError};

    /// Gives every lease away, and renews none.
    struct Once;

    impl Locks for Once {
        fn acquire<'a>(&'a self, key: &'a str, _: i64) -> BoxFuture<'a, StoreResult<Option<Lease>>> {
            let lease = Lease { key: key.to_owned(), token: 1 };
            Box::pin(async { Ok(Some(lease)) })
        }

        fn renew<'a>(&'a self, _: &'a Lease, _: i64) -> BoxFuture<'a, StoreResult<bool>> {
            Box::pin(async { Ok(false) })
        }

        fn release<'a>(&'a self, _: &'a Lease) -> BoxFuture<'a, StoreResult<()>> {
            Box::pin(async { Err(StoreError::Unavailable("not needed".to_owned())) })
        }
    }

    fn exclusive() -> Exclusive {
        Exclusive { locks: Arc::new(Once), clock: Arc::new(SystemClock), metrics: Metrics::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn what_others_do_for_the_work_learns_that_the_lease_is_over() {
        let (exclusive, mut held) = (exclusive(), None);
        let run = exclusive.run_as("test", "key", Duration::from_secs(60), |_, still| {
            assert!(still());
            held = Some(still);
            std::future::pending::<()>()
        });
        assert_eq!(run.await, Ok(Run::Lost));
        assert!(held.is_some_and(|held: StillHeld| !held()));
        let run = exclusive.run_as("test", "key", Duration::from_secs(60), async |_, still| still);
        let Ok(Run::Ran(held)) = run.await else { panic!("it ran") };
        assert!(!held(), "the work has ended, and the lease was given back");
    }

    #[tokio::test]
    async fn a_lease_that_nobody_could_renew_in_time_is_over_by_the_boot_clock() {
        let exclusive = exclusive();
        let run = exclusive.run_as("test", "key", Duration::from_millis(50), async |_, still| {
            let held = still();
            // The whole process stands still: nobody is told.
            std::thread::sleep(Duration::from_millis(60));
            (held, still())
        });
        assert_eq!(run.await, Ok(Run::Ran((true, false))));
    }
}
