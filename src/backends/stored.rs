//! Transfers and decisions as SQL stores keep them, column by column.

use std::sync::Arc;

use crate::domain::config::ClientId;
use crate::domain::decision::{Decision, Subject};
use crate::domain::transfer::{DocumentHash, EventId, NewTransfer, Sequence, SourcePosition, Transfer};
use crate::ports::StoreError;

/// The columns of a transfer, as they were read.
pub(super) struct StoredTransfer {
    pub(super) incarnation: i64,
    pub(super) partition: i64,
    pub(super) offset: i64,
    pub(super) client: String,
    pub(super) document: Vec<u8>,
    pub(super) document_hash: Vec<u8>,
    pub(super) event_id: String,
    pub(super) kind: String,
    pub(super) source_topic: String,
    pub(super) source_partition: i32,
    pub(super) source_offset: i64,
    pub(super) traceparent: Option<String>,
    pub(super) ts_ms: i64,
    pub(super) body: Vec<u8>,
}

impl StoredTransfer {
    /// The transfer. Refused when a column holds what this service never writes.
    pub(super) fn read(self) -> Result<Arc<Transfer>, StoreError> {
        let broken = |what: &str| StoreError::Refused(format!("stored {what} is broken"));
        let sequence = Sequence {
            incarnation: self.incarnation.try_into().map_err(|_| broken("incarnation"))?,
            partition: self.partition.try_into().map_err(|_| broken("partition"))?,
            offset: self.offset,
        };
        let content = NewTransfer {
            client: ClientId::new(&self.client),
            document: String::from_utf8(self.document).map_err(|_| broken("document"))?.into(),
            document_hash: DocumentHash(self.document_hash.try_into().map_err(|_| broken("document hash"))?),
            event_id: EventId::from_stored(&self.event_id),
            kind: self.kind.parse().map_err(|_| broken("kind"))?,
            source: SourcePosition {
                topic: self.source_topic.into(),
                partition: self.source_partition,
                offset: self.source_offset,
            },
            traceparent: self.traceparent.map(Into::into),
            ts_ms: self.ts_ms,
            body: self.body.into(),
        };
        Ok(Arc::new(Transfer { sequence, content }))
    }
}

/// The decision in these columns. Refused when one holds what this service never writes.
pub(super) fn decision(subject: &str, by: &str, reason: &str, since_ms: i64) -> Result<Decision, StoreError> {
    Subject::parse(subject)
        .and_then(|subject| Decision::new(subject, by, reason, since_ms))
        .map_err(|err| StoreError::Refused(format!("stored decision is broken: {err}")))
}
