//! `KafkaIngestActor`: reads one stream of the log, the source stream or the transfer log. A stage is the loop that
//! does it; the actor is what the supervisor restarts when the loop panics.

pub mod source;
pub mod transfer;

use std::time::Duration;

use actix::prelude::*;
use futures_util::future::LocalBoxFuture;
use prometheus::IntGauge;
use tokio_util::sync::CancellationToken;

use crate::ports::event_log::Lag;
use crate::ports::{BoxFuture, StoreError, StoreResult};
use crate::runtime::Cell;

/// The reading of one stream.
pub trait Stage: Clone + Unpin + 'static {
    /// The actor's kind.
    const KIND: &'static str;

    /// Reads from the committed offsets on, until it is told to stop. What an earlier run left unfinished is read again.
    fn run(self, cell: Cell) -> LocalBoxFuture<'static, ()>;
}

/// Runs a stage.
pub struct KafkaIngestActor<S: Stage> {
    cell: Cell,
    stage: S,
    /// Nobody sends it anything; but an actor that nobody can reach is not restarted.
    own_address: Option<Addr<Self>>,
}

impl<S: Stage> KafkaIngestActor<S> {
    /// Runs `stage` as soon as it is started.
    pub fn new(cell: Cell, stage: S) -> Self {
        Self { cell, stage, own_address: None }
    }
}

impl<S: Stage> Actor for KafkaIngestActor<S> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.own_address = Some(ctx.address());
        let run = self.stage.clone().run(self.cell.clone());
        ctx.spawn(run.into_actor(self).map(|(), actor, _| actor.cell.stop()));
    }
}

impl<S: Stage> Supervised for KafkaIngestActor<S> {}

/// Keeps the gauge of a stream's lag until the stage is told to stop.
async fn report_lag<'a>(
    lag: impl Fn() -> BoxFuture<'a, StoreResult<Lag>>,
    gauge: IntGauge,
    stop: &CancellationToken,
) {
    const EVERY: Duration = Duration::from_secs(1);
    while tokio::time::timeout(EVERY, stop.cancelled()).await.is_err() {
        // While the log cannot be asked the last known lag stands; the reading itself says why.
        if let Ok(lag) = lag().await {
            gauge.set(i64::try_from(lag.records).unwrap_or(i64::MAX));
        }
    }
}

/// Waits between attempts while a store is away, and says so once.
struct Patience {
    what: &'static str,
    wait: Duration,
}

impl Patience {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(2);

    fn new(what: &'static str) -> Self {
        Self { what, wait: Duration::ZERO }
    }

    async fn after(&mut self, err: &StoreError) {
        if self.wait.is_zero() {
            log::error!("{} waits err={err}", self.what);
        }
        self.wait = (self.wait * 2).clamp(Self::FIRST, Self::LONGEST);
        tokio::time::sleep(self.wait).await;
    }

    fn over(&mut self) {
        if !self.wait.is_zero() {
            log::info!("{} goes on", self.what);
            self.wait = Duration::ZERO;
        }
    }
}
