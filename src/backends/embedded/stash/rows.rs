//! Rows of the stash, and back.

use diesel::prelude::*;

use super::super::errors::{JobError, JobResult};
use super::super::schema::stash;
use crate::domain::config::ClientId;
use crate::domain::delivery::FailureClass;
use crate::domain::stash::{Claim, NewRow, RowFailure, RowState, StashRow};
use crate::domain::transfer::{DocumentHash, EventId, NewTransfer, Sequence, SourcePosition, Transfer};

/// The word in the store.
pub(super) fn class_word(class: FailureClass) -> &'static str {
    match class {
        FailureClass::Endpoint => "endpoint",
        FailureClass::Config => "config",
        FailureClass::Payload => "payload",
    }
}

/// 1 when the failure counts towards giving the payload up.
pub(super) fn payload_count(failure: &RowFailure) -> i64 {
    i64::from(failure.class == FailureClass::Payload)
}

#[derive(Insertable)]
#[diesel(table_name = stash, treat_none_as_default_value = false)]
pub(super) struct NewStashRow<'a> {
    client: &'a str,
    document_hash: &'a [u8],
    document: &'a [u8],
    event_id: &'a str,
    incarnation: i64,
    partition: i64,
    offset: i64,
    kind: &'a str,
    source_topic: &'a str,
    source_partition: i32,
    source_offset: i64,
    traceparent: Option<&'a str>,
    ts_ms: i64,
    bytes: i64,
    stashed_at_ms: i64,
    state: &'a str,
    claim: Option<i64>,
    attempts: i64,
    payload_failures: i64,
    next_attempt_at_ms: i64,
    first_failed_at_ms: Option<i64>,
    last_failed_at_ms: Option<i64>,
    last_class: Option<&'a str>,
    last_reason: Option<&'a str>,
    last_status: Option<i32>,
    body: &'a [u8],
}

impl<'a> NewStashRow<'a> {
    pub(super) fn of(row: &'a NewRow, now_ms: i64) -> Self {
        let transfer = &row.transfer;
        let failure = row.failure.as_ref();
        Self {
            client: transfer.client.as_str(),
            document_hash: &transfer.document_hash.0,
            document: transfer.document.as_bytes(),
            event_id: transfer.event_id.as_str(),
            incarnation: transfer.sequence.incarnation.into(),
            partition: transfer.sequence.partition.into(),
            offset: transfer.sequence.offset,
            kind: transfer.kind.as_str(),
            source_topic: &transfer.source.topic,
            source_partition: transfer.source.partition,
            source_offset: transfer.source.offset,
            traceparent: transfer.traceparent.as_deref(),
            ts_ms: transfer.ts_ms,
            bytes: transfer.weight() as i64,
            stashed_at_ms: now_ms,
            state: RowState::Pending.as_str(),
            claim: row.claim.map(|claim| claim.0.cast_signed()),
            attempts: i64::from(failure.is_some()),
            payload_failures: failure.map_or(0, payload_count),
            next_attempt_at_ms: failure.map_or(0, |failure| failure.next_attempt_at_ms),
            first_failed_at_ms: failure.map(|_| now_ms),
            last_failed_at_ms: failure.map(|_| now_ms),
            last_class: failure.map(|failure| class_word(failure.class)),
            last_reason: failure.map(|failure| failure.reason.as_str()),
            last_status: failure.and_then(|failure| failure.status).map(i32::from),
            body: &transfer.body,
        }
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = stash)]
pub(super) struct DrainRow {
    client: String,
    document_hash: Vec<u8>,
    document: Vec<u8>,
    event_id: String,
    incarnation: i64,
    partition: i64,
    offset: i64,
    kind: String,
    source_topic: String,
    source_partition: i32,
    source_offset: i64,
    traceparent: Option<String>,
    ts_ms: i64,
    bytes: i64,
    claim: Option<i64>,
    attempts: i64,
    payload_failures: i64,
    next_attempt_at_ms: i64,
    body: Vec<u8>,
}

impl DrainRow {
    /// What it counts for in bounds.
    pub(super) fn weight(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(0)
    }

    pub(super) fn read(self) -> JobResult<StashRow> {
        let broken = |what: &str| JobError::refused(format!("stashed {what} is broken"));
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
        let sequence = Sequence {
            incarnation: self.incarnation.try_into().map_err(|_| broken("incarnation"))?,
            partition: self.partition.try_into().map_err(|_| broken("partition"))?,
            offset: self.offset,
        };
        let count = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
        Ok(StashRow {
            transfer: Transfer { sequence, content }.into(),
            attempts: count(self.attempts),
            payload_failures: count(self.payload_failures),
            next_attempt_at_ms: self.next_attempt_at_ms,
            claim: self.claim.map(|claim| Claim(claim.cast_unsigned())),
        })
    }
}
