//! Work that one replica does at a time, under a paused clock, over leases in memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dispatcher::metrics::Metrics;
use dispatcher::ports::clock::Clock;
use dispatcher::ports::locks::{Lease, Locks};
use dispatcher::ports::{BoxFuture, StoreError, StoreResult};
use dispatcher::workers::{Exclusive, Fence, Run};
use tokio::time::{Instant, sleep};

/// The paused clock of tokio.
struct TestClock(Instant);

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        1_764_435_600_000 + self.boot_ms()
    }

    fn boot_ms(&self) -> i64 {
        i64::try_from(self.0.elapsed().as_millis()).unwrap()
    }
}

/// Leases in memory: the token of each, and until when it is held.
#[derive(Default)]
struct TestLocks {
    held: Mutex<HashMap<String, (i64, Instant)>>,
    next: AtomicI64,
    away: Mutex<bool>,
}

impl TestLocks {
    fn ask<T>(&self, answer: impl FnOnce(&mut HashMap<String, (i64, Instant)>) -> T) -> StoreResult<T> {
        if *self.away.lock().unwrap() {
            return Err(StoreError::Unavailable("away".to_owned()));
        }
        Ok(answer(&mut self.held.lock().unwrap()))
    }
}

fn after(ttl_ms: i64) -> Instant {
    Instant::now() + Duration::from_millis(u64::try_from(ttl_ms).unwrap())
}

impl Locks for TestLocks {
    fn acquire<'a>(&'a self, key: &'a str, ttl_ms: i64) -> BoxFuture<'a, StoreResult<Option<Lease>>> {
        Box::pin(async move {
            self.ask(|held| {
                if held.get(key).is_some_and(|(_, deadline)| *deadline > Instant::now()) {
                    return None;
                }
                let token = self.next.fetch_add(1, Ordering::Relaxed);
                held.insert(key.to_owned(), (token, after(ttl_ms)));
                Some(Lease { key: key.to_owned(), token })
            })
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, ttl_ms: i64) -> BoxFuture<'a, StoreResult<bool>> {
        Box::pin(async move {
            self.ask(|held| {
                let ours = held.get_mut(&lease.key).filter(|(token, _)| *token == lease.token);
                ours.map(|(_, deadline)| *deadline = after(ttl_ms)).is_some()
            })
        })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, StoreResult<()>> {
        Box::pin(async move {
            self.ask(|held| {
                if held.get(&lease.key).is_some_and(|(token, _)| *token == lease.token) {
                    held.remove(&lease.key);
                }
            })
        })
    }
}

fn exclusive() -> (Exclusive, Arc<TestLocks>) {
    let locks = Arc::new(TestLocks::default());
    let clock = Arc::new(TestClock(Instant::now()));
    (Exclusive { locks: locks.clone(), clock, metrics: Metrics::new() }, locks)
}

const TTL: Duration = Duration::from_millis(900);

fn counted(exclusive: &Exclusive, outcome: &str) -> u64 {
    exclusive.metrics.exclusive_runs.with_label_values(&["k", outcome]).get()
}

#[tokio::test(start_paused = true)]
async fn a_second_replica_skips_however_long_the_first_takes() {
    let (exclusive, _) = exclusive();
    let long = exclusive.run("k", TTL, async |_| sleep(TTL * 10).await);
    let other = async {
        sleep(TTL * 5).await;
        exclusive.run("k", TTL, async |_| panic!("it runs already")).await
    };
    let (long, other) = tokio::join!(long, other);
    assert_eq!((long, other), (Ok(Run::Ran(())), Ok(Run::Skipped)));
    assert_eq!((counted(&exclusive, "ran"), counted(&exclusive, "skipped")), (1, 1));
    assert!(matches!(exclusive.run("k", TTL, async |_| 7).await, Ok(Run::Ran(7))), "it is free again");
}

#[tokio::test(start_paused = true)]
async fn work_is_dropped_before_another_can_begin_it() {
    let (exclusive, locks) = exclusive();
    let began = Instant::now();
    let cut_off = exclusive.run("k", TTL, async |_| std::future::pending::<()>().await);
    let away = async {
        sleep(TTL / 2).await;
        *locks.away.lock().unwrap() = true;
    };
    let (run, ()) = tokio::join!(cut_off, away);
    assert_eq!(run, Ok(Run::Lost));
    // The last renewal was asked for after a third of it.
    assert!(began.elapsed() <= TTL + TTL / 3, "{:?}", began.elapsed());
    assert_eq!(counted(&exclusive, "lost"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_asked_for_is_an_error() {
    let (exclusive, locks) = exclusive();
    *locks.away.lock().unwrap() = true;
    assert!(exclusive.run("k", TTL, async |_| ()).await.is_err());
}

/// What ticks have done, in a store that takes an effect only from the newest holder, and once a tick.
#[derive(Default)]
struct Effects {
    fence: Option<Fence>,
    last: Option<u32>,
    counted: u32,
    refused: u32,
}

impl Effects {
    fn count(&mut self, tick: u32, fence: Fence) {
        if self.fence.is_some_and(|newest| fence < newest) || self.last.is_some_and(|last| tick <= last) {
            self.refused += 1;
            return;
        }
        (self.fence, self.last) = (Some(fence), Some(tick));
        self.counted += 1;
    }
}

/// Two replicas get every tick. Either may be killed in the middle, before or after its effect, or stand still for longer than the lease
/// and then write what it had in hand.
#[tokio::test(start_paused = true)]
async fn of_ten_thousand_ticks_each_counts_once() {
    let (exclusive, _) = exclusive();
    let effects = Arc::new(Mutex::new(Effects::default()));
    let mut random = fastrand::Rng::with_seed(7);
    for tick in 0..10_000 {
        // Whoever gets the tick does it again until its effect is there: so does the queue with a job whose worker was lost.
        let mut replicas = Vec::new();
        for _ in 0..2 {
            let (exclusive, effects) = (exclusive.clone(), effects.clone());
            let (kill, stand) = (random.u8(..10) == 0, random.u8(..10) == 0);
            let (before, after) = (random.u64(..500), random.u64(..500));
            replicas.push(tokio::spawn(async move {
                let late = effects.clone();
                let work = exclusive.run("k", TTL, async move |fence| {
                    sleep(Duration::from_millis(before)).await;
                    if stand {
                        // A task of its own is what a frozen thread is: no drop reaches it.
                        tokio::spawn(async move {
                            sleep(TTL * 2).await;
                            late.lock().unwrap().count(tick, fence);
                        });
                        std::future::pending::<()>().await;
                    }
                    effects.lock().unwrap().count(tick, fence);
                    sleep(Duration::from_millis(after)).await;
                });
                let limit = if kill { Duration::from_millis(600) } else { TTL * 3 };
                let _ = tokio::time::timeout(limit, work).await;
            }));
        }
        for replica in replicas {
            replica.await.unwrap();
        }
        while effects.lock().unwrap().last != Some(tick) {
            let again = effects.clone();
            let run =
                exclusive.run("k", TTL, async move |fence| again.lock().unwrap().count(tick, fence)).await;
            if run.unwrap() == Run::Skipped {
                sleep(TTL / 10).await;
            }
        }
    }
    sleep(TTL * 3).await;
    let effects = effects.lock().unwrap();
    assert_eq!(effects.counted, 10_000);
    assert!(effects.refused > 100, "nothing was ever refused: the test shows nothing");
}
