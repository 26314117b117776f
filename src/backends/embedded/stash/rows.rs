//! Rows of the stash, and back.

use diesel::prelude::*;

use super::super::errors::JobResult;
use super::super::schema::stash;
use crate::backends::stored::StoredTransfer;
use crate::domain::stash::{Claim, NewRow, RowFailure, RowState, StashRow};

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
            payload_failures: failure.map_or(0, RowFailure::payload_failures),
            next_attempt_at_ms: failure.map_or(0, |failure| failure.next_attempt_at_ms),
            first_failed_at_ms: failure.map(|_| now_ms),
            last_failed_at_ms: failure.map(|_| now_ms),
            last_class: failure.map(|failure| failure.class.as_str()),
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
    claim: Option<i64>,
    attempts: i64,
    payload_failures: i64,
    next_attempt_at_ms: i64,
    body: Vec<u8>,
}

impl DrainRow {
    pub(super) fn read(self) -> JobResult<StashRow> {
        let transfer = StoredTransfer {
            incarnation: self.incarnation,
            partition: self.partition,
            offset: self.offset,
            client: self.client,
            document: self.document,
            document_hash: self.document_hash,
            event_id: self.event_id,
            kind: self.kind,
            source_topic: self.source_topic,
            source_partition: self.source_partition,
            source_offset: self.source_offset,
            traceparent: self.traceparent,
            ts_ms: self.ts_ms,
            body: self.body,
        };
        let count = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
        Ok(StashRow {
            transfer: transfer.read()?,
            attempts: count(self.attempts),
            payload_failures: count(self.payload_failures),
            next_attempt_at_ms: self.next_attempt_at_ms,
            claim: self.claim.map(|claim| Claim(claim.cast_unsigned())),
        })
    }
}
