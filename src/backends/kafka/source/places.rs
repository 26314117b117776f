//! How far each partition of the source stream has come, and the batch that waits to be received.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::super::offsets::Partition;
use crate::domain::change_event::SourceRecord;
use crate::ports::event_log::Lag;
use crate::ports::{StoreError, StoreResult};

/// The partitions of this member.
#[derive(Default)]
pub(super) struct Places {
    partitions: BTreeMap<Partition, Place>,
    /// Read, and not received yet.
    batch: Option<Vec<SourceRecord>>,
}

/// A partition that is ours.
struct Place {
    committed: i64,
    /// Received and not committed: offsets with the records' times.
    in_hand: VecDeque<(i64, i64)>,
}

impl Places {
    /// A partition is ours, or is read again, from `committed` on.
    pub(super) fn begin(&mut self, partition: Partition, committed: i64) {
        self.drop_of(&partition);
        self.partitions.insert(partition, Place { committed, in_hand: VecDeque::new() });
    }

    /// A partition is another's.
    pub(super) fn end(&mut self, partition: &Partition) {
        self.drop_of(partition);
        self.partitions.remove(partition);
    }

    fn drop_of(&mut self, partition: &Partition) {
        if let Some(batch) = &mut self.batch {
            batch.retain(|record| !is_of(record, partition));
        }
        self.batch.take_if(|batch| batch.is_empty());
    }

    /// Nothing that was read counts any more.
    pub(super) fn forget_batch(&mut self) {
        self.batch = None;
    }

    /// Whether a batch waits already.
    pub(super) fn is_full(&self) -> bool {
        self.batch.is_some()
    }

    pub(super) fn publish(&mut self, batch: Vec<SourceRecord>) {
        self.batch = Some(batch);
    }

    /// Takes the batch: it is in somebody's hands now.
    pub(super) fn receive(&mut self) -> Option<Vec<SourceRecord>> {
        let batch = self.batch.take()?;
        for record in &batch {
            let position = &record.position;
            let partition = (Arc::clone(&position.topic), position.partition);
            if let Some(place) = self.partitions.get_mut(&partition) {
                place.in_hand.push_back((position.offset, record.timestamp_ms));
            }
        }
        Some(batch)
    }

    /// Whether these may be committed: every partition is still ours since its records were received, and goes on by some of them.
    pub(super) fn check<'a>(
        &self,
        offsets: impl IntoIterator<Item = (&'a Partition, &'a i64)>,
    ) -> StoreResult<()> {
        for (partition, next) in offsets {
            let (topic, number) = partition;
            let Some(place) = self.partitions.get(partition) else {
                return Err(StoreError::Fenced(format!("partition {topic}/{number} is another's by now")));
            };
            let in_hand = place.in_hand.front().zip(place.in_hand.back());
            if in_hand.is_none_or(|((first, _), (last, _))| *next <= *first || *next > last + 1) {
                return Err(StoreError::Fenced(format!(
                    "offset {next} of {topic}/{number} is not of the records that were received"
                )));
            }
        }
        Ok(())
    }

    /// They are committed.
    pub(super) fn committed<'a>(&mut self, offsets: impl IntoIterator<Item = (&'a Partition, &'a i64)>) {
        for (partition, next) in offsets {
            if let Some(place) = self.partitions.get_mut(partition) {
                place.committed = *next;
                while place.in_hand.pop_front_if(|(offset, _)| *offset < *next).is_some() {}
            }
        }
    }

    /// All partitions with their committed offsets.
    pub(super) fn all(&self) -> BTreeMap<Partition, i64> {
        self.partitions.iter().map(|(partition, place)| (partition.clone(), place.committed)).collect()
    }

    /// What was read and is not committed; `filling` was read too.
    pub(super) fn pending<'a>(&'a self, filling: impl Iterator<Item = &'a SourceRecord>) -> Lag {
        let in_hand = self.partitions.values().flat_map(|place| &place.in_hand).map(|(_, time)| *time);
        let waiting = self.batch.iter().flatten().chain(filling).map(|record| record.timestamp_ms);
        let mut lag = Lag::default();
        for time in in_hand.chain(waiting) {
            lag.records += 1;
            lag.oldest_ms = Some(lag.oldest_ms.map_or(time, |oldest| oldest.min(time)));
        }
        lag
    }
}

/// Whether a record stands in this partition.
pub(super) fn is_of(record: &SourceRecord, (topic, partition): &Partition) -> bool {
    record.position.partition == *partition && record.position.topic == *topic
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::transfer::SourcePosition;

    fn partition(topic: &str) -> Partition {
        (topic.into(), 0)
    }

    fn records(topic: &str, offsets: std::ops::Range<i64>) -> Vec<SourceRecord> {
        let record = |offset| SourceRecord {
            position: SourcePosition { topic: topic.into(), partition: 0, offset },
            timestamp_ms: 1_000 + offset,
            key: None,
            value: None,
            headers: Vec::new(),
        };
        offsets.map(record).collect()
    }

    fn check(places: &Places, topic: &str, next: i64) -> StoreResult<()> {
        places.check([(&partition(topic), &next)])
    }

    #[test]
    fn only_what_was_received_is_committed() {
        let mut places = Places::default();
        places.begin(partition("a"), 5);
        places.publish(records("a", 5..9));
        assert!(check(&places, "a", 9).is_err(), "nobody has it yet");
        places.receive();
        for (next, allowed) in [(5, false), (6, true), (9, true), (10, false)] {
            assert_eq!(check(&places, "a", next).is_ok(), allowed, "{next}");
        }
        assert!(matches!(check(&places, "b", 1), Err(StoreError::Fenced(_))));
        places.committed([(&partition("a"), &7)]);
        assert!(check(&places, "a", 7).is_err(), "it would be written twice");
        assert_eq!(places.all(), [(partition("a"), 7)].into());
        assert_eq!(places.pending(std::iter::empty()), Lag { records: 2, oldest_ms: Some(1_007) });
    }

    #[test]
    fn work_on_a_partition_that_came_back_is_refused() {
        let mut places = Places::default();
        places.begin(partition("a"), 0);
        places.begin(partition("b"), 0);
        places.publish(records("a", 0..3));
        places.receive();
        places.publish(records("a", 3..5).into_iter().chain(records("b", 0..2)).collect());
        places.end(&partition("a"));
        places.begin(partition("a"), 2);
        // What stands there of before is not handed out any more, and the work on it not taken.
        assert_eq!(places.receive(), Some(records("b", 0..2)));
        assert!(matches!(check(&places, "a", 3), Err(StoreError::Fenced(_))));
    }
}
