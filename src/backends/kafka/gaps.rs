//! Records that are gone before they were read: said, counted, and passed over.

use prometheus::IntCounterVec;

use super::offsets::{Begin, Partition};

/// Of which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Source,
    Transfer,
}

/// Counts gaps.
#[derive(Clone)]
pub(super) struct Gaps(IntCounterVec);

impl Gaps {
    pub(super) fn new(counter: IntCounterVec) -> Self {
        Self(counter)
    }

    /// Says so when reading of a partition cannot begin where it should.
    pub(super) fn say(&self, stream: Stream, (topic, partition): &Partition, begin: Begin) {
        let Some(from) = begin.gap else { return };
        let (event, label) = match stream {
            Stream::Source => ("source_gap", "source"),
            Stream::Transfer => ("transfer_gap", "transfer"),
        };
        self.0.with_label_values(&[label]).inc();
        log::error!(
            "{event} records are gone topic={topic} partition={partition} from={from} to={}",
            begin.from
        );
    }
}
