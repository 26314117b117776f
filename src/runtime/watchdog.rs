//! Looks after all actors from a thread of its own: those that are frozen, and threads that make no progress.

use std::{io, num::NonZeroUsize, sync::Arc, time::Duration};

use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{
    Arbiters, Kit,
    arbiters::Seat,
    cell::{Cell, Life},
};

/// How often it looks.
const EVERY: Duration = Duration::from_millis(500);

/// Looks in a row at which a thread has not answered before it is lost: 4 s. Looks are counted, not seconds, so that a process that was
/// stopped for a while, or a machine that was, loses nothing by it.
const SILENT_LOOKS: u32 = 8;

/// A look that is late by more than this counts for nobody: this thread was held up itself.
const LATE: Duration = Duration::from_millis(250);

/// Is told of a thread that does not answer. Must not block.
pub type OnSilent = Box<dyn Fn(Silent<'_>) + Send>;

/// A thread that does not answer.
pub struct Silent<'a> {
    /// The pool that it is of.
    pub arbiters: &'a Arbiters,
    /// Which of the pool.
    pub number: usize,
    /// The actor whose turn does not end, if it is that of an actor.
    pub culprit: Option<Cell>,
}

/// Looks after all actors of a kit, and some pools.
pub struct Watchdog {
    kit: Kit,
    pools: Vec<(Arc<Arbiters>, OnSilent)>,
}

impl Watchdog {
    /// Looks after all actors of the kit.
    pub fn new(kit: Kit) -> Self {
        Self { kit, pools: Vec::new() }
    }

    /// Looks after the threads of a pool, too. `silent` is told of each that does not answer, at every look until it is
    /// [replaced](Arbiters::replace).
    pub fn with(mut self, pool: Arc<Arbiters>, silent: impl Fn(Silent<'_>) + Send + 'static) -> Self {
        self.pools.push((pool, Box::new(silent)));
        self
    }

    /// Begins, on a thread of its own, and ends when the process begins to stop.
    ///
    /// # Errors
    /// When the system gives no thread.
    ///
    /// # Panics
    /// Outside an actix system.
    pub fn start(self) -> io::Result<Arbiters> {
        let own = Arbiters::start("watchdog", NonZeroUsize::MIN)?;
        own.pick(0).arbiter().spawn(async move {
            let stop = self.kit.shutdown().token();
            self.run(stop).await;
        });
        Ok(own)
    }

    /// Looks again and again, until it is stopped.
    pub async fn run(self, stop: CancellationToken) {
        let mut looks = interval(EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = Instant::now();
        while stop.run_until_cancelled(looks.tick()).await.is_some() {
            if last.elapsed() < EVERY + LATE {
                self.look();
            }
            last = Instant::now();
        }
    }

    fn look(&self) {
        for (pool, silent) in &self.pools {
            for number in pool.look(SILENT_LOOKS) {
                let culprit = self.culprit(&pool.pick(number as u64));
                silent(Silent { arbiters: pool, number, culprit });
            }
        }
        self.kit.registry().cells().iter().for_each(|cell| cell.look(EVERY));
    }

    /// The actor whose turn on this thread does not end.
    fn culprit(&self, seat: &Seat) -> Option<Cell> {
        let cells = self.kit.registry().cells();
        cells
            .into_iter()
            .find(|cell| cell.phase().life == Life::Running && cell.is_on(seat) && cell.is_at_work())
    }
}
