//! `KafkaIngestActor`: reads one stream of the log, the source stream or the transfer log. A stage is the loop that
//! does it; the actor is what the supervisor restarts when the loop panics.

pub mod source;
pub mod transfer;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::ports::event_log::Lag;
use crate::ports::{BoxFuture, StoreError, StoreResult};
use crate::runtime::Cell;
use actix::prelude::*;
use futures_util::future::LocalBoxFuture;

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

type AskLag = Box<dyn Fn() -> BoxFuture<'static, StoreResult<Lag>> + Send + Sync>;

/// How far a stage is behind, for whoever asks.
#[derive(Clone, Default)]
pub struct LagProbe(Arc<RwLock<Option<AskLag>>>);

impl LagProbe {
    /// Asks the consumer of the stage. `None`: it has none yet, or the log cannot be asked.
    pub async fn ask(&self) -> Option<Lag> {
        let answer = self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(|ask| ask());
        answer?.await.ok()
    }

    fn is(&self, ask: AskLag) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(ask);
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
            log::warn!("{} waits err={err}", self.what);
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
