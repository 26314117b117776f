//! The transfer stage: transfer log -> fleet, and commits what is settled. Its loops run side by side, so that none waits for
//! what only another needs: batches go on while partitions come and go, and commits while the stash is away.

mod commits;
mod places;
mod turnover;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use futures_util::future::{LocalBoxFuture, join5};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use self::places::{Batch, Places};
use super::{LagProbe, Patience, Stage};
use crate::actors::delivery_fleet::{Deliver, DeliveryFleetActor, Sweep};
use crate::actors::windows::{Unsettled, Windows};
use crate::metrics::Metrics;
use crate::ports::StoreError;
use crate::ports::client_states::ClientStates;
use crate::ports::event_log::{BatchLimits, EventLog, TransferConsumer, TransferEvent};
use crate::ports::stash::{Ownership, Stash};
use crate::runtime::Cell;

/// The wait before everything begins anew because the store refused our right to a partition: the log may be about to say that it is
/// another's, and whoever took it may be just as quick.
const REFUSED_WAIT: Duration = Duration::from_secs(1);

/// A batch that waits for memory longer than this holds all partitions back, and what happens to them is heard meanwhile.
const STALLED_AFTER: Duration = Duration::from_millis(100);

/// The wait before a message is sent again that its actor lost as it broke.
const SEND_AGAIN: Duration = Duration::from_millis(100);

/// Reads the transfer log.
#[derive(Clone)]
pub struct TransferStage {
    /// The log.
    pub log: Arc<dyn EventLog>,
    /// The consumer group.
    pub group: String,
    /// How much is read at once.
    pub limits: BatchLimits,
    /// Where ownership and the copy of the committed offsets stand.
    pub stash: Arc<dyn Stash>,
    /// The states of the clients.
    pub states: Arc<dyn ClientStates>,
    /// What is ours, and unsettled.
    pub windows: Arc<Windows>,
    /// Unsettled records of a partition beyond which it is paused.
    pub unsettled_per_partition: usize,
    /// Where transfers go.
    pub fleet: Addr<DeliveryFleetActor>,
    /// Counters.
    pub metrics: Metrics,
    /// Where to ask how far it is behind.
    pub lag: LagProbe,
    /// No more reading: what is settled is still committed.
    pub stop_reading: CancellationToken,
    /// Ends the stage, after a last commit.
    pub stop: CancellationToken,
}

impl Stage for TransferStage {
    const KIND: &'static str = "ingest-transfer";

    fn run(self, cell: Cell) -> LocalBoxFuture<'static, ()> {
        Box::pin(async move {
            // Of an earlier run nothing is sent any more, nor committed: this one reads it again.
            self.windows.end();
            self.sweep().await;
            let mut patience = Patience::new("transfer log");
            let consumer = loop {
                match self.log.transfers(&self.group, self.limits).await {
                    Ok(consumer) => break consumer,
                    Err(err) => patience.after(&err).await,
                }
            };
            patience.over();
            // Not held: a consumer that is not read any more must leave its group.
            let asked = Arc::downgrade(&consumer);
            self.lag.is(Box::new(move || {
                let consumer = asked.upgrade();
                Box::pin(async move {
                    match consumer {
                        Some(consumer) => consumer.lag().await,
                        None => Err(StoreError::Unavailable("the log is not read".to_owned())),
                    }
                })
            }));
            let (chores, chores_to_do) = mpsc::unbounded_channel();
            let ours = Ours(self.windows.clone());
            self.windows.begin(consumer.permission());
            let places = RefCell::new(Places::new(consumer.clone()));
            let (fed, drained) = (Notify::new(), Notify::new());
            let run = Run { stage: self, cell, fed, drained, chores, _ours: ours, consumer, places };
            Rc::new(run).go_on(chores_to_do).await;
        })
    }
}

impl TransferStage {
    /// Waits until nothing is sent by a right that has ended.
    async fn sweep(&self) {
        while self.fleet.send(Sweep).await.is_err() {
            log::error!("delivery fleet is gone err=mailbox closed");
            tokio::time::sleep(SEND_AGAIN).await;
        }
    }
}

/// What takes its time, and must not hold up the reading.
type Chore = LocalBoxFuture<'static, ()>;

/// The stage while one consumer is open.
struct Run {
    stage: TransferStage,
    cell: Cell,
    /// A batch waits to be handed over.
    fed: Notify,
    /// None does any more.
    drained: Notify,
    chores: mpsc::UnboundedSender<Chore>,
    /// Dropped before the consumer, and with it the place in the group: then the log gives what is ours to others.
    _ours: Ours,
    consumer: Arc<dyn TransferConsumer>,
    places: RefCell<Places>,
}

/// While this lives partitions can be ours.
struct Ours(Arc<Windows>);

impl Drop for Ours {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Run {
    async fn go_on(self: Rc<Self>, chores: mpsc::UnboundedReceiver<Chore>) {
        let last_commit = CancellationToken::new();
        let committing = async {
            self.commit().await;
            last_commit.cancel();
        };
        let work =
            join5(self.read(), self.feed(), committing, self.copy(&last_commit), self.do_chores(chores));
        tokio::select! {
            _ = work => {}
            () = self.begin_anew_when_refused() => {}
        }
    }

    async fn read(self: &Rc<Self>) {
        let mut patience = Patience::new("transfer log");
        loop {
            let event = tokio::select! {
                () = self.stage.stop_reading.cancelled() => return,
                event = self.consumer.next() => event,
            };
            self.cell.handling("batch");
            if event.is_ok() {
                patience.over();
            }
            match event {
                Ok(TransferEvent::Assigned(committed)) => self.assigned(committed),
                Ok(TransferEvent::Revoked { partitions, left }) => self.revoked(partitions, left),
                Ok(TransferEvent::Lost(partitions)) => self.lost(&partitions),
                Ok(TransferEvent::Batch { partition, transfers }) => {
                    self.places.borrow_mut().came(partition, transfers);
                    self.until_handed_over().await;
                }
                Err(err) if !err.is_transient() => {
                    log::error!("transfer consumer is replaced err={err}");
                    self.cell.restart("its consumer has ended");
                    std::future::pending::<()>().await;
                }
                Err(err) => {
                    self.stage.metrics.store_errors.with_label_values(&["log"]).inc();
                    patience.after(&err).await;
                }
            }
        }
    }

    /// Waits until nothing waits to be handed over; not for long.
    async fn until_handed_over(&self) {
        self.fed.notify_one();
        if self.places.borrow().is_stalled() {
            return;
        }
        tokio::select! {
            () = self.drained.notified() => {}
            () = tokio::time::sleep(STALLED_AFTER) => self.places.borrow_mut().stalled(),
        }
    }

    /// Hands over what came, batch by batch.
    async fn feed(&self) {
        loop {
            let Some(batch) = self.places.borrow_mut().next_batch() else {
                self.drained.notify_one();
                tokio::select! {
                    () = self.stage.stop_reading.cancelled() => return,
                    () = self.fed.notified() => continue,
                }
            };
            tokio::select! {
                () = self.stage.stop_reading.cancelled() => return,
                () = self.hand_over(batch) => {}
            }
        }
    }

    async fn hand_over(&self, Batch { ownership, transfers }: Batch) {
        let windows = &self.stage.windows;
        let mut batch = Vec::with_capacity(transfers.len());
        for transfer in transfers {
            // What is not handed over cannot be settled: it must go before this waits for memory.
            let reserved = match windows.reserve(transfer.clone()).now_or_never() {
                Some(reserved) => reserved,
                None => {
                    self.deliver(ownership, std::mem::take(&mut batch)).await;
                    windows.reserve(transfer.clone()).await
                }
            };
            if !windows.is_ours(ownership) {
                return;
            }
            windows.received(ownership, transfer.sequence.offset);
            batch.push(reserved);
        }
        self.deliver(ownership, batch).await;
        // As of now: of what was settled while this waited nobody will tell again, and only a settlement resumes it.
        if windows.unsettled(ownership.partition) > self.stage.unsettled_per_partition {
            self.places.borrow_mut().full(ownership);
        }
    }

    async fn deliver(&self, ownership: Ownership, batch: Vec<Unsettled>) {
        if !batch.is_empty() && self.stage.fleet.send(Deliver { ownership, batch }).await.is_err() {
            // The fleet died with this message in its hands. The records are unsettled: read from the committed offset again.
            self.cell.restart("the fleet lost a batch");
            std::future::pending::<()>().await;
        }
    }

    /// Does what takes its time.
    async fn do_chores(&self, mut chores: mpsc::UnboundedReceiver<Chore>) {
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = self.stage.stop.cancelled() => return,
                Some(chore) = chores.recv() => under_way.push(chore),
                Some(()) = under_way.next() => {}
            }
        }
    }
}
