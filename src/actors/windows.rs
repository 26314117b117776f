//! What is unsettled on each partition of the transfer log, and how much memory it takes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus::IntGauge;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::domain::commit_window::CommitWindow;
use crate::domain::transfer::Transfer;
use crate::metrics::Metrics;
use crate::ports::stash::Ownership;

/// The commit windows of the partitions that are ours, our right to each, and the memory of what is unsettled.
pub struct Windows {
    partitions: Mutex<HashMap<u32, Partition>>,
    /// Bytes that may still come into memory.
    memory: Arc<Semaphore>,
    memory_bytes: usize,
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

impl Unsettled {
    /// The bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.memory.permit.num_permits()
    }
}

struct Memory {
    permit: OwnedSemaphorePermit,
    gauges: (IntGauge, IntGauge),
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.gauges.0.dec();
        self.gauges.1.sub(self.permit.num_permits() as i64);
    }
}

impl Windows {
    /// No partition yet; at most `memory_bytes` of unsettled transfers in memory.
    pub fn new(memory_bytes: usize, metrics: Metrics) -> Arc<Self> {
        Arc::new(Self {
            partitions: Mutex::default(),
            memory: Arc::new(Semaphore::new(memory_bytes)),
            memory_bytes,
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
    ///
    /// # Panics
    /// When the semaphore is closed, which nobody does.
    #[expect(clippy::expect_used, reason = "the semaphore is never closed")]
    pub async fn reserve(&self, transfer: Arc<Transfer>) -> Unsettled {
        let weight = u32::try_from(transfer.weight().min(self.memory_bytes)).unwrap_or(u32::MAX);
        let permit = self.memory.clone().acquire_many_owned(weight).await.expect("open semaphore");
        self.metrics.queued_bytes.add(i64::from(weight));
        self.metrics.queued.inc();
        let gauges = (self.metrics.queued.clone(), self.metrics.queued_bytes.clone());
        Unsettled { transfer, memory: Memory { permit, gauges } }
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
