//! Limits that hold senders back, because mailboxes do not. A permit rides in the message, and is free again
//! when the message is dropped: after it was handled, or with the actor that broke on it.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// A bounded number of messages under way. A clone shares the limit.
#[derive(Clone, Debug)]
pub struct Permits(Gate);

impl Permits {
    /// At most `count` permits at a time. `observe` is told how long each sender had to wait that had to.
    pub fn new(count: u32, observe: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        Self(Gate::new(count, observe))
    }

    /// Waits for its turn; first come, first served.
    pub async fn acquire(&self) -> Permit {
        self.0.acquire(1).await
    }

    /// A permit if one is free and nobody waits for it.
    pub fn try_acquire(&self) -> Option<Permit> {
        self.0.try_acquire(1)
    }

    /// Permits that are free.
    pub fn available(&self) -> usize {
        self.0.semaphore.available_permits()
    }
}

/// A bounded number of bytes under way. A clone shares the limit.
#[derive(Clone, Debug)]
pub struct ByteBudget(Gate);

impl ByteBudget {
    /// At most `bytes` at a time (under 4 GiB). `observe` is told how long each sender had to wait that had to.
    pub fn new(bytes: u32, observe: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        Self(Gate::new(bytes, observe))
    }

    /// Waits for room; first come, first served, so a large one is not passed by small ones for ever.
    /// What is larger than the whole budget takes all of it: it goes alone.
    pub async fn acquire(&self, bytes: usize) -> Permit {
        self.0.acquire(bytes).await
    }

    /// A permit if there is room now and nobody waits for it.
    pub fn try_acquire(&self, bytes: usize) -> Option<Permit> {
        self.0.try_acquire(bytes)
    }

    /// Bytes that are free.
    pub fn available(&self) -> usize {
        self.0.semaphore.available_permits()
    }
}

/// The right to be under way; dropping it gives it back.
#[derive(Debug)]
#[must_use = "a permit that is dropped limits nothing"]
pub struct Permit {
    _held: Option<OwnedSemaphorePermit>,
}

#[derive(Clone)]
struct Gate {
    semaphore: Arc<Semaphore>,
    capacity: u32,
    observe: Arc<dyn Fn(Duration) + Send + Sync>,
}

impl Gate {
    fn new(capacity: u32, observe: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        let semaphore = Arc::new(Semaphore::new(capacity as usize));
        Self { semaphore, capacity, observe: Arc::new(observe) }
    }

    fn weight(&self, wanted: usize) -> u32 {
        u32::try_from(wanted).unwrap_or(u32::MAX).min(self.capacity)
    }

    fn try_acquire(&self, wanted: usize) -> Option<Permit> {
        let held = Arc::clone(&self.semaphore).try_acquire_many_owned(self.weight(wanted)).ok()?;
        Some(Permit { _held: Some(held) })
    }

    async fn acquire(&self, wanted: usize) -> Permit {
        if let Some(permit) = self.try_acquire(wanted) {
            return permit;
        }
        let asked = Instant::now();
        // An error would mean a closed semaphore; nothing closes it.
        let held = Arc::clone(&self.semaphore).acquire_many_owned(self.weight(wanted)).await.ok();
        (self.observe)(asked.elapsed());
        Permit { _held: held }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} free", self.semaphore.available_permits(), self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::FutureExt as _;

    use super::*;

    type Waits = Arc<Mutex<Vec<Duration>>>;

    fn recorder() -> (Waits, impl Fn(Duration) + Send + Sync + 'static) {
        let waits = Waits::default();
        let into = Arc::clone(&waits);
        (waits, move |wait| into.lock().unwrap().push(wait))
    }

    #[actix_rt::test]
    async fn only_those_who_waited_are_observed() {
        tokio::time::pause();
        let (waits, observe) = recorder();
        let permits = Permits::new(1, observe);
        let first = permits.acquire().await;
        assert!(permits.try_acquire().is_none());
        let ((), second) = tokio::join!(
            async {
                tokio::time::sleep(Duration::from_secs(3)).await;
                drop(first);
            },
            permits.acquire()
        );
        assert_eq!(permits.available(), 0);
        drop(second);
        assert_eq!(permits.available(), 1);
        let waits: Vec<_> = waits.lock().unwrap().iter().map(Duration::as_secs).collect();
        assert_eq!(waits, [3]);
    }

    #[actix_rt::test]
    async fn a_sender_that_gives_up_leaves_nothing_behind() {
        let permits = Permits::new(1, |_| {});
        let first = permits.acquire().await;
        assert!(permits.acquire().now_or_never().is_none());
        drop(first);
        assert!(permits.try_acquire().is_some());
    }

    #[actix_rt::test]
    async fn what_is_larger_than_the_budget_goes_alone() {
        let budget = ByteBudget::new(100, |_| {});
        let small = budget.acquire(1).await;
        assert!(budget.acquire(usize::MAX).now_or_never().is_none());
        drop(small);
        let huge = budget.acquire(usize::MAX).await;
        assert_eq!(budget.available(), 0);
        assert!(budget.try_acquire(1).is_none());
        drop(huge);
        assert_eq!(budget.available(), 100);
    }

    #[actix_rt::test]
    async fn a_large_one_is_not_passed_by_small_ones() {
        let budget = ByteBudget::new(100, |_| {});
        let held = budget.acquire(50).await;
        let mut large = Box::pin(budget.acquire(80));
        assert!(large.as_mut().now_or_never().is_none());
        assert!(budget.try_acquire(30).is_none(), "a small one went first");
        drop(held);
        let _large = large.await;
        assert_eq!(budget.available(), 20);
    }
}
