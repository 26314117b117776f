//! `ForwarderActor`: hands operational events on, in order and at least once. Where it has come to is kept in the store; one process
//! at a time does it.

use std::rc::Rc;
use std::time::Duration;

use actix::prelude::*;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::EventRecorder;
use crate::domain::operational_event::NumberedEvent;
use crate::domain::retry::RetrySchedule;
use crate::metrics::Metrics;
use crate::ports::operational_events::{EventPage, OperationalEvents};
use crate::ports::{LocalBoxFuture, StoreError, StoreResult};
use crate::runtime::Cell;
use crate::workers::{Exclusive, Run};

/// A process that is lost is followed after this time.
const LEASE: Duration = Duration::from_secs(15);

/// How often a process asks whether it may.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// How often it is looked for what other processes recorded.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Events read at once.
const AT_ONCE: usize = 100;

/// How often the store is asked again that does not answer.
const STORE_AGAIN: Duration = Duration::from_secs(1);

/// Where events go.
pub trait Target: 'static {
    /// Its name: the reader's in the store, and a label of metrics.
    const NAME: &'static str;

    /// Takes events, the first first. Returns how many it took, one at least.
    fn take(&self, events: Vec<NumberedEvent>) -> LocalBoxFuture<'_, Result<usize, Refusal>>;
}

/// Why nothing was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// For people.
    pub why: String,
    /// How long the target asked to be left alone.
    pub wait: Option<Duration>,
}

/// What a forwarder works with.
#[derive(Clone)]
pub struct Forwarding {
    /// Where the events are.
    pub store: std::sync::Arc<dyn OperationalEvents>,
    /// Tells of new ones.
    pub recorder: EventRecorder,
    /// Lets one process at a time do it.
    pub exclusive: Exclusive,
    /// When a target is tried again that took nothing.
    pub retry: RetrySchedule,
    /// Counters.
    pub metrics: Metrics,
    /// Ends it.
    pub stop: CancellationToken,
}

impl Forwarding {
    /// Makes a target known to the store: it gets what happens from now on.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn introduce<T: Target>(&self) -> StoreResult<()> {
        self.store.reader(T::NAME).await.map(drop)
    }

    /// Hands events on until it is told to stop.
    async fn run<T: Target>(self, cell: Cell, target: Rc<T>) {
        let key = format!("events-to-{}", T::NAME);
        let turns = async {
            let mut said = false;
            loop {
                match self.exclusive.run(&key, LEASE, |_| self.forward(&cell, &*target)).await {
                    Ok(Run::Ran(())) => return,
                    Ok(Run::Skipped | Run::Lost) => said = false,
                    Err(err) => {
                        if !std::mem::replace(&mut said, true) {
                            log::warn!("operational events wait err={err} to={}", T::NAME);
                        }
                    }
                }
                sleep(ASK_EVERY).await;
            }
        };
        tokio::select! {
            () = turns => {}
            // The turn ends by itself, and gives the lease back; what waits for a store does not.
            () = async { self.stop.cancelled().await; sleep(STORE_AGAIN).await } => {}
        }
    }

    async fn forward<T: Target>(&self, cell: &Cell, target: &T) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.hand_on(cell, target) => {}
        }
    }

    /// Never ends.
    async fn hand_on<T: Target>(&self, cell: &Cell, target: &T) {
        let mut last = self.asked::<T, _>(async || self.store.reader(T::NAME).await).await;
        let mut failures = 0;
        loop {
            cell.tick();
            let page = EventPage { after: Some(last), limit: AT_ONCE, ..EventPage::default() };
            let events = self.asked::<T, _>(async || self.store.list(page.clone()).await).await;
            if events.is_empty() {
                // Nothing is missed between the look and the wait: it is looked again soon.
                let _ = tokio::time::timeout(LOOK_EVERY, self.recorder.wrote()).await;
                continue;
            }
            let ids: Vec<i64> = events.iter().map(|numbered| numbered.id).collect();
            match target.take(events).await {
                Ok(count) => {
                    let count = count.clamp(1, ids.len());
                    last = ids[count - 1];
                    let forwarded = &self.metrics.operational_events_forwarded;
                    forwarded.with_label_values(&[T::NAME]).inc_by(count as u64);
                    if failures > 0 {
                        log::info!("operational events go on to={}", T::NAME);
                    }
                    failures = 0;
                    self.asked::<T, _>(async || self.store.has_read(T::NAME, last).await).await;
                }
                Err(refusal) => {
                    if failures == 0 {
                        log::warn!("operational events wait err={} to={}", refusal.why, T::NAME);
                    }
                    failures += 1;
                    self.metrics.operational_event_failures.with_label_values(&[T::NAME]).inc();
                    let wait = self.retry.delay(failures, fastrand::f64());
                    sleep(refusal.wait.map_or(wait, |asked| asked.max(wait))).await;
                }
            }
        }
    }

    /// The answer of the store, however long it takes.
    async fn asked<T: Target, A>(&self, ask: impl AsyncFn() -> Result<A, StoreError>) -> A {
        let mut said = false;
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(err) => {
                    self.metrics.store_errors.with_label_values(&["operational-events"]).inc();
                    if !std::mem::replace(&mut said, true) {
                        log::warn!("operational events wait err={err} to={}", T::NAME);
                    }
                    sleep(STORE_AGAIN).await;
                }
            }
        }
    }
}

/// Hands events on to one target.
pub struct ForwarderActor<T: Target> {
    cell: Cell,
    forwarding: Forwarding,
    target: Rc<T>,
    /// Nobody sends it anything; but an actor that nobody can reach is not restarted.
    own_address: Option<Addr<Self>>,
}

impl<T: Target> ForwarderActor<T> {
    /// Hands on to `target`.
    pub fn new(cell: Cell, forwarding: Forwarding, target: T) -> Self {
        Self { cell, forwarding, target: Rc::new(target), own_address: None }
    }
}

impl<T: Target> Actor for ForwarderActor<T> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.own_address = Some(ctx.address());
        let run = self.forwarding.clone().run(self.cell.clone(), self.target.clone());
        ctx.spawn(run.into_actor(self).map(|(), actor, _| actor.cell.stop()));
    }
}

impl<T: Target> Supervised for ForwarderActor<T> {}

#[cfg(test)]
mod tests;
