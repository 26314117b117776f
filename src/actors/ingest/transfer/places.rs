//! The partitions that the log gave us: which of them are taken over already, what came of each, and which are held back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::domain::transfer::Transfer;
use crate::ports::event_log::TransferConsumer;
use crate::ports::stash::Ownership;

/// Transfers of one partition, in order.
pub(super) struct Batch {
    /// By which right they were received.
    pub(super) ownership: Ownership,
    pub(super) transfers: Vec<Arc<Transfer>>,
}

/// Which assignment of a partition is meant: it may be lost, and come again, while it is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Assignment(u64);

pub(super) struct Places {
    consumer: Arc<dyn TransferConsumer>,
    places: BTreeMap<u32, Place>,
    /// What waits to be handed over.
    queue: VecDeque<Batch>,
    /// There is no memory for what waits.
    stalled: bool,
    assignments: u64,
}

struct Place {
    right: Right,
    /// Too much of it is unsettled.
    full: bool,
    paused: bool,
}

enum Right {
    /// It is being taken over. What came before that was done waits.
    Assigned {
        assignment: Assignment,
        early: Vec<Vec<Arc<Transfer>>>,
    },
    Ours(Ownership),
}

impl Places {
    pub(super) fn new(consumer: Arc<dyn TransferConsumer>) -> Self {
        Self { consumer, places: BTreeMap::new(), queue: VecDeque::new(), stalled: false, assignments: 0 }
    }

    /// These partitions are to be taken over. What is known of them from before is forgotten.
    pub(super) fn assigned(&mut self, partitions: &BTreeSet<u32>) -> Assignment {
        self.assignments += 1;
        let assignment = Assignment(self.assignments);
        for partition in partitions {
            let right = Right::Assigned { assignment, early: Vec::new() };
            self.places.insert(*partition, Place { right, full: false, paused: false });
        }
        self.hold_back();
        assignment
    }

    /// Whether this assignment still counts.
    pub(super) fn is_assigned(&self, partition: u32, assignment: Assignment) -> bool {
        self.places.get(&partition).is_some_and(
            |place| matches!(place.right, Right::Assigned { assignment: now, .. } if now == assignment),
        )
    }

    /// A partition is taken over: what came of it may be handed over.
    pub(super) fn open(&mut self, assignment: Assignment, ownership: Ownership) {
        if !self.is_assigned(ownership.partition, assignment) {
            return;
        }
        let Some(place) = self.places.get_mut(&ownership.partition) else { return };
        if let Right::Assigned { early, .. } = std::mem::replace(&mut place.right, Right::Ours(ownership)) {
            self.queue.extend(early.into_iter().map(|transfers| Batch { ownership, transfers }));
        }
        self.hold_back();
    }

    /// These partitions are another's.
    pub(super) fn remove(&mut self, partitions: &BTreeSet<u32>) {
        self.places.retain(|partition, _| !partitions.contains(partition));
        self.queue.retain(|batch| !partitions.contains(&batch.ownership.partition));
    }

    /// A batch came. One of a partition that is not ours any more is the next owner's.
    pub(super) fn came(&mut self, partition: u32, transfers: Vec<Arc<Transfer>>) {
        match self.places.get_mut(&partition).map(|place| &mut place.right) {
            Some(Right::Assigned { early, .. }) => early.push(transfers),
            Some(Right::Ours(ownership)) => self.queue.push_back(Batch { ownership: *ownership, transfers }),
            None => {}
        }
    }

    /// Takes the next batch to hand over.
    pub(super) fn next_batch(&mut self) -> Option<Batch> {
        let batch = self.queue.pop_front();
        if batch.is_none() && self.stalled {
            self.stalled = false;
            self.hold_back();
        }
        batch
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// What waits finds no memory: no more of any partition until it did.
    pub(super) fn stalled(&mut self) {
        self.stalled = true;
        self.hold_back();
    }

    /// Too much of a partition is unsettled.
    pub(super) fn full(&mut self, ownership: Ownership) {
        if let Some(place) = self.places.get_mut(&ownership.partition)
            && matches!(place.right, Right::Ours(right) if right == ownership)
        {
            place.full = true;
            self.hold_back();
        }
    }

    /// Lets the full partitions go on of which little enough is unsettled.
    pub(super) fn relieve(&mut self, is_full: impl Fn(u32) -> bool) {
        let mut relieved = false;
        for (partition, place) in self.places.iter_mut().filter(|(_, place)| place.full) {
            place.full = is_full(*partition);
            relieved |= !place.full;
        }
        if relieved {
            self.hold_back();
        }
    }

    /// Pauses and resumes whom it concerns.
    fn hold_back(&mut self) {
        for (partition, place) in &mut self.places {
            let wait = self.stalled || place.full || matches!(place.right, Right::Assigned { .. });
            if wait != place.paused {
                place.paused = wait;
                if wait {
                    self.consumer.pause(*partition);
                } else {
                    self.consumer.resume(*partition);
                }
            }
        }
    }
}
