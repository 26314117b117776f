//! The newest records of a stream, in memory: what is fresh goes from who wrote it to who waits for it without
//! being read from the file.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::ports::event_log::BatchLimits;

/// A record with its place in its partition.
pub(super) trait Placed: Clone {
    fn offset(&self) -> i64;
    /// What it counts for in bounds, in bytes.
    fn weight(&self) -> usize;
}

/// What there is at a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<R> {
    /// These records.
    Here(Vec<R>),
    /// Records that are not in memory any more; the file has them, up to this offset.
    InFile { end: i64 },
    /// None yet.
    Nothing,
}

pub(super) struct Tail<R> {
    limits: BatchLimits,
    state: Mutex<State<R>>,
    /// Wakes all consumers: something was appended, resumed, or closed.
    changed: Notify,
    closed: AtomicBool,
}

struct State<R> {
    partitions: Vec<Partition<R>>,
    /// The partitions of the records in memory, oldest first.
    order: VecDeque<usize>,
    bytes: usize,
}

struct Partition<R> {
    /// Without gaps, up to `end`.
    records: VecDeque<R>,
    /// The next offset: everything below is durable.
    end: i64,
}

impl<R: Placed> Tail<R> {
    /// An empty tail of a stream whose partitions end at `ends`.
    pub(super) fn new(limits: BatchLimits, ends: Vec<i64>) -> Self {
        let partitions = ends.into_iter().map(|end| Partition { records: VecDeque::new(), end }).collect();
        Self {
            limits,
            state: Mutex::new(State { partitions, order: VecDeque::new(), bytes: 0 }),
            changed: Notify::new(),
            closed: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds records that are durable, in the order of their commits.
    pub(super) fn push(&self, records: impl IntoIterator<Item = (usize, R)>) {
        let mut state = self.state();
        for (partition, record) in records {
            state.push(partition, record);
        }
        state.shrink(self.limits);
        drop(state);
        self.changed.notify_waiters();
    }

    /// What a consumer at `from` gets.
    pub(super) fn find(&self, partition: usize, from: i64, limits: BatchLimits) -> Found<R> {
        let state = self.state();
        let partition = &state.partitions[partition];
        if from >= partition.end {
            return Found::Nothing;
        }
        let Some(skip) =
            partition.records.front().and_then(|first| usize::try_from(from - first.offset()).ok())
        else {
            return Found::InFile { end: partition.end };
        };
        let mut batch = Batch::new(limits);
        for record in partition.records.range(skip..) {
            if !batch.take(record.clone()) {
                break;
            }
        }
        Found::Here(batch.records)
    }

    /// The next offsets, by partition.
    pub(super) fn ends(&self) -> Vec<i64> {
        self.state().partitions.iter().map(|partition| partition.end).collect()
    }

    /// Ready when something changed after this call; `enable` it before looking.
    pub(super) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Makes consumers look again.
    pub(super) fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// No more records: consumers that wait get an error.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl<R: Placed> State<R> {
    fn push(&mut self, partition: usize, record: R) {
        if record.offset() != self.partitions[partition].end {
            // A hand-over was lost (it panicked): what is in memory must have no gap, so the file is read.
            self.partitions.iter_mut().for_each(|partition| partition.records.clear());
            self.order.clear();
            self.bytes = 0;
        }
        self.bytes += record.weight();
        self.order.push_back(partition);
        let partition = &mut self.partitions[partition];
        partition.end = record.offset() + 1;
        partition.records.push_back(record);
    }

    fn shrink(&mut self, limits: BatchLimits) {
        while self.order.len() > limits.records || self.bytes > limits.bytes {
            let Some(partition) = self.order.pop_front() else { return };
            if let Some(record) = self.partitions[partition].records.pop_front() {
                self.bytes -= record.weight();
            }
        }
    }
}

/// Records up to limits; the first is always taken.
pub(super) struct Batch<R> {
    pub(super) records: Vec<R>,
    left: BatchLimits,
}

impl<R: Placed> Batch<R> {
    pub(super) fn new(limits: BatchLimits) -> Self {
        Self { records: Vec::new(), left: limits }
    }

    /// Whether it was taken: not when the batch is full.
    pub(super) fn take(&mut self, record: R) -> bool {
        let weight = record.weight();
        let fits = self.left.records > 0 && weight <= self.left.bytes;
        if !fits && !self.records.is_empty() {
            return false;
        }
        self.left.records = self.left.records.saturating_sub(1);
        self.left.bytes = self.left.bytes.saturating_sub(weight);
        self.records.push(record);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Record(i64);

    impl Placed for Record {
        fn offset(&self) -> i64 {
            self.0
        }
        fn weight(&self) -> usize {
            10
        }
    }

    const ALL: BatchLimits = BatchLimits { records: 100, bytes: 10_000 };

    fn tail(records: usize, bytes: usize) -> Tail<Record> {
        Tail::new(BatchLimits { records, bytes }, vec![0, 5])
    }

    #[test]
    fn hands_over_from_any_place_in_memory() {
        let tail = tail(100, 10_000);
        assert_eq!(tail.find(1, 5, ALL), Found::Nothing);
        tail.push([(1, Record(5)), (0, Record(0)), (1, Record(6)), (1, Record(7))]);
        assert_eq!(tail.find(1, 5, ALL), Found::Here(vec![Record(5), Record(6), Record(7)]));
        assert_eq!(tail.find(1, 7, ALL), Found::Here(vec![Record(7)]));
        assert_eq!(tail.find(1, 8, ALL), Found::Nothing);
        assert_eq!(tail.find(1, 4, ALL), Found::InFile { end: 8 });
        let two = BatchLimits { records: 100, bytes: 25 };
        assert_eq!(tail.find(1, 5, two), Found::Here(vec![Record(5), Record(6)]));
        let none = BatchLimits { records: 100, bytes: 1 };
        assert_eq!(tail.find(1, 5, none), Found::Here(vec![Record(5)]));
    }

    #[test]
    fn keeps_the_newest_of_all_partitions_within_both_limits() {
        for tail in [tail(2, 10_000), tail(100, 29)] {
            tail.push([(1, Record(5)), (0, Record(0)), (1, Record(6))]);
            assert_eq!(tail.find(1, 5, ALL), Found::InFile { end: 7 });
            assert_eq!(tail.find(1, 6, ALL), Found::Here(vec![Record(6)]));
            assert_eq!(tail.find(0, 0, ALL), Found::Here(vec![Record(0)]));
            tail.push([(1, Record(7)), (1, Record(8))]);
            assert_eq!(tail.find(0, 0, ALL), Found::InFile { end: 1 });
            assert_eq!(tail.find(1, 7, ALL), Found::Here(vec![Record(7), Record(8)]));
        }
    }

    #[test]
    fn never_hands_over_across_a_gap() {
        let tail = tail(100, 10_000);
        tail.push([(0, Record(0)), (1, Record(5)), (0, Record(3))]);
        assert_eq!(tail.find(0, 0, ALL), Found::InFile { end: 4 });
        assert_eq!(tail.find(0, 2, ALL), Found::InFile { end: 4 });
        assert_eq!(tail.find(0, 3, ALL), Found::Here(vec![Record(3)]));
        assert_eq!(tail.find(1, 5, ALL), Found::InFile { end: 6 });
    }
}
