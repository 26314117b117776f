//! The partitions that are ours: by which right, until when something may be sent for them, what of them is unsettled, and how
//! much memory that takes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus::IntGauge;
use tokio::sync::Notify;

use crate::domain::commit_window::CommitWindow;
use crate::domain::transfer::Transfer;
use crate::metrics::Metrics;
use crate::ports::event_log::SendPermission;
use crate::ports::stash::Ownership;
use crate::runtime::{ByteBudget, Permit};

/// The partitions that are ours, and the memory of what is unsettled. Everything names the right by which it acts: what was received
/// under an earlier one counts for nothing.
pub struct Windows {
    state: Mutex<State>,
    /// What may still come into memory.
    memory: ByteBudget,
    settled: Notify,
    committed: Notify,
    refused: Notify,
    metrics: Metrics,
}

struct State {
    partitions: HashMap<u32, Partition>,
    permission: SendPermission,
}

struct Partition {
    ownership: Ownership,
    hold: Hold,
    window: CommitWindow,
    /// The offset up to which it is settled, and not committed yet.
    to_commit: Option<i64>,
    /// The committed offset that is not copied beside the rows yet.
    to_copy: Option<i64>,
}

/// How far a partition is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    Ours,
    /// It goes to another: nothing new is started, what was started ends, and is committed.
    Leaving,
    /// The store refused our right to it: somebody took it since.
    Refused,
}

/// A transfer in memory. Its memory is free again when this is dropped, wherever that happens.
pub struct Unsettled {
    /// What is carried.
    pub transfer: Arc<Transfer>,
    _memory: Memory,
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

/// Offsets by partition, each with the right to it.
pub type Offsets = BTreeMap<u32, (Ownership, i64)>;

impl Windows {
    /// No partition yet; at most `memory_bytes` of unsettled transfers in memory.
    pub fn new(memory_bytes: usize, metrics: Metrics) -> Arc<Self> {
        let state = State { partitions: HashMap::new(), permission: SendPermission::none() };
        Arc::new(Self {
            state: Mutex::new(state),
            memory: ByteBudget::new(u32::try_from(memory_bytes).unwrap_or(u32::MAX), |_| {}),
            settled: Notify::new(),
            committed: Notify::new(),
            refused: Notify::new(),
            metrics,
        })
    }

    /// The log was opened: nothing is ours until it is assigned, and requests go out as far as `permission` reaches.
    pub fn begin(&self, permission: SendPermission) {
        *self.lock() = State { partitions: HashMap::new(), permission };
    }

    /// The log is not read any more: nothing is ours.
    pub fn end(&self) {
        self.begin(SendPermission::none());
    }

    /// Begins a partition anew: it is ours by this right.
    pub fn assign(&self, ownership: Ownership) {
        let partition = Partition {
            ownership,
            hold: Hold::Ours,
            window: CommitWindow::default(),
            to_commit: None,
            to_copy: None,
        };
        self.lock().partitions.insert(ownership.partition, partition);
    }

    /// These partitions go to another: nothing of them is started any more. Returns the rights that end.
    pub fn leave(&self, partitions: &BTreeSet<u32>) -> Vec<Ownership> {
        let mut state = self.lock();
        let leaves = |id: &u32| partitions.contains(id);
        state.partitions.retain(|id, partition| !leaves(id) || partition.hold != Hold::Refused);
        let leaving = state.partitions.iter_mut().filter(|(id, _)| leaves(id));
        leaving
            .map(|(_, partition)| {
                partition.hold = Hold::Leaving;
                partition.ownership
            })
            .collect()
    }

    /// These partitions are another's.
    pub fn forget(&self, partitions: &BTreeSet<u32>) {
        self.lock().partitions.retain(|id, _| !partitions.contains(id));
    }

    /// This right has ended.
    pub fn give_up(&self, ownership: Ownership) {
        self.lock().partitions.retain(|_, partition| partition.ownership != ownership);
    }

    /// The store refused this right: somebody took the partition since.
    pub fn lose(&self, ownership: Ownership) {
        let mut state = self.lock();
        if let Some(partition) = state.partition(ownership) {
            partition.hold = Hold::Refused;
            self.refused.notify_one();
        }
    }

    /// Waits until a right was refused since the last call.
    pub async fn refused(&self) {
        self.refused.notified().await;
    }

    /// Whether the log still gives us a partition whose right was refused.
    pub fn has_refused(&self) -> bool {
        self.lock().partitions.values().any(|partition| partition.hold == Hold::Refused)
    }

    /// The right to a partition; `None`: it is not ours, or about to be another's.
    pub fn ownership(&self, partition: u32) -> Option<Ownership> {
        let state = self.lock();
        let partition = state.partitions.get(&partition).filter(|partition| partition.hold == Hold::Ours)?;
        Some(partition.ownership)
    }

    /// Whether something may be begun by this right.
    pub fn is_ours(&self, ownership: Ownership) -> bool {
        self.ownership(ownership.partition) == Some(ownership)
    }

    /// Whether what was begun by this right may be ended by it.
    pub fn holds(&self, ownership: Ownership) -> bool {
        self.lock().partition(ownership).is_some()
    }

    /// Whether a request may be started by this right, at this time of [`Clock::boot_ms`](crate::ports::clock::Clock::boot_ms).
    pub fn may_send(&self, ownership: Ownership, now_boot_ms: i64) -> bool {
        let mut state = self.lock();
        state.permission.allows(now_boot_ms)
            && state.partition(ownership).is_some_and(|partition| partition.hold == Hold::Ours)
    }

    /// Waits until the transfer fits into memory. One that is larger than everything waits until it is alone.
    pub async fn reserve(&self, transfer: Arc<Transfer>) -> Unsettled {
        let bytes = transfer.weight();
        let permit = self.memory.acquire(bytes).await;
        self.metrics.queued_bytes.add(bytes as i64);
        self.metrics.queued.inc();
        let gauges = (self.metrics.queued.clone(), self.metrics.queued_bytes.clone());
        Unsettled { transfer, _memory: Memory { bytes, gauges, _permit: permit } }
    }

    /// Counts a received transfer as unsettled.
    pub fn received(&self, ownership: Ownership, offset: i64) {
        if let Some(partition) = self.lock().partition(ownership) {
            partition.window.received(offset);
        }
    }

    /// Settles a transfer: it was delivered, or is durable in the stash.
    pub fn settle(&self, ownership: Ownership, offset: i64) {
        if let Some(partition) = self.lock().partition(ownership) {
            partition.window.settle(offset);
        }
        self.settled.notify_one();
    }

    /// How many transfers of a partition are unsettled.
    pub fn unsettled(&self, partition: u32) -> usize {
        self.lock().partitions.get(&partition).map_or(0, |partition| partition.window.unsettled())
    }

    /// Waits until something was settled since the last call.
    pub async fn settled(&self) {
        self.settled.notified().await;
    }

    /// The offsets that are to be committed, of the partitions that are ours right now.
    pub fn to_commit(&self) -> Offsets {
        self.collect(|partition| {
            partition.to_commit = partition.window.advance().or(partition.to_commit);
            partition.to_commit
        })
    }

    /// Whether everything is committed that was settled by this right.
    pub fn is_committed(&self, ownership: Ownership) -> bool {
        !self.to_commit().values().any(|(right, _)| *right == ownership)
    }

    /// The log has these offsets.
    pub fn committed(&self, offsets: &Offsets) {
        let mut state = self.lock();
        for (ownership, next) in offsets.values() {
            let Some(partition) = state.partition(*ownership) else { continue };
            if partition.to_commit == Some(*next) {
                partition.to_commit = None;
            }
            partition.to_copy = Some(*next);
        }
        self.committed.notify_one();
    }

    /// Waits until something was committed since the last call.
    pub async fn something_committed(&self) {
        self.committed.notified().await;
    }

    /// Takes the committed offsets that are to be copied beside the rows.
    pub fn to_copy(&self) -> Offsets {
        self.collect(|partition| partition.to_copy.take())
    }

    fn collect(&self, offset: impl Fn(&mut Partition) -> Option<i64>) -> Offsets {
        let mut state = self.lock();
        let held = state.partitions.iter_mut().filter(|(_, partition)| partition.hold != Hold::Refused);
        held.filter_map(|(id, partition)| Some((*id, (partition.ownership, offset(partition)?)))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under this lock can leave it half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The partition of a right that still holds.
    fn partition(&mut self, ownership: Ownership) -> Option<&mut Partition> {
        let partition = self.partitions.get_mut(&ownership.partition)?;
        (partition.ownership == ownership && partition.hold != Hold::Refused).then_some(partition)
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
        windows.begin(SendPermission::always());
        windows.assign(ownership(0, 1));
        windows.assign(ownership(1, 7));
        windows
    }

    #[test]
    fn each_partition_moves_on_by_its_own_right() {
        let windows = windows(1_000);
        for (right, offset) in [(ownership(0, 1), 4), (ownership(0, 1), 5), (ownership(1, 7), 9)] {
            windows.received(right, offset);
        }
        assert_eq!((windows.unsettled(0), windows.unsettled(1), windows.unsettled(2)), (2, 1, 0));
        windows.settle(ownership(0, 1), 5);
        windows.settle(ownership(1, 7), 9);
        let first = windows.to_commit();
        assert_eq!(first.clone().into_iter().collect::<Vec<_>>(), [(1, (ownership(1, 7), 10))]);
        assert_eq!(windows.to_commit(), first, "until the log has it");
        assert!(!windows.is_committed(ownership(1, 7)));
        windows.committed(&first);
        assert!(windows.is_committed(ownership(1, 7)));
        assert_eq!(windows.to_copy(), first);
        assert!(windows.to_copy().is_empty());
        windows.settle(ownership(0, 1), 4);
        assert_eq!(windows.to_commit()[&0], (ownership(0, 1), 6));
    }

    #[test]
    fn what_was_received_by_an_earlier_right_is_not_committed_by_the_next() {
        let windows = windows(1_000);
        let (earlier, next) = (ownership(0, 1), ownership(0, 2));
        windows.received(earlier, 4);
        windows.end();
        windows.settle(earlier, 4);
        assert!(windows.to_commit().is_empty());
        windows.begin(SendPermission::always());
        windows.assign(next);
        windows.received(next, 4);
        windows.settle(earlier, 4);
        assert!(windows.to_commit().is_empty(), "it is to be sent again, and then settled");
        windows.settle(next, 4);
        let offsets = windows.to_commit();
        windows.assign(ownership(0, 3));
        windows.committed(&offsets);
        assert!(windows.to_copy().is_empty(), "the copy is the new owner's");
    }

    #[test]
    fn only_the_right_that_holds_can_be_refused() {
        let windows = windows(1_000);
        windows.lose(ownership(0, 0));
        assert!(windows.is_ours(ownership(0, 1)));
        assert!(windows.refused().now_or_never().is_none());
        windows.lose(ownership(0, 1));
        assert_eq!(windows.ownership(0), None);
        assert!(!windows.holds(ownership(0, 1)));
        assert!(windows.refused().now_or_never().is_some() && windows.has_refused());
        windows.forget(&BTreeSet::from([0]));
        assert!(!windows.has_refused());
    }

    #[test]
    fn what_leaves_is_committed_and_starts_nothing() {
        let windows = windows(1_000);
        windows.received(ownership(0, 1), 4);
        assert_eq!(windows.leave(&BTreeSet::from([0, 5])), [ownership(0, 1)]);
        assert!(!windows.may_send(ownership(0, 1), 0) && windows.may_send(ownership(1, 7), 0));
        assert!(windows.holds(ownership(0, 1)) && !windows.is_ours(ownership(0, 1)));
        windows.settle(ownership(0, 1), 4);
        assert_eq!(windows.to_commit()[&0], (ownership(0, 1), 5));
        windows.assign(ownership(0, 2));
        windows.give_up(ownership(0, 1));
        assert!(windows.is_ours(ownership(0, 2)), "it came back meanwhile");
    }

    #[test]
    fn nothing_is_sent_without_permission() {
        let windows = windows(1_000);
        assert!(windows.may_send(ownership(0, 1), 5));
        assert!(!windows.may_send(ownership(0, 2), 5));
        let permission = SendPermission::none();
        windows.begin(permission.clone());
        windows.assign(ownership(0, 3));
        assert!(!windows.may_send(ownership(0, 3), 5));
        permission.extend(6);
        assert!(windows.may_send(ownership(0, 3), 5) && !windows.may_send(ownership(0, 3), 6));
        windows.end();
        assert!(!windows.may_send(ownership(0, 3), 5));
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
