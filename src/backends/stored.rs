//! Transfers, rows of the stash, decisions, actions and heavy jobs as SQL stores keep them, column by column.

use std::sync::Arc;

use crate::domain::audit::AuditEntry;
use crate::domain::config::ClientId;
use crate::domain::dead_row::{DeadRow, GivenUp};
use crate::domain::decision::{Decision, Subject};
use crate::domain::heavy_job::HeavyJob;
use crate::domain::job::JobId;
use crate::domain::stash::RowState;
use crate::domain::stash_view::RowView;
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
        let sequence = sequence(self.incarnation, self.partition, self.offset)?;
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

/// The columns of a row that was given up, as they were read.
pub(super) struct StoredDeadRow {
    pub(super) client: String,
    pub(super) event_id: String,
    pub(super) document: Vec<u8>,
    /// Incarnation, partition, offset.
    pub(super) place: (i64, i64, i64),
    /// Topic, partition, offset.
    pub(super) source: (String, i32, i64),
    pub(super) ts_ms: i64,
    pub(super) bytes: i64,
    pub(super) state: String,
    pub(super) attempts: i64,
    pub(super) payload_failures: i64,
    /// First, last.
    pub(super) failed_at_ms: (i64, Option<i64>),
    pub(super) reason: Option<String>,
    pub(super) status: Option<i32>,
}

impl StoredDeadRow {
    /// The row. Refused when a column holds what this service never writes.
    pub(super) fn read(self) -> Result<DeadRow, StoreError> {
        let count = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
        let (incarnation, partition, offset) = self.place;
        let (topic, source_partition, source_offset) = self.source;
        Ok(DeadRow {
            client: ClientId::new(&self.client),
            event_id: EventId::from_stored(&self.event_id),
            document: String::from_utf8(self.document).map_err(|_| broken("document"))?.into(),
            sequence: sequence(incarnation, partition, offset)?,
            source: SourcePosition {
                topic: topic.into(),
                partition: source_partition,
                offset: source_offset,
            },
            ts_ms: self.ts_ms,
            bytes: u64::try_from(self.bytes).unwrap_or(0),
            kind: match self.state.parse() {
                Ok(RowState::Dead) => GivenUp::Dead,
                Ok(RowState::Superseded) => GivenUp::Superseded,
                Ok(RowState::Pending) | Err(_) => return Err(broken("state")),
            },
            attempts: count(self.attempts),
            payload_failures: count(self.payload_failures),
            first_failed_at_ms: self.failed_at_ms.0,
            last_failed_at_ms: self.failed_at_ms.1,
            reason: self.reason,
            status: self.status.and_then(|status| u16::try_from(status).ok()),
        })
    }
}

/// The columns of a row in any state, as they were read.
pub(super) struct StoredRow {
    pub(super) event_id: String,
    pub(super) document: Vec<u8>,
    pub(super) state: String,
    pub(super) kind: String,
    /// Incarnation, partition, offset.
    pub(super) place: (i64, i64, i64),
    /// Topic, partition, offset.
    pub(super) source: (String, i32, i64),
    pub(super) ts_ms: i64,
    pub(super) bytes: i64,
    pub(super) stashed_at_ms: i64,
    pub(super) attempts: i64,
    pub(super) payload_failures: i64,
    pub(super) next_attempt_at_ms: i64,
    /// First, last.
    pub(super) failed_at_ms: (Option<i64>, Option<i64>),
    pub(super) reason: Option<String>,
    pub(super) status: Option<i32>,
}

impl StoredRow {
    /// The row. Refused when a column holds what this service never writes.
    pub(super) fn read(self) -> Result<RowView, StoreError> {
        let count = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
        let (incarnation, partition, offset) = self.place;
        let (topic, source_partition, source_offset) = self.source;
        Ok(RowView {
            event_id: EventId::from_stored(&self.event_id),
            document: String::from_utf8(self.document).map_err(|_| broken("document"))?.into(),
            state: self.state.parse().map_err(|_| broken("state"))?,
            kind: self.kind.parse().map_err(|_| broken("kind"))?,
            sequence: sequence(incarnation, partition, offset)?,
            source: SourcePosition {
                topic: topic.into(),
                partition: source_partition,
                offset: source_offset,
            },
            ts_ms: self.ts_ms,
            bytes: u64::try_from(self.bytes).unwrap_or(0),
            stashed_at_ms: self.stashed_at_ms,
            attempts: count(self.attempts),
            payload_failures: count(self.payload_failures),
            next_attempt_at_ms: self.next_attempt_at_ms,
            first_failed_at_ms: self.failed_at_ms.0,
            last_failed_at_ms: self.failed_at_ms.1,
            reason: self.reason,
            status: self.status.and_then(|status| u16::try_from(status).ok()),
        })
    }
}

/// The columns of a heavy job, as they were read.
pub(super) struct StoredHeavyJob {
    pub(super) id: String,
    pub(super) client: String,
    pub(super) kind: String,
    pub(super) parameters: String,
    pub(super) state: String,
    pub(super) position: String,
    pub(super) progress: String,
    pub(super) reason: Option<String>,
    /// Created, updated.
    pub(super) at_ms: (i64, i64),
}

impl StoredHeavyJob {
    /// The job. Refused when a column holds what this service never writes.
    pub(super) fn read(self) -> Result<HeavyJob, StoreError> {
        let json = |text: &str, what| serde_json::from_str(text).map_err(|_| broken(what));
        Ok(HeavyJob {
            id: JobId::parse(&self.id).map_err(|_| broken("id of a heavy job"))?,
            client: ClientId::new(&self.client),
            kind: self.kind,
            parameters: json(&self.parameters, "parameters of a heavy job")?,
            state: self.state.parse().map_err(|_| broken("state of a heavy job"))?,
            position: json(&self.position, "position of a heavy job")?,
            progress: json(&self.progress, "progress of a heavy job")?,
            reason: self.reason,
            created_ms: self.at_ms.0,
            updated_ms: self.at_ms.1,
        })
    }
}

/// Rows of several states, each list in order, as one list in order.
pub(super) fn in_order(lists: Vec<Vec<RowView>>, limit: usize) -> Vec<RowView> {
    let mut rows: Vec<_> = lists.into_iter().flatten().collect();
    rows.sort_by_key(|row| row.sequence);
    rows.truncate(limit);
    rows
}

/// The columns of an action: id, time, by, role, action, subject, status.
pub(super) type StoredAction = (i64, i64, String, String, String, String, Option<i32>);

/// The action in these columns. Refused when one holds what this service never writes.
pub(super) fn action(
    (id, at_ms, by, role, action, subject, status): StoredAction,
) -> Result<AuditEntry, StoreError> {
    let role = role.parse().map_err(|_| broken("role"))?;
    let status = status.and_then(|status| u16::try_from(status).ok());
    Ok(AuditEntry { id, at_ms, by, role, action, subject, status })
}

fn broken(what: &str) -> StoreError {
    StoreError::Refused(format!("stored {what} is broken"))
}

/// The place in these columns. Refused when one holds what this service never writes.
pub(super) fn sequence(incarnation: i64, partition: i64, offset: i64) -> Result<Sequence, StoreError> {
    Ok(Sequence {
        incarnation: incarnation.try_into().map_err(|_| broken("incarnation"))?,
        partition: partition.try_into().map_err(|_| broken("partition"))?,
        offset,
    })
}

/// The decision in these columns. Refused when one holds what this service never writes.
pub(super) fn decision(subject: &str, by: &str, reason: &str, since_ms: i64) -> Result<Decision, StoreError> {
    Subject::parse(subject)
        .and_then(|subject| Decision::new(subject, by, reason, since_ms))
        .map_err(|err| StoreError::Refused(format!("stored decision is broken: {err}")))
}
