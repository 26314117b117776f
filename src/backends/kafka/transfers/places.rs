//! How far each partition of the transfer log has come, and what waits to be received.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::domain::transfer::Transfer;
use crate::ports::event_log::{Lag, TransferEvent};
use crate::ports::{StoreError, StoreResult};

/// A transfer with the time of its record, milliseconds since 1970.
pub(super) type Read = (i64, Arc<Transfer>);

/// The partitions of this member.
#[derive(Default)]
pub(super) struct Places {
    partitions: BTreeMap<u32, Place>,
    /// What the group said, in order. Goes before batches: what is lost must stop at once.
    said: VecDeque<TransferEvent>,
    /// Whose batch is looked at first: the partition after the last one's, so that none starves.
    turn: u32,
}

/// A partition that is ours.
struct Place {
    committed: i64,
    /// Received and not committed: offsets with the records' times.
    in_hand: VecDeque<(i64, i64)>,
    batch: Option<Vec<Read>>,
    paused: bool,
    /// It goes to another member when what is in hand is settled.
    leaving: bool,
}

impl Places {
    /// These are ours, each from its offset on.
    pub(super) fn assign(&mut self, committed: BTreeMap<u32, i64>) {
        for (partition, committed) in &committed {
            let place = Place {
                committed: *committed,
                in_hand: VecDeque::new(),
                batch: None,
                paused: false,
                leaving: false,
            };
            self.partitions.insert(*partition, place);
        }
        if !committed.is_empty() {
            self.said.push_back(TransferEvent::Assigned(committed));
        }
    }

    /// These are to be left: nothing more of them is handed out, but what is settled is committed.
    pub(super) fn leave(&mut self, partitions: &BTreeSet<u32>, event: TransferEvent) {
        for partition in partitions {
            if let Some(place) = self.partitions.get_mut(partition) {
                place.leaving = true;
                place.batch = None;
            }
        }
        self.said.push_back(event);
    }

    /// These were left.
    pub(super) fn end(&mut self, partitions: &BTreeSet<u32>) {
        self.partitions.retain(|partition, _| !partitions.contains(partition));
    }

    /// All are another's already.
    pub(super) fn lose(&mut self) -> BTreeSet<u32> {
        let lost: BTreeSet<u32> = std::mem::take(&mut self.partitions).into_keys().collect();
        self.said.push_back(TransferEvent::Lost(lost.clone()));
        lost
    }

    /// What is to be handled next.
    pub(super) fn receive(&mut self) -> Option<TransferEvent> {
        if let Some(said) = self.said.pop_front() {
            return Some(said);
        }
        let turn = self.turn;
        let ready = |(_, place): &(&u32, &mut Place)| place.batch.is_some() && !place.paused;
        let (before, after): (Vec<_>, Vec<_>) =
            self.partitions.iter_mut().filter(ready).partition(|(partition, _)| **partition < turn);
        let (partition, place) = after.into_iter().chain(before).next()?;
        let batch = place.batch.take()?;
        place.in_hand.extend(batch.iter().map(|(time, transfer)| (transfer.sequence.offset, *time)));
        let transfers = batch.into_iter().map(|(_, transfer)| transfer).collect();
        self.turn = partition + 1;
        Some(TransferEvent::Batch { partition: *partition, transfers })
    }

    /// The partitions of which a batch is wanted.
    pub(super) fn wanted(&self) -> Vec<u32> {
        let wants = |place: &Place| place.batch.is_none() && !place.paused && !place.leaving;
        self.partitions.iter().filter(|(_, place)| wants(place)).map(|(partition, _)| *partition).collect()
    }

    pub(super) fn publish(&mut self, partition: u32, batch: Vec<Read>) {
        if let Some(place) = self.partitions.get_mut(&partition)
            && !place.leaving
        {
            place.batch = Some(batch);
        }
    }

    pub(super) fn set_paused(&mut self, partition: u32, paused: bool) {
        if let Some(place) = self.partitions.get_mut(&partition) {
            place.paused = paused;
        }
    }

    /// Whether these may be committed: they are ours, and not beyond what was received. Returns what is committed for them: a
    /// place never goes back.
    pub(super) fn check(&self, offsets: &BTreeMap<u32, i64>) -> StoreResult<BTreeMap<u32, i64>> {
        let mut checked = BTreeMap::new();
        for (partition, next) in offsets {
            let Some(place) = self.partitions.get(partition) else {
                return Err(StoreError::Fenced(format!("partition {partition} is another's by now")));
            };
            let end = place.in_hand.back().map_or(place.committed, |(offset, _)| offset + 1);
            if *next > end {
                return Err(StoreError::Refused(format!(
                    "partition {partition} has no offset {next} to commit"
                )));
            }
            checked.insert(*partition, place.committed.max(*next));
        }
        Ok(checked)
    }

    /// They are committed.
    pub(super) fn committed(&mut self, offsets: &BTreeMap<u32, i64>) {
        for (partition, next) in offsets {
            if let Some(place) = self.partitions.get_mut(partition) {
                place.committed = place.committed.max(*next);
                while place.in_hand.pop_front_if(|(offset, _)| *offset < *next).is_some() {}
            }
        }
    }

    /// All partitions with their committed offsets.
    pub(super) fn all(&self) -> BTreeMap<u32, i64> {
        self.partitions.iter().map(|(partition, place)| (*partition, place.committed)).collect()
    }

    /// What was read and is not committed.
    pub(super) fn pending(&self) -> Lag {
        let mut lag = Lag::default();
        for place in self.partitions.values() {
            let in_hand = place.in_hand.iter().map(|(_, time)| *time);
            let waiting = place.batch.iter().flatten().map(|(time, _)| *time);
            for time in in_hand.chain(waiting) {
                lag.records += 1;
                lag.oldest_ms = Some(lag.oldest_ms.map_or(time, |oldest| oldest.min(time)));
            }
        }
        lag
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::config::ClientId;
    use crate::domain::transfer::{
        DocumentHash, EventId, NewTransfer, Sequence, SourcePosition, TransferKind,
    };

    fn batch(partition: u32, offsets: &[i64]) -> Vec<Read> {
        let read = |offset: &i64| {
            let content = NewTransfer {
                client: ClientId::new("a"),
                document: "db.coll:1".into(),
                document_hash: DocumentHash([0; 16]),
                event_id: EventId::from_stored("evt_1"),
                kind: TransferKind::Live,
                source: SourcePosition { topic: "t".into(), partition: 0, offset: *offset },
                traceparent: None,
                ts_ms: 0,
                body: bytes::Bytes::new(),
            };
            let sequence = Sequence { incarnation: 1, partition, offset: *offset };
            (1_000 + offset, Arc::new(Transfer { sequence, content }))
        };
        offsets.iter().map(read).collect()
    }

    fn assigned(partitions: &[u32]) -> Places {
        let mut places = Places::default();
        places.assign(partitions.iter().map(|partition| (*partition, 5)).collect());
        assert!(matches!(places.receive(), Some(TransferEvent::Assigned(_))));
        places
    }

    fn received(places: &mut Places) -> Option<u32> {
        match places.receive()? {
            TransferEvent::Batch { partition, .. } => Some(partition),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn partitions_take_turns() {
        let mut places = assigned(&[0, 1, 2]);
        let mut order = Vec::new();
        for offset in 0..2 {
            (0..3).for_each(|partition| places.publish(partition, batch(partition, &[5 + offset])));
            for _ in 0..2 {
                order.extend(received(&mut places));
            }
        }
        assert_eq!(order, [0, 1, 2, 0]);
    }

    #[test]
    fn a_commit_is_of_what_was_received_and_never_goes_back() {
        let mut places = assigned(&[0]);
        places.publish(0, batch(0, &[6, 9]));
        let check = |places: &Places, next| places.check(&[(0, next)].into());
        assert!(matches!(check(&places, 7), Err(StoreError::Refused(_))), "nobody has it yet");
        assert_eq!(received(&mut places), Some(0));
        assert_eq!(check(&places, 10), Ok([(0, 10)].into()));
        assert!(matches!(check(&places, 11), Err(StoreError::Refused(_))));
        places.committed(&[(0, 7)].into());
        assert_eq!(check(&places, 5), Ok([(0, 7)].into()));
        assert_eq!(places.pending(), Lag { records: 1, oldest_ms: Some(1_009) });
        assert!(matches!(places.check(&[(1, 0)].into()), Err(StoreError::Fenced(_))));
    }

    #[test]
    fn what_leaves_hands_nothing_out_but_may_commit() {
        let mut places = assigned(&[0, 1]);
        places.publish(0, batch(0, &[5]));
        received(&mut places);
        places.publish(0, batch(0, &[6]));
        places.publish(1, batch(1, &[5]));
        places.leave(&[0].into(), TransferEvent::Lost([0].into()));
        assert!(matches!(places.receive(), Some(TransferEvent::Lost(_))));
        assert_eq!(received(&mut places), Some(1));
        assert_eq!(received(&mut places), None);
        places.publish(0, batch(0, &[7]));
        assert_eq!(received(&mut places), None);
        assert!(places.check(&[(0, 6)].into()).is_ok());
        places.end(&[0].into());
        assert!(places.check(&[(0, 6)].into()).is_err());
    }

    #[test]
    fn a_paused_partition_waits() {
        let mut places = assigned(&[0]);
        places.publish(0, batch(0, &[5]));
        places.set_paused(0, true);
        assert_eq!(received(&mut places), None);
        assert!(places.wanted().is_empty());
        places.set_paused(0, false);
        assert_eq!(received(&mut places), Some(0));
        assert_eq!(places.wanted(), [0]);
    }
}
