//! What is unsettled on each partition of the transfer log, and how much memory it takes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus::IntGauge;
use tokio::sync::Notify;

use crate::domain::commit_window::CommitWindow;
use crate::domain::transfer::Transfer;
use crate::metrics::Metrics;
use crate::ports::stash::Ownership;
use crate::runtime::{ByteBudget, Permit};

/// The commit windows of the partitions that are ours, our right to each, and the memory of what is unsettled.
pub struct Windows {
    partitions: Mutex<HashMap<u32, Partition>>,
    /// What may still come into memory.
    memory: ByteBudget,
    settled: Notify,
    lost: Notify,
    metrics: Metrics,
}

struct Partition {
    window: CommitWindow,
    ownership: Ownership,
}

/// A transfer in memory. Its memory is free again when this is dropped, wherever that happens.
pub struct Unsettled {
    /// What is carried.
    pub transfer: Arc<Transfer>,
    memory: Memory,
}

struct Memory {
    bytes: usize,
    gauges: (IntGauge, IntGauge),
    _permit: Permit,
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.gauges.0.dec();
        self.gauges.1.sub(self.bytes as i64);
    }
}

impl Windows {
    /// No partition yet; at most `memory_bytes` of unsettled transfers in memory.
    pub fn new(memory_bytes: usize, metrics: Metrics) -> Arc<Self> {
        Arc::new(Self {
            partitions: Mutex::default(),
            memory: ByteBudget::new(u32::try_from(memory_bytes).unwrap_or(u32::MAX), |_| {}),
            settled: Notify::new(),
            lost: Notify::new(),
            metrics,
        })
    }

    /// Begins a partition anew: it is ours by this right.
    pub fn assign(&self, ownership: Ownership) {
        let partition = Partition { window: CommitWindow::default(), ownership };
        self.lock().insert(ownership.partition, partition);
    }

    /// Nothing is ours until it is assigned.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// The stash refused this right: somebody took the partition since.
    pub fn lose(&self, ownership: Ownership) {
        let mut partitions = self.lock();
        if partitions.get(&ownership.partition).is_some_and(|partition| partition.ownership == ownership) {
            partitions.remove(&ownership.partition);
            self.lost.notify_one();
        }
    }

    /// Waits until a partition was lost since the last call.
    pub async fn lost(&self) {
        self.lost.notified().await;
    }

    /// The right to a partition; `None`: it is not ours.
    pub fn ownership(&self, partition: u32) -> Option<Ownership> {
        self.lock().get(&partition).map(|partition| partition.ownership)
    }

    /// Waits until the transfer fits into memory. One that is larger than everything waits until it is alone.
    pub async fn reserve(&self, transfer: Arc<Transfer>) -> Unsettled {
        let bytes = transfer.weight();
        let permit = self.memory.acquire(bytes).await;
        self.metrics.queued_bytes.add(bytes as i64);
        self.metrics.queued.inc();
        let gauges = (self.metrics.queued.clone(), self.metrics.queued_bytes.clone());
        Unsettled { transfer, memory: Memory { bytes, gauges, _permit: permit } }
    }

    /// Counts a received transfer as unsettled.
    pub fn received(&self, transfer: &Transfer) {
        if let Some(partition) = self.lock().get_mut(&transfer.sequence.partition) {
            partition.window.received(transfer.sequence.offset);
        }
    }

    /// Settles a transfer: it was delivered, or is durable in the stash.
    pub fn settle(&self, transfer: &Transfer) {
        if let Some(partition) = self.lock().get_mut(&transfer.sequence.partition) {
            partition.window.settle(transfer.sequence.offset);
        }
        self.settled.notify_one();
    }

    /// How many transfers of a partition are unsettled.
    pub fn unsettled(&self, partition: u32) -> usize {
        self.lock().get(&partition).map_or(0, |partition| partition.window.unsettled())
    }

    /// Waits until something was settled since the last call.
    pub async fn settled(&self) {
        self.settled.notified().await;
    }

    /// The offsets to commit, with the right by which: those of partitions whose settled prefix grew.
    pub fn advance(&self) -> BTreeMap<u32, (Ownership, i64)> {
        let mut partitions = self.lock();
        partitions
            .iter_mut()
            .filter_map(|(id, partition)| Some((*id, (partition.ownership, partition.window.advance()?))))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Partition>> {
        // No code under this lock can leave it half-changed.
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::FutureExt as _;

    use super::*;
    use crate::domain::config::ClientId;
    use crate::domain::transfer::{
        DocumentHash, EventId, NewTransfer, Sequence, SourcePosition, TransferKind,
    };

    fn transfer(partition: u32, offset: i64, bytes: usize) -> Arc<Transfer> {
        let content = NewTransfer {
            client: ClientId::new("a"),
            document: "d".into(),
            document_hash: DocumentHash([1; 16]),
            event_id: EventId::from_stored("evt_a"),
            kind: TransferKind::Live,
            source: SourcePosition { topic: "t".into(), partition: 0, offset },
            traceparent: None,
            ts_ms: 0,
            body: Bytes::from(vec![b' '; bytes]),
        };
        Arc::new(Transfer { sequence: Sequence { incarnation: 1, partition, offset }, content })
    }

    fn ownership(partition: u32, epoch: i64) -> Ownership {
        Ownership { incarnation: 1, partition, epoch }
    }

    fn windows(memory_bytes: usize) -> Arc<Windows> {
        let windows = Windows::new(memory_bytes, Metrics::new());
        windows.assign(ownership(0, 1));
        windows.assign(ownership(1, 7));
        windows
    }

    #[test]
    fn each_partition_moves_on_by_its_own_right() {
        let windows = windows(1_000);
        for (partition, offset) in [(0, 4), (0, 5), (1, 9)] {
            windows.received(&transfer(partition, offset, 0));
        }
        assert_eq!((windows.unsettled(0), windows.unsettled(1), windows.unsettled(2)), (2, 1, 0));
        windows.settle(&transfer(0, 5, 0));
        windows.settle(&transfer(1, 9, 0));
        assert_eq!(windows.advance().into_iter().collect::<Vec<_>>(), [(1, (ownership(1, 7), 10))]);
        windows.settle(&transfer(0, 4, 0));
        assert_eq!(windows.advance()[&0], (ownership(0, 1), 6));
    }

    #[test]
    fn what_an_earlier_run_received_is_not_committed_by_the_next() {
        let windows = windows(1_000);
        windows.received(&transfer(0, 4, 0));
        windows.clear();
        windows.settle(&transfer(0, 4, 0));
        assert!(windows.advance().is_empty());
        windows.assign(ownership(0, 2));
        windows.settle(&transfer(0, 4, 0));
        windows.received(&transfer(0, 4, 0));
        assert!(windows.advance().is_empty(), "it is to be sent again, and then settled");
    }

    #[test]
    fn only_the_right_that_holds_can_be_lost() {
        let windows = windows(1_000);
        windows.lose(ownership(0, 0));
        assert_eq!(windows.ownership(0), Some(ownership(0, 1)));
        assert!(windows.lost().now_or_never().is_none());
        windows.lose(ownership(0, 1));
        assert_eq!(windows.ownership(0), None);
        assert!(windows.lost().now_or_never().is_some());
    }

    #[actix_rt::test]
    async fn memory_is_given_out_once_and_comes_back() {
        let weight = transfer(0, 0, 0).weight();
        let windows = windows(weight * 2);
        let first = windows.reserve(transfer(0, 1, 0)).await;
        let second = windows.reserve(transfer(0, 2, 0)).await;
        assert_eq!(windows.metrics.queued_bytes.get(), 2 * weight as i64);
        assert!(windows.reserve(transfer(0, 3, 0)).now_or_never().is_none());
        drop(first);
        let third = windows.reserve(transfer(0, 3, 0)).now_or_never().unwrap();
        drop((second, third));
        let large = windows.reserve(transfer(0, 4, weight * 100)).now_or_never().unwrap();
        assert!(windows.reserve(transfer(0, 5, 0)).now_or_never().is_none(), "a large one is alone");
        drop(large);
        assert_eq!((windows.metrics.queued.get(), windows.metrics.queued_bytes.get()), (0, 0));
    }
}
