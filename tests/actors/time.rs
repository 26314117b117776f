//! The time of day of the simulation: that of the paused clock, and it goes on over the lives of a process.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dispatcher::ports::clock::Clock;
use tokio::time::Instant;

/// 2026-01-01.
pub(crate) const T0_MS: i64 = 1_767_225_600_000;

pub(crate) struct SimClock {
    state: Mutex<State>,
}

struct State {
    base_ms: i64,
    life_began: Option<Instant>,
    /// Calls until one panics, in the actors' own clock only.
    panic_in: Option<u64>,
}

impl SimClock {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { base_ms: T0_MS, life_began: None, panic_in: None }) }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        let state = self.state.lock().unwrap();
        state.base_ms + state.life_began.map_or(0, |began| began.elapsed().as_millis() as i64)
    }

    /// Since the beginning of the world.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_millis((self.now_ms() - T0_MS) as u64)
    }

    pub(crate) fn life_begins(&self) {
        self.state.lock().unwrap().life_began = Some(Instant::now());
    }

    /// The process is down for a while.
    pub(crate) fn life_ends(&self, down: Duration) {
        let now_ms = self.now_ms();
        let mut state = self.state.lock().unwrap();
        state.base_ms = now_ms + down.as_millis() as i64;
        state.life_began = None;
        state.panic_in = None;
    }

    /// The time goes on by this much: where several processes run, each has a paused clock of its own.
    pub(crate) fn goes_on(&self, time: Duration) {
        self.state.lock().unwrap().base_ms += time.as_millis() as i64;
    }

    /// The actor that asks for the time after so many calls panics.
    pub(crate) fn panic_in(&self, calls: u64) {
        self.state.lock().unwrap().panic_in = Some(calls);
    }

    fn panic_if_its_time_has_come(&self) {
        let mut state = self.state.lock().unwrap();
        let panics = match &mut state.panic_in {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        if panics {
            state.panic_in = None;
        }
        drop(state);
        assert!(!panics, "a panic of the simulation");
    }
}

/// What the actors see of it.
pub(crate) struct ActorClock(pub(crate) Arc<SimClock>);

impl Clock for ActorClock {
    fn now_ms(&self) -> i64 {
        self.0.panic_if_its_time_has_come();
        self.0.now_ms()
    }

    fn boot_ms(&self) -> i64 {
        self.0.now_ms()
    }
}

/// What the actors of one of several processes see: the paused clock of their own, which stands still while the process does.
pub(crate) struct ReplicaClock {
    sim: Arc<SimClock>,
    base_ms: i64,
    began: Instant,
}

impl ReplicaClock {
    /// Begins now. Call it where the process runs.
    pub(crate) fn new(sim: Arc<SimClock>) -> Self {
        Self { base_ms: sim.now_ms(), sim, began: Instant::now() }
    }
}

impl Clock for ReplicaClock {
    fn now_ms(&self) -> i64 {
        self.sim.panic_if_its_time_has_come();
        self.boot_ms()
    }

    fn boot_ms(&self) -> i64 {
        self.base_ms + self.began.elapsed().as_millis() as i64
    }
}
