//! `StashActor`: collects the stash writes of all delivery actors into few transactions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::oneshot;

use super::inbox::Fence;
use crate::metrics::Metrics;
use crate::ports::stash::{Stash, StashBatch};
use crate::ports::{StoreError, StoreResult};
use crate::runtime::Cell;

/// How many batches one transaction holds at most. The mailbox needs no other bound: every delivery actor has at most
/// one `Write` under way, and what it holds counts against the memory of the unsettled.
const BATCHES_AT_ONCE: usize = 256;

/// The wait after a store error; it doubles up to the second.
const WAIT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Collects writes.
pub struct StashActor {
    cell: Cell,
    store: Arc<dyn Stash>,
    metrics: Metrics,
    queue: VecDeque<Write>,
    writing: bool,
    /// The length of the queue, for those who watch.
    waiting: Arc<AtomicUsize>,
}

impl StashActor {
    /// Writes to `store`.
    pub fn new(cell: Cell, store: Arc<dyn Stash>, metrics: Metrics) -> Self {
        let waiting = Arc::new(AtomicUsize::new(0));
        cell.counts_waiting({
            let waiting = waiting.clone();
            move || waiting.load(Relaxed) as u64
        });
        Self { cell, store, metrics, queue: VecDeque::new(), writing: false, waiting }
    }

    fn write(&mut self, ctx: &mut Context<Self>) {
        if self.writing || self.queue.is_empty() {
            return;
        }
        let mut writes = Vec::new();
        let mut batches = 0;
        while let Some(write) = self.queue.front() {
            if !writes.is_empty() && batches + write.batches.len() > BATCHES_AT_ONCE {
                break;
            }
            batches += write.batches.len();
            let Some(write) = self.queue.pop_front() else { break };
            // Whoever took the asker's place asks only now: what is begun here is written before that is answered.
            if write.fence.is_up() {
                let _ = write.done.send(write.batches.iter().map(|_| Err(left_behind())).collect());
            } else {
                writes.push(write);
            }
        }
        if writes.is_empty() {
            return;
        }
        self.writing = true;
        let written = apply(self.store.clone(), self.metrics.clone(), writes);
        ctx.spawn(written.into_actor(self).map(|(), actor, ctx| {
            actor.cell.tick();
            actor.writing = false;
            actor.write(ctx);
            actor.waiting.store(actor.queue.len(), Relaxed);
        }));
    }
}

fn left_behind() -> StoreError {
    StoreError::Fenced("the asker was left behind with its thread".to_owned())
}

/// Applies writes, however long the store is away, and answers each.
async fn apply(store: Arc<dyn Stash>, metrics: Metrics, writes: Vec<Write>) {
    let mut wait = WAIT.0;
    let results = loop {
        let batches = writes.iter().flat_map(|write| write.batches.iter().cloned()).collect();
        match store.apply(batches).await {
            Ok(results) => break results,
            Err(err) => {
                metrics.store_errors.with_label_values(&["stash"]).inc();
                if wait == WAIT.0 {
                    log::error!("stash writes wait err={err}");
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(WAIT.1);
            }
        }
    };
    if wait > WAIT.0 {
        log::info!("stash takes writes again");
    }
    let mut results = results.into_iter();
    for write in writes {
        let answer = write
            .batches
            .iter()
            .map(|_| results.next().unwrap_or_else(|| Err(StoreError::Unavailable("no answer".into()))))
            .collect();
        // The asker may be gone: a restarted actor asks anew.
        let _ = write.done.send(answer);
    }
}

impl Actor for StashActor {
    type Context = Context<Self>;
}

impl Supervised for StashActor {
    fn restarting(&mut self, _: &mut Self::Context) {
        // Askers see their answers dropped, and ask again.
        self.queue.clear();
        self.waiting.store(0, Relaxed);
        self.writing = false;
    }
}

/// Batches of one client, in order. `done` gets a result a batch when all are decided; an error of the store as a whole is
/// waited out. It is dropped unanswered when this actor dies: ask again.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Write {
    /// What to write.
    pub batches: Vec<StashBatch>,
    /// Behind which the asker stands.
    pub fence: Fence,
    /// Where the results go.
    pub done: oneshot::Sender<Vec<StoreResult<()>>>,
}

impl Handler<Write> for StashActor {
    type Result = ();

    fn handle(&mut self, write: Write, ctx: &mut Self::Context) {
        self.cell.handling("Write");
        self.queue.push_back(write);
        self.write(ctx);
        self.waiting.store(self.queue.len(), Relaxed);
    }
}

/// Has batches written, however long it takes, after all that was asked for before.
pub async fn write_all(
    stash: &Addr<StashActor>,
    batches: Vec<StashBatch>,
    fence: &Fence,
) -> Vec<StoreResult<()>> {
    loop {
        let (done, results) = oneshot::channel();
        stash.do_send(Write { batches: batches.clone(), fence: fence.clone(), done });
        if let Ok(results) = results.await {
            return results;
        }
        // The stash actor died with it and is being restarted. Writing twice is writing once.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
