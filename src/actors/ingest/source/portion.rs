//! How many records one commit takes: fewer after one that failed, so that what is too much for a commit gets through in parts, and what can
//! never be written holds up nothing but itself.

use std::sync::Arc;

use crate::domain::transfer::SourcePosition;
use crate::ports::StoreError;
use crate::ports::event_log::IngestWork;

/// The size of commits, and the records that were refused.
pub(super) struct Portion {
    records: usize,
    /// Refused alone, with the reason: each becomes a dead letter when it comes again.
    refused: Vec<(SourcePosition, String)>,
}

impl Portion {
    /// As much as there is.
    pub(super) fn whole() -> Self {
        Self { records: usize::MAX, refused: Vec::new() }
    }

    /// Whether so many records are committed.
    pub(super) fn is_full(&self, records: usize) -> bool {
        records >= self.records
    }

    /// Why a record cannot be written.
    pub(super) fn refusal(&self, position: &SourcePosition) -> Option<&str> {
        self.refused.iter().find(|(refused, _)| refused == position).map(|(_, why)| why.as_str())
    }

    /// This was written.
    pub(super) fn written(&mut self, work: &Written) {
        self.records = self.records.saturating_mul(2);
        self.refused.retain(|(position, _)| !work.passes(position));
    }

    /// This was not.
    pub(super) fn failed(&mut self, work: &Written, err: &StoreError) {
        match (err, &work.last) {
            (StoreError::Refused(why), Some(alone)) if work.records == 1 => {
                self.records = 1;
                self.refused.push((alone.clone(), why.clone()));
            }
            (StoreError::Refused(_), _) => self.records = 1,
            _ => self.records = (work.records / 2).max(1),
        }
    }
}

/// What a commit was about.
pub(super) struct Written {
    records: usize,
    last: Option<SourcePosition>,
    /// The next offsets.
    next: Vec<SourcePosition>,
}

impl Written {
    /// Of work on so many records.
    pub(super) fn of(work: &IngestWork, records: usize) -> Self {
        let place = |(topic, partition): &(Arc<str>, i32), offset| SourcePosition {
            topic: topic.clone(),
            partition: *partition,
            offset,
        };
        Self {
            records,
            last: work.offsets.iter().map(|(partition, next)| place(partition, next - 1)).next_back(),
            next: work.offsets.iter().map(|(partition, next)| place(partition, *next)).collect(),
        }
    }

    fn passes(&self, position: &SourcePosition) -> bool {
        let same = |next: &&SourcePosition| {
            next.topic == position.topic && next.partition == position.partition
        };
        self.next.iter().find(same).is_some_and(|next| position.offset < next.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(topic: &str, next: i64, records: usize) -> Written {
        let offsets = [((topic.into(), 0), next)].into();
        Written::of(&IngestWork { offsets, ..IngestWork::default() }, records)
    }

    fn position(topic: &str, offset: i64) -> SourcePosition {
        SourcePosition { topic: topic.into(), partition: 0, offset }
    }

    #[test]
    fn it_shrinks_to_one_record_and_grows_again() {
        let mut portion = Portion::whole();
        let late = StoreError::Unavailable("late".to_owned());
        assert!(!portion.is_full(1_000_000));
        for (records, left) in [(100, 50), (50, 25), (3, 1), (1, 1)] {
            portion.failed(&work("a", 100, records), &late);
            assert!(portion.is_full(left) && !portion.is_full(left - 1), "{records}");
        }
        portion.written(&work("a", 1, 1));
        assert!(portion.is_full(2) && !portion.is_full(1));
        assert_eq!(portion.refusal(&position("a", 0)), None);
    }

    #[test]
    fn what_is_refused_alone_is_known_until_it_is_passed() {
        let mut portion = Portion::whole();
        let refused = StoreError::Refused("no".to_owned());
        portion.failed(&work("a", 8, 100), &refused);
        assert!(portion.is_full(1) && portion.refusal(&position("a", 7)).is_none(), "one of a hundred");
        portion.failed(&work("a", 8, 1), &refused);
        portion.failed(&work("b", 3, 1), &refused);
        assert_eq!(portion.refusal(&position("a", 7)), Some("no"));
        portion.written(&work("b", 3, 1));
        assert_eq!((portion.refusal(&position("b", 2)), portion.refusal(&position("a", 7))), (None, Some("no")));
        portion.written(&work("a", 7, 1));
        assert_eq!(portion.refusal(&position("a", 7)), Some("no"), "it stands before it");
        portion.written(&work("a", 8, 1));
        assert_eq!(portion.refusal(&position("a", 7)), None);
    }
}
