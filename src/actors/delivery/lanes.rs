//! The lanes of a client: one a document (or one for all, when its config asks for that order), one request at a time in each, so that
//! changes go out in order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

use crate::domain::config::Ordering;
use crate::domain::transfer::{DocumentHash, Transfer};
use crate::runtime::Permit;

/// Whose turn it is: in one lane nothing starts before what is older is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum LaneKey {
    /// Of one document.
    Document(DocumentHash),
    /// Of everything that the client gets.
    Client,
}

impl LaneKey {
    /// The lane of a transfer under this ordering.
    pub(super) fn of(ordering: Ordering, transfer: &Transfer) -> Self {
        match ordering {
            Ordering::Document => Self::Document(transfer.document_hash),
            Ordering::Client => Self::Client,
        }
    }
}

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
    pub(super) lane: LaneKey,
    pub(super) origin: Origin,
    /// Since when it is in the hands of the actor.
    pub(super) since: Instant,
    /// What a row holds of the memory for rows; a page shares one. A transfer of the log has its own with the fleet, and one row a
    /// client needs none.
    pub(super) _memory: Option<Arc<Permit>>,
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
    lanes: HashMap<LaneKey, Lane>,
    /// Lanes that are not busy and have something to send.
    ready: VecDeque<LaneKey>,
    live: Waiting,
    rows: Waiting,
}

impl Lanes {
    /// Puts an entry at the end of its document's lane.
    pub(super) fn push(&mut self, entry: Entry) {
        let key = entry.lane;
        self.count(&entry, true);
        let lane = self.lanes.entry(key).or_default();
        lane.queue.push_back(entry);
        if !lane.busy && lane.queue.len() == 1 {
            self.ready.push_back(key);
        }
    }

    /// The next entry to send; its lane is busy until [`Lanes::finish`].
    pub(super) fn next(&mut self) -> Option<Entry> {
        while let Some(key) = self.ready.pop_front() {
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
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

    /// Whether a lane has something to send.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The head of the lane is done: the next may go.
    pub(super) fn finish(&mut self, key: LaneKey) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        lane.busy = false;
        if lane.queue.is_empty() {
            self.lanes.remove(&key);
        } else {
            self.ready.push_back(key);
        }
    }

    /// The head of the lane was not sent: it waits at its place again.
    pub(super) fn put_back(&mut self, head: Entry) {
        let key = head.lane;
        self.count(&head, true);
        let lane = self.lanes.entry(key).or_default();
        lane.busy = false;
        lane.queue.push_front(head);
        self.ready.push_back(key);
    }

    /// Takes everything that waits behind the head of a lane; the head stays.
    pub(super) fn take_behind(&mut self, key: LaneKey) -> Vec<Entry> {
        let taken: Vec<_> =
            self.lanes.get_mut(&key).map(|lane| lane.queue.drain(..).collect()).unwrap_or_default();
        for entry in &taken {
            self.count(entry, false);
        }
        taken
    }

    /// Takes everything that waits in all lanes; heads that are busy stay.
    pub(super) fn take_waiting(&mut self) -> Vec<Entry> {
        self.take_if(|_| true)
    }

    /// Takes all that waits in lanes whose oldest waiting entry is a row.
    pub(super) fn take_rows(&mut self) -> Vec<Entry> {
        self.take_if(|lane| lane.queue.front().is_some_and(Entry::is_row))
    }

    /// Takes all that waits in lanes whose oldest waiting live entry came before `limit`. What stands behind an
    /// overdue entry goes with it: nothing overtakes.
    pub(super) fn take_overdue(&mut self, limit: Instant) -> Vec<Entry> {
        self.take_if(|lane| lane.queue.front().is_some_and(|entry| !entry.is_row() && entry.since <= limit))
    }

    /// Whether a change of this document that came from the log waits in the lane.
    pub(super) fn has_change_of(&self, key: LaneKey, document: DocumentHash) -> bool {
        let mut waiting = self.lanes.get(&key).into_iter().flat_map(|lane| &lane.queue);
        waiting.any(|entry| !entry.is_row() && entry.transfer.document_hash == document)
    }

    /// Whether nothing waits and no head is out.
    pub(super) fn are_empty(&self) -> bool {
        self.lanes.is_empty()
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
        self.ready.retain(|key| lanes.contains_key(key));
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::domain::config::ClientId;
    use crate::domain::transfer::{EventId, NewTransfer, Sequence, SourcePosition, TransferKind};

    fn entry(document: u8, offset: i64, is_row: bool, since: Instant) -> Entry {
        let content = NewTransfer {
            client: ClientId::new("a"),
            document: "test.things:1".into(),
            document_hash: DocumentHash([document; 16]),
            event_id: EventId::from_stored(&offset.to_string()),
            kind: TransferKind::Live,
            source: SourcePosition { topic: "t".into(), partition: 0, offset },
            traceparent: None,
            ts_ms: 0,
            body: Bytes::from(vec![b' '; offset as usize]),
        };
        let sequence = Sequence { incarnation: 1, partition: 0, offset };
        let origin = match is_row {
            true => Origin::Row { attempts: 0, payload_failures: 0 },
            false => Origin::Live { supersedes: false },
        };
        let transfer = Arc::new(Transfer { sequence, content });
        Entry { lane: key(document), transfer, origin, since, _memory: None }
    }

    fn key(document: u8) -> LaneKey {
        LaneKey::Document(DocumentHash([document; 16]))
    }

    fn offset(entry: &Entry) -> i64 {
        entry.transfer.sequence.offset
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push { document: u8, is_row: bool },
        Next,
        PutBack(u8),
        Finish(u8),
        TakeBehind(u8),
        TakeWaiting,
        TakeRows,
        TakeOverdue { ago: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        let document = 0..4_u8;
        prop_oneof![
            5 => (document.clone(), any::<bool>()).prop_map(|(document, is_row)| Step::Push { document, is_row }),
            4 => Just(Step::Next),
            3 => document.clone().prop_map(Step::Finish),
            1 => document.clone().prop_map(Step::PutBack),
            1 => document.prop_map(Step::TakeBehind),
            1 => Just(Step::TakeWaiting),
            1 => Just(Step::TakeRows),
            1 => (0..8_usize).prop_map(|ago| Step::TakeOverdue { ago }),
        ]
    }

    /// What waits in the lane of a document, and its head while that is out.
    type Model = [(VecDeque<Entry>, Option<Entry>); 4];

    fn taken(model: &mut Model, which: impl Fn(&VecDeque<Entry>) -> bool) -> Vec<i64> {
        let lanes = model.iter_mut().filter(|(queue, _)| which(queue));
        lanes.flat_map(|(queue, _)| queue.drain(..)).map(|entry| offset(&entry)).collect()
    }

    fn offsets(entries: &[Entry]) -> Vec<i64> {
        let mut offsets: Vec<_> = entries.iter().map(offset).collect();
        offsets.sort_unstable();
        offsets
    }

    fn sorted(mut offsets: Vec<i64>) -> Vec<i64> {
        offsets.sort_unstable();
        offsets
    }

    proptest! {
        #[test]
        fn a_lane_is_a_queue_with_one_head_out(steps in proptest::collection::vec(step(), 0..80)) {
            let mut lanes = Lanes::default();
            let mut model = Model::default();
            let start = Instant::now();
            for (number, step) in (1_i64..).zip(steps) {
                // Only whose head is out can be done, or have something behind it.
                if let Step::Finish(document) | Step::PutBack(document) | Step::TakeBehind(document) = step
                    && model[usize::from(document)].1.is_none()
                {
                    continue;
                }
                let at = |number: i64| start + std::time::Duration::from_secs(number.max(0) as u64);
                match step {
                    Step::Push { document, is_row } => {
                        let entry = entry(document, number, is_row, at(number));
                        model[usize::from(document)].0.push_back(entry.clone());
                        lanes.push(entry);
                    }
                    Step::Next => {
                        let next = lanes.next();
                        let ready = |(queue, out): &(VecDeque<Entry>, Option<Entry>)| {
                            out.is_none() && !queue.is_empty()
                        };
                        prop_assert_eq!(next.is_some(), model.iter().any(ready));
                        let Some(next) = next else { continue };
                        let document = next.transfer.document_hash.0[0];
                        let (queue, out) = &mut model[usize::from(document)];
                        prop_assert!(out.is_none(), "two of a document are out");
                        prop_assert_eq!(queue.pop_front().map(|entry| offset(&entry)), Some(offset(&next)));
                        *out = Some(next);
                    }
                    Step::PutBack(document) => {
                        let (queue, out) = &mut model[usize::from(document)];
                        let head = out.take().unwrap();
                        queue.push_front(head.clone());
                        lanes.put_back(head);
                    }
                    Step::Finish(document) => {
                        lanes.finish(key(document));
                        model[usize::from(document)].1 = None;
                    }
                    Step::TakeBehind(document) => {
                        let behind = lanes.take_behind(key(document));
                        let queue = std::mem::take(&mut model[usize::from(document)].0);
                        let behind: Vec<_> = behind.iter().map(offset).collect();
                        prop_assert_eq!(behind, queue.iter().map(offset).collect::<Vec<_>>());
                    }
                    Step::TakeWaiting => {
                        let all = taken(&mut model, |_| true);
                        prop_assert_eq!(offsets(&lanes.take_waiting()), sorted(all));
                    }
                    Step::TakeRows => {
                        let rows = taken(&mut model, |queue| queue.front().is_some_and(Entry::is_row));
                        prop_assert_eq!(offsets(&lanes.take_rows()), sorted(rows));
                    }
                    Step::TakeOverdue { ago } => {
                        let limit = at(number - ago as i64);
                        let overdue = |entry: &Entry| !entry.is_row() && entry.since <= limit;
                        let late = taken(&mut model, |queue| queue.front().is_some_and(overdue));
                        prop_assert_eq!(offsets(&lanes.take_overdue(limit)), sorted(late));
                    }
                }
                let mut waiting = (Waiting::default(), Waiting::default());
                for entry in model.iter().flat_map(|(queue, _)| queue) {
                    let waiting = if entry.is_row() { &mut waiting.1 } else { &mut waiting.0 };
                    waiting.records += 1;
                    waiting.bytes += entry.transfer.weight();
                }
                prop_assert_eq!((lanes.live(), lanes.rows()), waiting);
            }
        }
    }

    #[test]
    fn nothing_is_kept_of_a_document_that_is_done() {
        let mut lanes = Lanes::default();
        lanes.push(entry(1, 1, false, Instant::now()));
        assert!(lanes.is_ready());
        assert!(lanes.next().is_some());
        assert!(!lanes.is_ready());
        assert!(!lanes.are_empty());
        lanes.finish(key(1));
        assert!(lanes.are_empty() && lanes.ready.is_empty());
    }
}
