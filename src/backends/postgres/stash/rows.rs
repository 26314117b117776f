//! Rows of the stash, as they are read for draining.

use diesel::QueryableByName;
use diesel::sql_types::{BigInt, Binary, Integer, Nullable, Text};

use super::super::text;
use crate::backends::stored::StoredTransfer;
use crate::domain::stash::{Claim, StashRow};
use crate::ports::StoreResult;

#[derive(QueryableByName)]
pub(super) struct DrainRow {
    #[diesel(sql_type = Binary)]
    client: Vec<u8>,
    #[diesel(sql_type = Binary)]
    document_hash: Vec<u8>,
    #[diesel(sql_type = Binary)]
    document: Vec<u8>,
    #[diesel(sql_type = Binary)]
    event_id: Vec<u8>,
    #[diesel(sql_type = BigInt)]
    incarnation: i64,
    #[diesel(sql_type = BigInt)]
    partition: i64,
    #[diesel(sql_type = BigInt)]
    offset: i64,
    #[diesel(sql_type = Text)]
    kind: String,
    #[diesel(sql_type = Binary)]
    source_topic: Vec<u8>,
    #[diesel(sql_type = Integer)]
    source_partition: i32,
    #[diesel(sql_type = BigInt)]
    source_offset: i64,
    #[diesel(sql_type = Nullable<Binary>)]
    traceparent: Option<Vec<u8>>,
    #[diesel(sql_type = BigInt)]
    ts_ms: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    claim: Option<i64>,
    #[diesel(sql_type = BigInt)]
    attempts: i64,
    #[diesel(sql_type = BigInt)]
    payload_failures: i64,
    #[diesel(sql_type = BigInt)]
    next_attempt_at_ms: i64,
    #[diesel(sql_type = Binary)]
    body: Vec<u8>,
}

impl DrainRow {
    pub(super) fn read(self) -> StoreResult<StashRow> {
        let transfer = StoredTransfer {
            incarnation: self.incarnation,
            partition: self.partition,
            offset: self.offset,
            client: text(self.client, "client")?,
            document: self.document,
            document_hash: self.document_hash,
            event_id: text(self.event_id, "event id")?,
            kind: self.kind,
            source_topic: text(self.source_topic, "source topic")?,
            source_partition: self.source_partition,
            source_offset: self.source_offset,
            traceparent: self.traceparent.map(|bytes| text(bytes, "traceparent")).transpose()?,
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
