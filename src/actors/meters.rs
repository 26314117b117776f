//! What delivery actors count, for whoever shows it. Written by the actor at work and read by anybody: no message, no wait, and it outlives the
//! actor, so that a client that rests keeps its numbers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::client_state::ClientState;
use crate::domain::config::ClientId;

/// How many ranges a histogram has: four an octave, from a quarter of a millisecond to 262 s; what takes longer is in the last.
pub const RANGES: usize = 76;

/// The counts of a histogram. The difference of two is one, too.
pub type Counts = [u32; RANGES];

/// The meters of all clients that were served since the start. A clone is the same.
#[derive(Clone, Default)]
pub struct Meters(Arc<All>);

#[derive(Default)]
struct All {
    clients: Mutex<HashMap<ClientId, Arc<ClientMeter>>>,
    answers: Histogram,
    ages: Histogram,
}

impl Meters {
    /// The meter of a client, made when there is none.
    pub fn of(&self, client: &ClientId) -> Arc<ClientMeter> {
        lock(&self.0.clients).entry(client.clone()).or_default().clone()
    }

    /// The meter of a client that was served.
    pub fn get(&self, client: &ClientId) -> Option<Arc<ClientMeter>> {
        lock(&self.0.clients).get(client).cloned()
    }

    /// All of them. What is done must not take long: no client can begin to be served meanwhile.
    pub fn each(&self, mut see: impl FnMut(&ClientId, &Arc<ClientMeter>)) {
        lock(&self.0.clients).iter().for_each(|(client, meter)| see(client, meter));
    }

    /// Drops those that nobody writes any more and that `keep` does not want: clients come and go.
    pub fn retain(&self, keep: impl Fn(&ClientId) -> bool) {
        lock(&self.0.clients).retain(|client, meter| Arc::strong_count(meter) > 1 || keep(client));
    }

    /// How long the requests of all clients took that were answered with 2xx.
    pub fn answers(&self) -> Counts {
        self.0.answers.read()
    }

    /// How old their changes were by then.
    pub fn ages(&self) -> Counts {
        self.0.ages.read()
    }

    /// A change of a client was delivered.
    pub fn delivered(&self, meter: &ClientMeter, took: Duration, age: Duration, now_ms: i64) {
        self.0.answers.add(took);
        self.0.ages.add(age);
        meter.answers.add(took);
        meter.delivered.fetch_add(1, Relaxed);
        meter.last_success_ms.store(now_ms, Relaxed);
    }
}

/// What is counted of one client.
#[derive(Default)]
pub struct ClientMeter {
    delivered: AtomicU64,
    failed: AtomicU64,
    last_success_ms: AtomicI64,
    in_flight: AtomicU32,
    queued: AtomicU32,
    /// 0: there is none.
    oldest_ts_ms: AtomicI64,
    answers: Histogram,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    /// Rises with each change.
    number: u64,
    state: Option<Arc<ClientState>>,
    last_error: Option<Arc<LastError>>,
}

/// The last attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LastError {
    /// When, milliseconds since 1970.
    pub at_ms: i64,
    /// The reason label.
    pub reason: String,
}

impl ClientMeter {
    /// An attempt failed.
    pub fn failed(&self, reason: &str, now_ms: i64) {
        self.failed.fetch_add(1, Relaxed);
        let mut told = lock(&self.told);
        told.last_error = Some(Arc::new(LastError { at_ms: now_ms, reason: reason.to_owned() }));
        told.number += 1;
    }

    /// So many requests are on the wire, so many changes wait in memory, and the first of all these happened then, milliseconds since 1970.
    pub fn holds(&self, in_flight: usize, queued: usize, oldest_ts_ms: Option<i64>) {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.in_flight.store(number(in_flight), Relaxed);
        self.queued.store(number(queued), Relaxed);
        self.oldest_ts_ms.store(oldest_ts_ms.unwrap_or(0), Relaxed);
    }

    /// The client's state is this from now on.
    pub fn state_is(&self, state: &ClientState) {
        let state = Arc::new(state.clone());
        let mut told = lock(&self.told);
        told.state = Some(state);
        told.number += 1;
    }

    /// Rises with each state and each failure.
    pub fn told(&self) -> u64 {
        lock(&self.told).number
    }

    /// Changes delivered since the start of the process.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Relaxed)
    }

    /// Attempts that failed since then.
    pub fn failures(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    /// The last success since then, milliseconds since 1970.
    pub fn last_success_ms(&self) -> Option<i64> {
        Some(self.last_success_ms.load(Relaxed)).filter(|at| *at != 0)
    }

    /// Requests on the wire.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// Changes in memory that wait.
    pub fn queued(&self) -> u32 {
        self.queued.load(Relaxed)
    }

    /// When the first of those on the wire and in memory happened, milliseconds since 1970.
    pub fn oldest_ts_ms(&self) -> Option<i64> {
        Some(self.oldest_ts_ms.load(Relaxed)).filter(|at| *at != 0)
    }

    /// How long the requests took that were answered with 2xx.
    pub fn answers(&self) -> Counts {
        self.answers.read()
    }

    /// The state that the client's actor was last in.
    pub fn state(&self) -> Option<Arc<ClientState>> {
        lock(&self.told).state.clone()
    }

    /// The last attempt that failed since the start of the process.
    pub fn last_error(&self) -> Option<Arc<LastError>> {
        lock(&self.told).last_error.clone()
    }
}

/// How many values lie in which range. Fixed ranges: histograms can be added, and their percentiles are still right.
struct Histogram([AtomicU32; RANGES]);

impl Default for Histogram {
    fn default() -> Self {
        Self([const { AtomicU32::new(0) }; RANGES])
    }
}

impl Histogram {
    fn add(&self, value: Duration) {
        self.0[range_of(value)].fetch_add(1, Relaxed);
    }

    fn read(&self) -> Counts {
        std::array::from_fn(|range| self.0[range].load(Relaxed))
    }
}

/// Quarters of a millisecond: the first four ranges have one each, then each octave has four ranges.
fn range_of(value: Duration) -> usize {
    let quarters = value.as_micros() / 250;
    if quarters < 4 {
        return quarters as usize;
    }
    let octave = quarters.ilog2();
    let quarter = (quarters >> (octave - 2)) & 3;
    ((octave as usize - 1) * 4 + quarter as usize).min(RANGES - 1)
}

/// Where a range begins, in milliseconds.
pub fn begin_of(range: usize) -> f64 {
    if range < 4 {
        return range as f64 / 4.0;
    }
    let (octave, quarter) = (range / 4 + 1, range % 4);
    ((4 + quarter) << (octave - 2)) as f64 / 4.0
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_range() {
        for micros in (0..5_000).chain((5_000..4_000_000).step_by(997)).chain([200_000_000, 262_143_000]) {
            let range = range_of(Duration::from_micros(micros));
            let ms = micros as f64 / 1000.0;
            assert!(begin_of(range) <= ms, "{ms} is before {}", begin_of(range));
            assert!(ms < begin_of(range + 1), "{ms} is not before {}", begin_of(range + 1));
        }
        assert_eq!(range_of(Duration::from_secs(86_400)), RANGES - 1);
    }

    #[test]
    fn meters_outlive_their_actor_until_nobody_wants_them() {
        let meters = Meters::default();
        let (kept, gone, served) = (ClientId::new("kept"), ClientId::new("gone"), ClientId::new("served"));
        let at_work = meters.of(&served);
        for client in [&kept, &gone] {
            let meter = meters.of(client);
            meters.delivered(&meter, Duration::from_millis(3), Duration::from_millis(9), 77);
        }
        meters.retain(|client| *client == kept);
        let mut left = Vec::new();
        meters.each(|client, _| left.push(client.clone()));
        left.sort();
        assert_eq!(left, [kept.clone(), served]);
        assert_eq!(meters.of(&kept).delivered(), 1);
        assert_eq!(meters.of(&kept).last_success_ms(), Some(77));
        assert_eq!(at_work.last_success_ms(), None);
        assert_eq!(meters.answers().iter().sum::<u32>(), 2);
    }
}
