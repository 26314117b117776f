//! The ticks of schedules on several replicas over the real leases of a store: whoever is killed or stands still in the middle, each tick counts
//! once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dispatcher::domain::job::Cadence;
use dispatcher::metrics::Metrics;
use dispatcher::ports::clock::SystemClock;
use dispatcher::ports::locks::Locks;
use dispatcher::workers::{Exclusive, Fence, Run};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::world::open_in;

/// Short, so that many holders are lost in little time.
const TTL: Duration = Duration::from_millis(90);
const REPLICAS: u64 = 3;
/// Schedules whose ticks go on side by side.
const SCHEDULES: usize = 20;

/// How many ticks in all: 1,000, or what `DISPATCHER_TEST_TICKS` says.
fn ticks() -> usize {
    std::env::var("DISPATCHER_TEST_TICKS").map_or(1_000, |text| text.parse().expect("a number"))
}

/// What the ticks of one schedule have done, in a store that takes an effect only from the newest holder, and once a tick.
#[derive(Default)]
struct Effects {
    newest: Option<Fence>,
    last_tick_ms: i64,
    counted: usize,
    /// Of a holder that is none any more.
    stale: usize,
    /// Of a tick that had counted.
    repeated: usize,
}

impl Effects {
    fn count(&mut self, tick_ms: i64, fence: Fence) {
        if self.newest.is_some_and(|newest| fence < newest) {
            self.stale += 1;
        } else if tick_ms <= self.last_tick_ms {
            self.repeated += 1;
        } else {
            self.counted += 1;
            self.last_tick_ms = tick_ms;
        }
        self.newest = self.newest.max(Some(fence));
    }
}

/// What befalls a replica that has a tick.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    EndsWell,
    KilledBefore,
    KilledAfter,
    StandsStill,
}

impl Fate {
    /// `chance` is below 10.
    fn of(chance: u8) -> Self {
        match chance {
            0 => Self::KilledBefore,
            1 => Self::KilledAfter,
            2 => Self::StandsStill,
            _ => Self::EndsWell,
        }
    }
}

/// A schedule, and what its replicas share.
#[derive(Clone)]
struct Scheduled {
    key: String,
    exclusive: Exclusive,
    effects: Arc<Mutex<Effects>>,
}

impl Scheduled {
    /// One replica's run of a tick, with what befalls it.
    async fn run(&self, tick_ms: i64, mut random: fastrand::Rng) {
        let mut time = |most: u64| Duration::from_millis(random.u64(..most));
        let (late, before, after) = (time(40), time(8), time(8));
        let fate = Fate::of(random.u8(..10));
        let (effects, lost) = (self.effects.clone(), Notify::new());
        sleep(late).await;
        let work = self.exclusive.run(&self.key, TTL, async |fence| {
            sleep(before).await;
            if fate == Fate::StandsStill {
                // A task of its own is what a frozen thread is: no drop reaches it.
                let effects = effects.clone();
                tokio::spawn(async move {
                    sleep(TTL * 2).await;
                    effects.lock().unwrap().count(tick_ms, fence);
                });
            }
            if fate == Fate::EndsWell || fate == Fate::KilledAfter {
                effects.lock().unwrap().count(tick_ms, fence);
            }
            sleep(after).await;
            if fate != Fate::EndsWell {
                lost.notify_one();
                std::future::pending::<()>().await;
            }
        });
        tokio::select! {
            run = work => { run.unwrap(); }
            // Nothing is given back, nor renewed.
            () = lost.notified() => {}
        }
    }

    /// All ticks, one after the other. A tick is done again until its effect is there: so does a queue with a job whose worker was lost.
    async fn go(self, ticks: usize, seed: u64) {
        let cadence = Cadence::every(Duration::from_secs(1)).unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut tick_ms = 0;
        for _ in 0..ticks {
            tick_ms = cadence.next_after(tick_ms).unwrap();
            let replicas = (0..REPLICAS).map(|_| {
                let (scheduled, random) = (self.clone(), random.fork());
                tokio::spawn(async move { scheduled.run(tick_ms, random).await })
            });
            for replica in replicas.collect::<Vec<_>>() {
                replica.await.unwrap();
            }
            while self.effects.lock().unwrap().last_tick_ms != tick_ms {
                let effects = self.effects.clone();
                let again = async move |fence| effects.lock().unwrap().count(tick_ms, fence);
                if self.exclusive.run(&self.key, TTL, again).await.unwrap() == Run::Skipped {
                    sleep(TTL / 10).await;
                }
            }
        }
    }
}

/// What was refused.
async fn each_tick_counts_once(locks: Arc<dyn Locks>) -> String {
    let exclusive = Exclusive { locks, clock: Arc::new(SystemClock), metrics: Metrics::new() };
    let each = ticks() / SCHEDULES;
    let schedules: Vec<_> = (0..SCHEDULES)
        .map(|number| Scheduled {
            key: format!("schedule-{number}"),
            exclusive: exclusive.clone(),
            effects: Arc::default(),
        })
        .collect();
    let going: Vec<_> = schedules
        .iter()
        .enumerate()
        .map(|(number, scheduled)| tokio::spawn(scheduled.clone().go(each, number as u64)))
        .collect();
    for going in going {
        going.await.unwrap();
    }
    // Those that stood still have written what they had in hand.
    sleep(TTL * 4).await;
    let (mut stale, mut repeated) = (0, 0);
    for scheduled in &schedules {
        let effects = scheduled.effects.lock().unwrap();
        assert_eq!(effects.counted, each, "{}", scheduled.key);
        stale += effects.stale;
        repeated += effects.repeated;
    }
    assert!(stale > ticks() / 100 && repeated > ticks() / 100, "it shows nothing: {stale} and {repeated}");
    format!("{} ticks counted once; refused: {stale} of old holders, {repeated} repeats", each * SCHEDULES)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_tick_counts_once_over_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = open_in(folder.path()).await;
    println!("SQLite: {}", each_tick_counts_once(embedded.locks()).await);
    embedded.close().await;
}

#[cfg(feature = "cluster")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_tick_counts_once_over_postgresql() {
    use dispatcher::backends::postgres::{Postgres, PostgresOptions};
    use dispatcher::domain::config::Secret;

    let options = PostgresOptions {
        url: Some(Secret::new(crate::services::postgres().url())),
        prefix: crate::services::unique("ticks_"),
        ..Default::default()
    };
    let postgres = Postgres::open(options, tokio::runtime::Handle::current()).await.unwrap();
    println!("PostgreSQL: {}", each_tick_counts_once(postgres.locks()).await);
}
