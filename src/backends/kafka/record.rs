//! A transfer as a record of the transfer topic, and back.
//!
//! Key `<client>:<db>.<collection>:<id>`, value the exact body, everything else in headers. The key is for people and is not
//! taken apart but behind the client's header: clients, collections and ids may hold any character.

use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};

use super::producer::Outgoing;
use crate::domain::config::ClientId;
use crate::domain::transfer::{
    DocumentHash, EventId, FORMAT, NewTransfer, Sequence, SourcePosition, Transfer, TransferKind,
    partition_of,
};

const FORMAT_HEADER: &str = "format";
const EVENT_ID: &str = "event-id";
const CLIENT: &str = "client";
const KIND: &str = "kind";
const SOURCE_TOPIC: &str = "source-topic";
const SOURCE_PARTITION: &str = "source-partition";
const SOURCE_OFFSET: &str = "source-offset";
const TIME: &str = "ts-ms";
const DOCUMENT_HASH: &str = "document-hash";
const TRACEPARENT: &str = "traceparent";

/// A transfer as it is produced to `topic`.
pub(super) fn encode(transfer: &NewTransfer, topic: &Arc<str>, partitions: u32) -> Outgoing {
    let client = transfer.client.as_str();
    let headers = OwnedHeaders::new_with_capacity(10);
    let text = |headers: OwnedHeaders, key, value: &str| headers.insert(Header { key, value: Some(value) });
    let headers = text(headers, FORMAT_HEADER, &FORMAT.to_string());
    let headers = text(headers, EVENT_ID, transfer.event_id.as_str());
    let headers = text(headers, CLIENT, client);
    let headers = text(headers, KIND, transfer.kind.as_str());
    let headers = text(headers, SOURCE_TOPIC, &transfer.source.topic);
    let headers = text(headers, SOURCE_PARTITION, &transfer.source.partition.to_string());
    let headers = text(headers, SOURCE_OFFSET, &transfer.source.offset.to_string());
    let headers = text(headers, TIME, &transfer.ts_ms.to_string());
    let mut headers =
        headers.insert(Header { key: DOCUMENT_HASH, value: Some(&transfer.document_hash.0[..]) });
    if let Some(traceparent) = &transfer.traceparent {
        headers = text(headers, TRACEPARENT, traceparent);
    }
    Outgoing {
        topic: topic.clone(),
        partition: i32::try_from(partition_of(&transfer.client, partitions)).ok(),
        key: Some(format!("{client}:{}", transfer.document).into()),
        value: Some(transfer.body.clone()),
        headers,
    }
}

/// Why a record is no transfer of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotOurs {
    /// Somebody else writes to the topic, or a newer version of ours.
    #[error("unknown format {0:?}")]
    Format(Option<String>),
    /// The format says that it is ours, but it is not whole.
    #[error("{0} is missing or broken")]
    Broken(&'static str),
}

/// Reads a record of the transfer topic.
pub(super) fn decode(record: &impl Message, incarnation: u32) -> Result<Transfer, NotOurs> {
    let found = Found(record);
    match found.text(FORMAT_HEADER) {
        Some(format) if format == FORMAT.to_string() => {}
        format => return Err(NotOurs::Format(format.map(|text| text.chars().take(20).collect()))),
    }
    let client = found.need(CLIENT)?;
    let key = record.key().and_then(|key| std::str::from_utf8(key).ok());
    let document = key.and_then(|key| key.strip_prefix(client)?.strip_prefix(':'));
    let hash = found.bytes(DOCUMENT_HASH).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    let body = record.payload().ok_or(NotOurs::Broken("value"))?;
    let content = NewTransfer {
        client: ClientId::new(client),
        document: document.ok_or(NotOurs::Broken("key"))?.into(),
        document_hash: DocumentHash(hash.ok_or(NotOurs::Broken(DOCUMENT_HASH))?),
        event_id: EventId::from_stored(found.need(EVENT_ID)?),
        kind: found.parse::<TransferKind>(KIND)?,
        source: SourcePosition {
            topic: found.need(SOURCE_TOPIC)?.into(),
            partition: found.parse(SOURCE_PARTITION)?,
            offset: found.parse(SOURCE_OFFSET)?,
        },
        traceparent: found.text(TRACEPARENT).map(Arc::from),
        ts_ms: found.parse(TIME)?,
        body: Bytes::copy_from_slice(body),
    };
    let partition = u32::try_from(record.partition()).map_err(|_| NotOurs::Broken("partition"))?;
    Ok(Transfer { sequence: Sequence { incarnation, partition, offset: record.offset() }, content })
}

struct Found<'a, M>(&'a M);

impl<'a, M: Message> Found<'a, M> {
    fn bytes(&self, name: &str) -> Option<&'a [u8]> {
        self.0.headers()?.iter().find(|header| header.key == name)?.value
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(name)?).ok()
    }

    fn need(&self, name: &'static str) -> Result<&'a str, NotOurs> {
        self.text(name).ok_or(NotOurs::Broken(name))
    }

    fn parse<T: FromStr>(&self, name: &'static str) -> Result<T, NotOurs> {
        self.need(name)?.parse().map_err(|_| NotOurs::Broken(name))
    }
}

#[cfg(test)]
mod tests;
