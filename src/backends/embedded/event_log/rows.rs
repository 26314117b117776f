//! Records of the log as rows, and back.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use diesel::prelude::*;

use super::super::errors::{JobError, JobResult};
use super::super::schema::{dead_letters, source_records, transfers};
use super::tail::Placed;
use crate::backends::stored::StoredTransfer;
use crate::domain::change_event::SourceRecord;
use crate::domain::transfer::{SourcePosition, Transfer};
use crate::ports::event_log::{DeadLetter, NewRecord};

impl Placed for Arc<Transfer> {
    fn offset(&self) -> i64 {
        self.sequence.offset
    }

    fn weight(&self) -> usize {
        self.content.weight()
    }
}

impl Placed for SourceRecord {
    fn offset(&self) -> i64 {
        self.position.offset
    }

    fn weight(&self) -> usize {
        const RECORD: usize = 256;
        let length = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        RECORD + length(&self.key) + length(&self.value) + headers
    }
}

/// A stored row that does not read back.
fn broken(what: &str) -> JobError {
    JobError::refused(format!("stored {what} is broken"))
}

/// Headers as JSON with values in base64; none are NULL.
pub(super) fn write_headers(headers: &[(String, Bytes)]) -> JobResult<Option<String>> {
    if headers.is_empty() {
        return Ok(None);
    }
    let pairs: Vec<(&str, String)> =
        headers.iter().map(|(name, value)| (name.as_str(), STANDARD.encode(value))).collect();
    serde_json::to_string(&pairs).map(Some).map_err(|error| JobError::refused(error.to_string()))
}

fn read_headers(text: Option<&str>) -> JobResult<Vec<(String, Bytes)>> {
    let pairs: Vec<(String, String)> =
        text.map_or(Ok(Vec::new()), serde_json::from_str).map_err(|_| broken("header"))?;
    pairs
        .into_iter()
        .map(|(name, value)| Ok((name, STANDARD.decode(value).map_err(|_| broken("header"))?.into())))
        .collect()
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = source_records, treat_none_as_default_value = false)]
pub(super) struct SourceRow {
    pub(super) offset: i64,
    pub(super) topic: String,
    pub(super) timestamp_ms: i64,
    pub(super) headers: Option<String>,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
}

impl SourceRow {
    pub(super) fn of(record: &SourceRecord) -> JobResult<Self> {
        Ok(Self {
            offset: record.position.offset,
            topic: record.position.topic.to_string(),
            timestamp_ms: record.timestamp_ms,
            headers: write_headers(&record.headers)?,
            key: record.key.as_ref().map(|bytes| bytes.to_vec()),
            value: record.value.as_ref().map(|bytes| bytes.to_vec()),
        })
    }

    pub(super) fn read(self) -> JobResult<SourceRecord> {
        Ok(SourceRecord {
            position: SourcePosition { topic: self.topic.into(), partition: 0, offset: self.offset },
            timestamp_ms: self.timestamp_ms,
            headers: read_headers(self.headers.as_deref())?,
            key: self.key.map(Bytes::from),
            value: self.value.map(Bytes::from),
        })
    }
}

#[derive(Insertable)]
#[diesel(table_name = transfers, treat_none_as_default_value = false)]
pub(super) struct NewTransferRow<'a> {
    partition: i64,
    offset: i64,
    client: &'a str,
    document: &'a [u8],
    document_hash: &'a [u8],
    event_id: &'a str,
    kind: &'a str,
    source_topic: &'a str,
    source_partition: i32,
    source_offset: i64,
    traceparent: Option<&'a str>,
    ts_ms: i64,
    appended_at_ms: i64,
    body_id: i64,
}

impl<'a> NewTransferRow<'a> {
    pub(super) fn of(transfer: &'a Transfer, appended_at_ms: i64, body_id: i64) -> Self {
        Self {
            partition: transfer.sequence.partition.into(),
            offset: transfer.sequence.offset,
            client: transfer.client.as_str(),
            document: transfer.document.as_bytes(),
            document_hash: &transfer.document_hash.0,
            event_id: transfer.event_id.as_str(),
            kind: transfer.kind.as_str(),
            source_topic: &transfer.source.topic,
            source_partition: transfer.source.partition,
            source_offset: transfer.source.offset,
            traceparent: transfer.traceparent.as_deref(),
            ts_ms: transfer.ts_ms,
            appended_at_ms,
            body_id,
        }
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = transfers)]
pub(super) struct TransferRow {
    partition: i64,
    offset: i64,
    client: String,
    document: Vec<u8>,
    document_hash: Vec<u8>,
    event_id: String,
    kind: String,
    source_topic: String,
    source_partition: i32,
    source_offset: i64,
    traceparent: Option<String>,
    ts_ms: i64,
}

impl TransferRow {
    pub(super) fn read(self, body: Vec<u8>, incarnation: u32) -> JobResult<Arc<Transfer>> {
        let transfer = StoredTransfer {
            incarnation: incarnation.into(),
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
            body,
        };
        Ok(transfer.read()?)
    }
}

#[derive(Insertable)]
#[diesel(table_name = dead_letters, treat_none_as_default_value = false)]
pub(super) struct NewDeadLetterRow<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    timestamp_ms: i64,
    reason: &'a str,
    record_topic: Option<&'a str>,
    headers: Option<String>,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

impl<'a> NewDeadLetterRow<'a> {
    pub(super) fn of(letter: &'a DeadLetter) -> JobResult<Self> {
        let record = letter.record.as_ref();
        Ok(Self {
            topic: &letter.position.topic,
            partition: letter.position.partition,
            offset: letter.position.offset,
            timestamp_ms: letter.timestamp_ms,
            reason: &letter.reason,
            record_topic: record.map(|record| &*record.topic),
            headers: record.map_or(Ok(None), |record| write_headers(&record.headers))?,
            key: record.and_then(|record| record.key.as_deref()),
            value: record.and_then(|record| record.value.as_deref()),
        })
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = dead_letters)]
pub(super) struct DeadLetterRow {
    id: i64,
    topic: String,
    partition: i32,
    offset: i64,
    timestamp_ms: i64,
    reason: String,
    record_topic: Option<String>,
    headers: Option<String>,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
}

impl DeadLetterRow {
    pub(super) fn read(self) -> JobResult<(i64, DeadLetter)> {
        let headers = read_headers(self.headers.as_deref())?;
        let record = self.record_topic.map(|topic| NewRecord {
            topic: topic.into(),
            key: self.key.map(Bytes::from),
            value: self.value.map(Bytes::from),
            headers,
        });
        let position =
            SourcePosition { topic: self.topic.into(), partition: self.partition, offset: self.offset };
        let letter = DeadLetter { position, timestamp_ms: self.timestamp_ms, reason: self.reason, record };
        Ok((self.id, letter))
    }
}
