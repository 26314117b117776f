//! `RecorderActor`: writes down what happens, beside the flow and never in its way. Whoever records something hands it to a [`Recorder`]
//! and goes on; what cannot be written waits in memory, up to a bound.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix::prelude::*;
use prometheus::IntCounter;
use tokio::sync::Notify;

use crate::metrics::Metrics;
use crate::ports::clock::Clock;
use crate::ports::{BoxFuture, StoreResult};
use crate::runtime::Cell;

/// The wait after a store error; it doubles up to the second.
const WAIT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How often old records are removed.
const PURGE_EVERY: Duration = Duration::from_secs(600);

/// A kind of records.
pub trait Record: Clone + Unpin + Send + 'static {
    /// Its name: the actor's kind, and a label of metrics.
    const KIND: &'static str;

    /// How many wait at most. Then the oldest are dropped.
    const WAITING: usize;

    /// How many are written at once.
    const AT_ONCE: usize;

    /// How long the first one of a batch waits for others.
    const LINGER: Duration;
}

/// Where records of a kind are kept.
pub trait Records<T>: Send + Sync {
    /// Writes some, all or none, in order. One that is there already stays as it is.
    fn write(&self, records: Vec<T>) -> BoxFuture<'_, StoreResult<()>>;

    /// Removes what is too old by now, milliseconds since 1970; a part at a time. Returns how many went.
    fn purge(&self, now_ms: i64) -> BoxFuture<'_, StoreResult<u64>>;
}

/// Takes records. A clone hands them to the same writer.
pub struct Recorder<T>(Arc<Shared<T>>);

struct Shared<T> {
    waiting: Mutex<Waiting<T>>,
    came: Notify,
    wrote: Notify,
    dropped: IntCounter,
}

struct Waiting<T> {
    queue: VecDeque<T>,
    /// What is being written: it stays here until it is, so that a writer that breaks loses nothing.
    in_hand: Vec<T>,
}

impl<T> Clone for Recorder<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Record> Recorder<T> {
    /// Takes records before anybody writes them.
    pub fn new(metrics: &Metrics) -> Self {
        let waiting = Waiting { queue: VecDeque::new(), in_hand: Vec::new() };
        Self(Arc::new(Shared {
            waiting: Mutex::new(waiting),
            came: Notify::new(),
            wrote: Notify::new(),
            dropped: metrics.records_dropped.with_label_values(&[T::KIND]),
        }))
    }

    /// Has it written. Never waits: when too many wait already, the oldest is dropped and counted.
    pub fn record(&self, record: T) {
        let mut waiting = self.lock();
        waiting.queue.push_back(record);
        let dropped = if waiting.queue.len() > T::WAITING { waiting.queue.pop_front() } else { None };
        drop(waiting);
        self.0.dropped.inc_by(u64::from(dropped.is_some()));
        self.0.came.notify_one();
    }

    /// Waits until everything is written.
    pub async fn is_written(&self) {
        loop {
            let wrote = self.0.wrote.notified();
            if self.is_idle() {
                return;
            }
            wrote.await;
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting() == 0
    }

    /// How many are not written yet.
    fn waiting(&self) -> usize {
        let waiting = self.lock();
        waiting.queue.len() + waiting.in_hand.len()
    }

    /// Waits until something more is written.
    pub async fn wrote(&self) {
        self.0.wrote.notified().await;
    }

    /// The next to be written, as soon as there are some.
    async fn next(&self) -> Vec<T> {
        loop {
            let is_empty = {
                let waiting = self.lock();
                if !waiting.in_hand.is_empty() {
                    return waiting.in_hand.clone();
                }
                waiting.queue.is_empty()
            };
            if is_empty {
                self.0.came.notified().await;
                continue;
            }
            tokio::time::sleep(T::LINGER).await;
            let mut waiting = self.lock();
            let count = waiting.queue.len().min(T::AT_ONCE);
            waiting.in_hand = waiting.queue.drain(..count).collect();
        }
    }

    fn is_done(&self) {
        self.lock().in_hand.clear();
        self.0.wrote.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        // No code under this lock can leave anything half-changed.
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes what a [`Recorder`] takes.
pub struct RecorderActor<T: Record> {
    cell: Cell,
    recorder: Recorder<T>,
    records: Arc<dyn Records<T>>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    /// Nobody sends it anything; but an actor that nobody can reach is not restarted.
    own_address: Option<Addr<Self>>,
}

impl<T: Record> RecorderActor<T> {
    /// Writes to `records`.
    pub fn new(
        cell: Cell,
        recorder: Recorder<T>,
        records: Arc<dyn Records<T>>,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
    ) -> Self {
        cell.counts_waiting({
            let recorder = recorder.clone();
            move || recorder.waiting() as u64
        });
        Self { cell, recorder, records, clock, metrics, own_address: None }
    }

    fn purge(&self, ctx: &mut Context<Self>) {
        let (records, now_ms) = (self.records.clone(), self.clock.now_ms());
        let purge = async move { records.purge(now_ms).await };
        ctx.spawn(purge.into_actor(self).map(|purged, actor, ctx| match purged {
            Ok(0) => {}
            // There may be more of it.
            Ok(_) => actor.purge(ctx),
            Err(err) => log::warn!("old records were not removed err={err} kind={}", T::KIND),
        }));
    }
}

impl<T: Record> Actor for RecorderActor<T> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.own_address = Some(ctx.address());
        let (recorder, records) = (self.recorder.clone(), self.records.clone());
        let (cell, metrics) = (self.cell.clone(), self.metrics.clone());
        let write = async move {
            loop {
                let batch = recorder.next().await;
                cell.tick();
                write(&*records, batch, &recorder.0.dropped, &metrics).await;
                recorder.is_done();
            }
        };
        ctx.spawn(write.into_actor(self));
        ctx.run_interval(PURGE_EVERY, |actor, ctx| actor.purge(ctx));
    }
}

impl<T: Record> Supervised for RecorderActor<T> {}

/// Writes a batch, however long the store is away. What the store will never take is dropped, alone.
async fn write<T: Record>(records: &dyn Records<T>, batch: Vec<T>, dropped: &IntCounter, metrics: &Metrics) {
    let mut parts = VecDeque::from([batch]);
    let mut wait = WAIT.0;
    while let Some(part) = parts.front() {
        match records.write(part.clone()).await {
            Ok(()) => {
                parts.pop_front();
                if wait > WAIT.0 {
                    log::info!("records are written again kind={}", T::KIND);
                    wait = WAIT.0;
                }
            }
            Err(err) if err.is_transient() => {
                metrics.store_errors.with_label_values(&[T::KIND]).inc();
                if wait == WAIT.0 {
                    log::error!("records wait err={err} kind={}", T::KIND);
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(WAIT.1);
            }
            Err(_) if part.len() > 1 => {
                // One of them is at fault: it is found by writing each alone.
                parts = part.iter().map(|record| vec![record.clone()]).collect();
            }
            Err(err) => {
                log::error!("store refuses a record, dropped err={err} kind={}", T::KIND);
                dropped.inc();
                parts.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests;
