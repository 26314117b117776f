//! Records that are gone before they were read: said, counted, and passed over.

use std::sync::Arc;

use prometheus::IntCounterVec;

use super::offsets::{Begin, Partition};
use crate::domain::operational_event::{Happening, OperationalEvent};
use crate::ports::clock::Clock;

/// Takes operational events, and never waits.
pub type TellOperator = Arc<dyn Fn(OperationalEvent) + Send + Sync>;

/// Of which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Source,
    Transfer,
}

/// Counts gaps, and tells of them.
#[derive(Clone)]
pub(super) struct Gaps {
    counter: IntCounterVec,
    tell: TellOperator,
    clock: Arc<dyn Clock>,
}

impl Gaps {
    pub(super) fn new(counter: IntCounterVec, tell: TellOperator, clock: Arc<dyn Clock>) -> Self {
        Self { counter, tell, clock }
    }

    /// Says so when reading of a partition cannot begin where it should.
    pub(super) fn say(&self, stream: Stream, (topic, partition): &Partition, begin: Begin) {
        let Some(from) = begin.gap else { return };
        let (happening, label) = match stream {
            Stream::Source => (Happening::SourceGap, "source"),
            Stream::Transfer => (Happening::TransferGap, "transfer"),
        };
        self.counter.with_label_values(&[label]).inc();
        let event = happening.as_str();
        log::error!(
            "{event} records are gone topic={topic} partition={partition} from={from} to={}",
            begin.from
        );
        (self.tell)(
            OperationalEvent::new(happening, self.clock.now_ms())
                .because("records are gone")
                .with("topic", &**topic)
                .with("partition", *partition)
                .with("from", from)
                .with("to", begin.from),
        );
    }
}
