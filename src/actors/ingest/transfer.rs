//! The transfer stage: transfer log -> fleet, and commits what is settled.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix::prelude::*;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use tokio_util::sync::CancellationToken;

use super::{LagProbe, Patience, Stage};
use crate::actors::delivery_fleet::{Assigned, Committed, Deliver, DeliveryFleetActor, Lost};
use crate::actors::windows::{Unsettled, Windows};
use crate::domain::transfer::Transfer;
use crate::metrics::Metrics;
use crate::ports::event_log::{BatchLimits, EventLog, TransferConsumer, TransferEvent};
use crate::ports::stash::{Ownership, Stash};
use crate::runtime::Cell;

/// A commit waits this long for company: it costs a disk flush.
const COMMIT_EVERY: Duration = Duration::from_millis(10);

/// The wait before everything begins anew because a partition was lost: whoever took it may be just as quick.
const LOST_WAIT: Duration = Duration::from_secs(1);

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
    /// What is unsettled.
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
            // Of an earlier run nothing is committed any more: this one reads it again.
            self.windows.clear();
            let mut patience = Patience::new("transfer log");
            let consumer = loop {
                match self.log.transfers(&self.group, self.limits).await {
                    Ok(consumer) => break consumer,
                    Err(err) => patience.after(&err).await,
                }
            };
            patience.over();
            let asked = consumer.clone();
            self.lag.is(Box::new(move || {
                let consumer = asked.clone();
                Box::pin(async move { consumer.lag().await })
            }));
            let paused = Arc::new(Mutex::new(HashSet::new()));
            let reading = self.read(cell.clone(), consumer.clone(), paused.clone());
            let committing = self.commit(consumer, paused);
            tokio::select! {
                _ = futures_util::future::join(reading, committing) => {}
                () = self.begin_anew_when_lost(cell) => {}
            }
        })
    }
}

type Paused = Arc<Mutex<HashSet<u32>>>;

impl TransferStage {
    async fn begin_anew_when_lost(&self, cell: Cell) {
        self.windows.lost().await;
        tokio::time::sleep(LOST_WAIT).await;
        cell.restart("a partition is another's");
        std::future::pending().await
    }

    async fn read(&self, cell: Cell, consumer: Arc<dyn TransferConsumer>, paused: Paused) {
        let mut patience = Patience::new("transfer log");
        loop {
            let event = tokio::select! {
                () = self.stop_reading.cancelled() => return,
                event = consumer.next() => event,
            };
            cell.handling("batch");
            match event {
                Ok(TransferEvent::Assigned(committed)) => self.assigned(committed).await,
                Ok(TransferEvent::Revoked { partitions, left: _left }) => self.lost(partitions).await,
                Ok(TransferEvent::Lost(partitions)) => self.lost(partitions).await,
                Ok(TransferEvent::Batch { partition, transfers }) => {
                    patience.over();
                    let hand_over = self.hand_over(&cell, &consumer, &paused, partition, transfers);
                    tokio::select! {
                        () = self.stop_reading.cancelled() => return,
                        () = hand_over => {}
                    }
                }
                Err(err) => {
                    self.metrics.store_errors.with_label_values(&["log"]).inc();
                    patience.after(&err).await;
                }
            }
        }
    }

    async fn lost(&self, partitions: BTreeSet<u32>) {
        while self.fleet.send(Lost(partitions.iter().copied().collect())).await.is_err() {
            log::error!("delivery fleet is gone err=mailbox closed");
            tokio::time::sleep(LOST_WAIT).await;
        }
    }

    /// Raises the epoch of each partition before anything of it is delivered. Whoever delivers of an earlier run has ended by then:
    /// it holds records that are read again.
    async fn assigned(&self, committed: BTreeMap<u32, i64>) {
        let mut patience = Patience::new("partition ownership");
        while self.fleet.send(Lost(committed.keys().copied().collect())).await.is_err() {
            log::error!("delivery fleet is gone err=mailbox closed");
            tokio::time::sleep(LOST_WAIT).await;
        }
        let mut ownerships = Vec::new();
        for (partition, next) in committed {
            let ownership = loop {
                match self.stash.take_ownership(self.log.incarnation(), partition).await {
                    Ok(ownership) => break ownership,
                    Err(err) => patience.after(&err).await,
                }
            };
            self.windows.assign(ownership);
            // The copy may have been missed when an earlier run ended between the two.
            self.copy_committed(&mut patience, ownership, next).await;
            ownerships.push(ownership);
        }
        patience.over();
        if self.fleet.send(Assigned(ownerships)).await.is_err() {
            log::error!("delivery fleet is gone err=mailbox closed");
        }
    }

    async fn hand_over(
        &self,
        cell: &Cell,
        consumer: &Arc<dyn TransferConsumer>,
        paused: &Paused,
        partition: u32,
        transfers: Vec<Arc<Transfer>>,
    ) {
        let mut batch = Vec::with_capacity(transfers.len());
        for transfer in transfers {
            // What is not handed over cannot be settled: it must go before this waits for memory.
            let reserved = match self.windows.reserve(transfer.clone()).now_or_never() {
                Some(reserved) => reserved,
                None => {
                    self.deliver(cell, std::mem::take(&mut batch)).await;
                    self.windows.reserve(transfer.clone()).await
                }
            };
            self.windows.received(&transfer);
            batch.push(reserved);
        }
        self.deliver(cell, batch).await;
        // As of now: of what was settled while this waited nobody will tell again, and only a settlement resumes it.
        if self.windows.unsettled(partition) > self.unsettled_per_partition {
            consumer.pause(partition);
            lock(paused).insert(partition);
        }
    }

    async fn deliver(&self, cell: &Cell, batch: Vec<Unsettled>) {
        if !batch.is_empty() && self.fleet.send(Deliver(batch)).await.is_err() {
            // The fleet died with this message in its hands. The records are unsettled: read from the committed offset again.
            cell.restart("the fleet lost a batch");
            std::future::pending::<()>().await;
        }
    }

    async fn commit(&self, consumer: Arc<dyn TransferConsumer>, paused: Paused) {
        let mut patience = Patience::new("commit of settled transfers");
        loop {
            let last = tokio::select! {
                () = self.stop.cancelled() => true,
                () = self.windows.settled() => false,
            };
            if !last {
                tokio::time::sleep(COMMIT_EVERY).await;
            }
            let advanced = self.windows.advance();
            if !advanced.is_empty() {
                let offsets: std::collections::BTreeMap<_, _> =
                    advanced.iter().map(|(partition, (_, next))| (*partition, *next)).collect();
                while let Err(err) = consumer.commit(offsets.clone()).await {
                    self.metrics.store_errors.with_label_values(&["log"]).inc();
                    if !err.is_transient() {
                        log::error!("commit of settled transfers is refused err={err}");
                        advanced.values().for_each(|(ownership, _)| self.windows.lose(*ownership));
                        std::future::pending::<()>().await;
                    }
                    patience.after(&err).await;
                }
                for (partition, (ownership, next)) in advanced {
                    self.copy_committed(&mut patience, ownership, next).await;
                    self.fleet.do_send(Committed(partition));
                }
                patience.over();
            }
            lock(&paused).retain(|partition| {
                let full = self.windows.unsettled(*partition) > self.unsettled_per_partition / 2;
                if !full {
                    consumer.resume(*partition);
                }
                full
            });
            if last {
                return;
            }
        }
    }

    async fn copy_committed(&self, patience: &mut Patience, ownership: Ownership, next: i64) {
        while let Err(err) = self.stash.committed(ownership, next).await {
            if !err.is_transient() {
                log::warn!("committed offset was not copied err={err} partition={}", ownership.partition);
                self.windows.lose(ownership);
                return;
            }
            self.metrics.store_errors.with_label_values(&["stash"]).inc();
            patience.after(&err).await;
        }
    }
}

fn lock(paused: &Paused) -> std::sync::MutexGuard<'_, HashSet<u32>> {
    paused.lock().unwrap_or_else(PoisonError::into_inner)
}
