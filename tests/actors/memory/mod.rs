//! Stores in memory that keep their contracts to the letter, and are as late and as unreliable as real ones.

pub(crate) mod configs;
pub(crate) mod decisions;
pub(crate) mod group;
pub(crate) mod jobs;
pub(crate) mod kicks;
pub(crate) mod locks;
pub(crate) mod log;
pub(crate) mod member;
pub(crate) mod records;
mod replays;
pub(crate) mod source;
pub(crate) mod stash;
pub(crate) mod states;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use dispatcher::ports::{StoreError, StoreResult};
use fastrand::Rng;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::time::SimClock;

/// What lies between the service and the data of a store.
///
/// Writes take effect one after another, in the order in which they were begun, whether or not the caller still
/// waits for them. Reads take effect at any moment of their time.
pub(crate) struct Medium<D> {
    name: &'static str,
    clock: Arc<SimClock>,
    data: Mutex<D>,
    weather: Mutex<Weather>,
    turn: tokio::sync::Mutex<()>,
    /// Where it runs, when that is not where the process does: then it goes on while a process stands still, or dies.
    server: Mutex<Option<Handle>>,
    begun: Mutex<Begun<D>>,
    /// How often it was asked.
    reads: AtomicU64,
}

/// How the store behaves.
struct Weather {
    rng: Rng,
    /// The most that one way takes, milliseconds.
    latency_ms: u64,
    away_until_ms: i64,
    /// The share of calls that fail although the store is there.
    flaky: f64,
}

type Op<D> = Box<dyn FnOnce(&mut D) + Send>;

/// Writes that have not taken effect.
struct Begun<D> {
    next: u64,
    ops: VecDeque<(u64, Op<D>)>,
    /// What a dead process left behind in the server.
    zombies: Vec<Op<D>>,
}

impl<D: Send + 'static> Medium<D> {
    /// What time it is there.
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    pub(crate) fn new(name: &'static str, clock: Arc<SimClock>, seed: u64, data: D) -> Arc<Self> {
        let weather =
            Weather { rng: Rng::with_seed(seed), latency_ms: 0, away_until_ms: i64::MIN, flaky: 0.0 };
        Arc::new(Self {
            name,
            clock,
            data: Mutex::new(data),
            weather: Mutex::new(weather),
            turn: tokio::sync::Mutex::default(),
            server: Mutex::default(),
            begun: Mutex::new(Begun { next: 0, ops: VecDeque::new(), zombies: Vec::new() }),
            reads: AtomicU64::new(0),
        })
    }

    /// How often it was asked so far.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    pub(crate) fn data(&self) -> MutexGuard<'_, D> {
        self.data.lock().unwrap()
    }

    /// It runs there from now on.
    pub(crate) fn runs_on(&self, server: Handle) {
        *self.server.lock().unwrap() = Some(server);
    }

    pub(crate) fn set_latency(&self, at_most: Duration) {
        self.weather.lock().unwrap().latency_ms = at_most.as_millis() as u64;
    }

    pub(crate) fn set_flaky(&self, share: f64) {
        self.weather.lock().unwrap().flaky = share;
    }

    /// All three at once.
    pub(crate) fn behaves(&self, latency: Duration, flaky: f64, away: Duration) {
        self.set_latency(latency);
        self.set_flaky(flaky);
        self.go_away(away);
    }

    /// The store cannot be asked for so long.
    pub(crate) fn go_away(&self, time: Duration) {
        self.weather.lock().unwrap().away_until_ms = self.clock.now_ms() + time.as_millis() as i64;
    }

    /// It is there, at once and always.
    pub(crate) fn heal(&self) {
        let mut weather = self.weather.lock().unwrap();
        (weather.latency_ms, weather.flaky, weather.away_until_ms) = (0, 0.0, i64::MIN);
    }

    async fn travel(&self) {
        let ms = {
            let mut weather = self.weather.lock().unwrap();
            let most = weather.latency_ms;
            weather.rng.u64(0..=most)
        };
        if ms > 0 {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }

    fn fails(&self) -> bool {
        let mut weather = self.weather.lock().unwrap();
        let flaky = weather.flaky;
        self.clock.now_ms() < weather.away_until_ms || (flaky > 0.0 && weather.rng.f64() < flaky)
    }

    fn unavailable(&self) -> StoreError {
        StoreError::Unavailable(format!("{} is away", self.name))
    }

    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        look: impl FnOnce(&D) -> T + Send + 'static,
    ) -> StoreResult<T> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let medium = self.clone();
        let read = async move {
            medium.travel().await;
            if medium.fails() {
                return Err(medium.unavailable());
            }
            let seen = look(&medium.data());
            medium.travel().await;
            Ok(seen)
        };
        let server = self.server.lock().unwrap().clone();
        match server {
            Some(server) => server.spawn(read).await.unwrap_or_else(|_| Err(self.unavailable())),
            None => read.await,
        }
    }

    pub(crate) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut D) -> T + Send + 'static,
    ) -> StoreResult<T> {
        let (done, answer) = oneshot::channel();
        let op: Op<D> = Box::new(move |data| {
            let _ = done.send(work(data));
        });
        let id = {
            let mut begun = self.begun.lock().unwrap();
            begun.next += 1;
            let id = begun.next;
            begun.ops.push_back((id, op));
            id
        };
        let medium = self.clone();
        let (told, result) = oneshot::channel();
        let server = self.server.lock().unwrap().clone();
        server.unwrap_or_else(Handle::current).spawn(async move {
            let turn = medium.turn.lock().await;
            medium.travel().await;
            let failed = medium.fails();
            // Of a connection that breaks nobody knows whether the write was made.
            let lost = failed && medium.weather.lock().unwrap().rng.u8(..) < 64;
            let op = medium.take(id);
            if !failed || lost {
                op(&mut medium.data());
            }
            drop(turn);
            medium.travel().await;
            let _ = told.send(failed);
        });
        match result.await {
            Ok(false) => answer.await.map_err(|_| self.unavailable()),
            _ => Err(self.unavailable()),
        }
    }

    fn take(&self, id: u64) -> Op<D> {
        let mut begun = self.begun.lock().unwrap();
        let at = begun.ops.iter().position(|(begun, _)| *begun == id).unwrap();
        begun.ops.remove(at).unwrap().1
    }

    /// The process is dead. Some of what it had begun takes effect, one write perhaps much later.
    pub(crate) fn process_died(&self) {
        let mut begun = self.begun.lock().unwrap();
        let mut weather = self.weather.lock().unwrap();
        let rng = &mut weather.rng;
        let count = match rng.u8(0..4) {
            0 => 0,
            1 => begun.ops.len(),
            _ => rng.usize(0..=begun.ops.len()),
        };
        let ops: Vec<_> = begun.ops.drain(..).collect();
        let mut ops = ops.into_iter();
        for (_, op) in ops.by_ref().take(count) {
            op(&mut self.data());
        }
        if rng.bool() {
            begun.zombies.extend(ops.next().map(|(_, op)| op));
        }
    }

    /// Lets what an earlier process left behind take effect, at some moment of the next seconds.
    pub(crate) fn wake_zombies(self: &Arc<Self>) {
        for op in std::mem::take(&mut self.begun.lock().unwrap().zombies) {
            let medium = self.clone();
            tokio::spawn(async move {
                let ms = medium.weather.lock().unwrap().rng.u64(0..3_000);
                tokio::time::sleep(Duration::from_millis(ms)).await;
                let _turn = medium.turn.lock().await;
                op(&mut medium.data());
            });
        }
    }
}
