//! The lanes of a client: one a document, one request at a time in each, so that a document's changes go out
//! in order.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

use crate::domain::transfer::{DocumentHash, Transfer};

/// Where a transfer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The transfer log: unsettled until it is delivered or has a row.
    Live {
        /// Its document has dead rows, which its delivery supersedes.
        supersedes: bool,
    },
    /// A row of the stash: settled long ago, deleted when it is delivered.
    Row {
        /// Attempts before this one.
        attempts: u32,
        /// Those that failed by the payload's own fault.
        payload_failures: u32,
    },
}

/// A transfer in a lane.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) transfer: Arc<Transfer>,
    pub(super) origin: Origin,
    /// Since when it is in the hands of the actor.
    pub(super) since: Instant,
}

impl Entry {
    pub(super) fn is_row(&self) -> bool {
        matches!(self.origin, Origin::Row { .. })
    }
}

#[derive(Default)]
struct Lane {
    /// What waits behind the head.
    queue: VecDeque<Entry>,
    /// The head is on the wire, or being written to the stash.
    busy: bool,
}

/// How much waits in the lanes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) records: usize,
    pub(super) bytes: usize,
}

/// All lanes of a client.
#[derive(Default)]
pub(super) struct Lanes {
    lanes: HashMap<DocumentHash, Lane>,
    /// Lanes that are not busy and have something to send.
    ready: VecDeque<DocumentHash>,
    live: Waiting,
    rows: Waiting,
}

impl Lanes {
    /// Puts an entry at the end of its document's lane.
    pub(super) fn push(&mut self, entry: Entry) {
        let document = entry.transfer.document_hash;
        self.count(&entry, true);
        let lane = self.lanes.entry(document).or_default();
        lane.queue.push_back(entry);
        if !lane.busy && lane.queue.len() == 1 {
            self.ready.push_back(document);
        }
    }

    /// The next entry to send; its lane is busy until [`Lanes::finish`].
    pub(super) fn next(&mut self) -> Option<Entry> {
        while let Some(document) = self.ready.pop_front() {
            let Some(lane) = self.lanes.get_mut(&document) else { continue };
            if lane.busy {
                continue;
            }
            if let Some(entry) = lane.queue.pop_front() {
                lane.busy = true;
                self.count(&entry, false);
                return Some(entry);
            }
        }
        None
    }

    /// The next entry of a document outside `avoid`, where there is one; else the next of all.
    pub(super) fn next_but(&mut self, avoid: &HashSet<DocumentHash>) -> Option<Entry> {
        if let Some(place) = self.ready.iter().position(|document| !avoid.contains(document)) {
            self.ready.rotate_left(place);
        }
        self.next()
    }

    /// Whether a lane has something to send.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The head of the lane is done: the next may go.
    pub(super) fn finish(&mut self, document: DocumentHash) {
        let Some(lane) = self.lanes.get_mut(&document) else { return };
        lane.busy = false;
        if lane.queue.is_empty() {
            self.lanes.remove(&document);
        } else {
            self.ready.push_back(document);
        }
    }

    /// Takes everything that waits behind the head of a lane; the head stays.
    pub(super) fn take_behind(&mut self, document: DocumentHash) -> Vec<Entry> {
        let taken: Vec<_> =
            self.lanes.get_mut(&document).map(|lane| lane.queue.drain(..).collect()).unwrap_or_default();
        for entry in &taken {
            self.count(entry, false);
        }
        taken
    }

    /// Takes everything that waits in all lanes; heads that are busy stay.
    pub(super) fn take_waiting(&mut self) -> Vec<Entry> {
        self.take_if(|_| true)
    }

    /// Takes the rows that wait in all lanes (their lanes hold nothing else behind the head): they stay in the stash.
    pub(super) fn take_rows(&mut self) -> Vec<Entry> {
        self.take_if(|lane| lane.queue.front().is_some_and(Entry::is_row))
    }

    /// Takes all that waits in lanes whose oldest waiting live entry came before `limit`. What stands behind an
    /// overdue entry goes with it: nothing overtakes.
    pub(super) fn take_overdue(&mut self, limit: Instant) -> Vec<Entry> {
        self.take_if(|lane| lane.queue.front().is_some_and(|entry| !entry.is_row() && entry.since <= limit))
    }

    /// What waits from the log.
    pub(super) fn live(&self) -> Waiting {
        self.live
    }

    /// What waits from the stash.
    pub(super) fn rows(&self) -> Waiting {
        self.rows
    }

    fn take_if(&mut self, which: impl Fn(&Lane) -> bool) -> Vec<Entry> {
        let mut taken = Vec::new();
        self.lanes.retain(|_, lane| {
            if which(lane) {
                taken.extend(lane.queue.drain(..));
            }
            lane.busy || !lane.queue.is_empty()
        });
        let lanes = &self.lanes;
        self.ready.retain(|document| lanes.contains_key(document));
        for entry in &taken {
            self.count(entry, false);
        }
        taken
    }

    fn count(&mut self, entry: &Entry, comes: bool) {
        let waiting = if entry.is_row() { &mut self.rows } else { &mut self.live };
        let weight = entry.transfer.weight();
        if comes {
            waiting.records += 1;
            waiting.bytes += weight;
        } else {
            waiting.records -= 1;
            waiting.bytes -= weight;
        }
    }
}
