//! A group's place in the transfer log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::offsets::{self, Stream};
use super::tail::Found;
use super::{Shared, closed, store};
use crate::domain::transfer::Transfer;
use crate::ports::event_log::{BatchLimits, Lag, SendPermission, TransferConsumer, TransferEvent};
use crate::ports::{BoxFuture, StoreResult};

pub(super) struct SqliteTransferConsumer {
    shared: Arc<Shared>,
    group: String,
    limits: BatchLimits,
    places: Mutex<Places>,
}

struct Places {
    assigned: bool,
    partitions: Vec<Place>,
    /// The partition that is looked at first: the one after the last batch's, so that none starves.
    turn: usize,
}

struct Place {
    /// The next to hand out.
    position: i64,
    paused: bool,
}

impl Places {
    /// The first time: all partitions with their committed offsets, for nothing was handed out yet.
    fn assign(&mut self) -> Option<BTreeMap<u32, i64>> {
        let first = !std::mem::replace(&mut self.assigned, true);
        first.then(|| (0..).zip(self.partitions.iter().map(|place| place.position)).collect())
    }

    /// The partitions that may be handed out, with their positions, in turn.
    fn wanted(&self) -> Vec<(usize, i64)> {
        let count = self.partitions.len();
        (0..count)
            .map(|step| (self.turn + step) % count)
            .filter(|partition| !self.partitions[*partition].paused)
            .map(|partition| (partition, self.partitions[partition].position))
            .collect()
    }

    /// Hands out records that were found at `from`, unless the partition was paused or read on meanwhile.
    fn hand_out(&mut self, partition: usize, from: i64, records: &[Arc<Transfer>]) -> bool {
        let Some(last) = records.last() else { return false };
        let place = &mut self.partitions[partition];
        if place.paused || place.position != from {
            return false;
        }
        place.position = last.sequence.offset + 1;
        self.turn = (partition + 1) % self.partitions.len();
        true
    }
}

impl SqliteTransferConsumer {
    pub(super) async fn open(shared: Arc<Shared>, group: String, limits: BatchLimits) -> StoreResult<Self> {
        let name = group.clone();
        let committed = shared
            .database
            .write(move |connection| offsets::open_group(connection, &name, Stream::Transfer))
            .await?;
        let partitions = committed.into_iter().map(|position| Place { position, paused: false }).collect();
        let places = Mutex::new(Places { assigned: false, partitions, turn: 0 });
        Ok(Self { shared, group, limits, places })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn next_event(&self) -> StoreResult<TransferEvent> {
        loop {
            // Before looking, so that what comes after the look wakes us.
            let mut changed = std::pin::pin!(self.shared.transfers.changed());
            changed.as_mut().enable();
            if self.shared.transfers.is_closed() {
                return Err(closed());
            }
            if let Some(committed) = self.places().assign() {
                return Ok(TransferEvent::Assigned(committed));
            }
            let wanted = self.places().wanted();
            let mut found_any = false;
            for (partition, from) in wanted {
                let transfers = match self.shared.transfers.find(partition, from, self.limits) {
                    Found::Here(transfers) => transfers,
                    Found::InFile { end } => self.read_file(partition, from, end).await?,
                    Found::Nothing => continue,
                };
                found_any = true;
                // The place moves on where nothing is awaited any more: who drops this future gets them again.
                if self.places().hand_out(partition, from, &transfers) {
                    return Ok(TransferEvent::Batch { partition: partition as u32, transfers });
                }
            }
            if !found_any {
                changed.await;
            }
        }
    }

    async fn read_file(&self, partition: usize, from: i64, end: i64) -> StoreResult<Vec<Arc<Transfer>>> {
        self.shared.count_file_read();
        let (incarnation, limits) = (self.shared.shape.incarnation, self.limits);
        let transfers = self
            .shared
            .database
            .read(move |connection| store::read_transfers(connection, incarnation, partition, from, limits))
            .await?;
        if transfers.is_empty() {
            log::error!(
                "transfers are gone partition={partition} from={from} end={end} group={}",
                self.group
            );
            let place = &mut self.places().partitions[partition];
            place.position = place.position.max(end);
        }
        Ok(transfers)
    }

    async fn commit_offsets(&self, offsets: BTreeMap<u32, i64>) -> StoreResult<()> {
        let group = self.group.clone();
        self.shared
            .database
            .write(move |connection| {
                for (partition, next) in offsets {
                    offsets::commit(connection, &group, Stream::Transfer, partition, next)?;
                }
                Ok(())
            })
            .await
    }

    fn set_paused(&self, partition: u32, paused: bool) {
        if let Some(place) = self.places().partitions.get_mut(partition as usize) {
            place.paused = paused;
        }
    }
}

impl TransferConsumer for SqliteTransferConsumer {
    fn next(&self) -> BoxFuture<'_, StoreResult<TransferEvent>> {
        Box::pin(self.next_event())
    }

    fn commit(&self, offsets: BTreeMap<u32, i64>) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.commit_offsets(offsets))
    }

    fn pause(&self, partition: u32) {
        self.set_paused(partition, true);
    }

    fn resume(&self, partition: u32) {
        self.set_paused(partition, false);
        self.shared.transfers.wake();
    }

    fn permission(&self) -> SendPermission {
        SendPermission::always()
    }

    fn lag(&self) -> BoxFuture<'_, StoreResult<Lag>> {
        Box::pin(self.shared.lag(&self.group, Stream::Transfer, self.shared.transfers.ends()))
    }
}
