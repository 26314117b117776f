//! Dead letters: JSON records of a topic with one partition. The id of a letter is the offset after it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::topic_partition_list::Offset;
use serde::{Deserialize, Serialize};

use super::errors::store_error;
use super::member::Member;
use super::offsets::{Partition, Point, find, list_of};
use super::producer::Outgoing;
use super::watch::Watch;
use crate::domain::transfer::SourcePosition;
use crate::ports::event_log::{DeadLetter, NewRecord};
use crate::ports::{StoreError, StoreResult};

/// Reading a page takes no longer than this.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of records beyond which a page ends.
const PAGE_BYTES: usize = 32 * 1024 * 1024;

#[derive(Serialize, Deserialize)]
struct Stored {
    topic: String,
    partition: i32,
    offset: i64,
    timestamp_ms: i64,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<StoredRecord>,
}

/// Bytes as base64.
#[derive(Serialize, Deserialize)]
struct StoredRecord {
    topic: String,
    key: Option<String>,
    value: Option<String>,
    headers: Vec<(String, String)>,
}

/// A letter as it is produced. The record that it is about is left out when it does not fit into `max_bytes`.
pub(super) fn encode(letter: &DeadLetter, topic: &Arc<str>, max_bytes: usize) -> StoreResult<Outgoing> {
    let whole = write(letter, letter.record.as_ref(), letter.reason.clone())?;
    let value = if whole.len() + ROOM <= max_bytes {
        whole
    } else {
        write(letter, None, format!("{} (the record is too large to be kept)", letter.reason))?
    };
    Ok(Outgoing {
        topic: topic.clone(),
        partition: Some(0),
        key: Some(letter.position.to_string().into()),
        value: Some(value.into()),
        headers: OwnedHeaders::new_with_capacity(1).insert(Header { key: "format", value: Some("1") }),
    })
}

/// Key and frame of the record of a letter.
const ROOM: usize = 1024;

fn write(letter: &DeadLetter, record: Option<&NewRecord>, reason: String) -> StoreResult<Vec<u8>> {
    let encoded = |bytes: &Option<Bytes>| bytes.as_ref().map(|bytes| STANDARD.encode(bytes));
    let stored = Stored {
        topic: letter.position.topic.to_string(),
        partition: letter.position.partition,
        offset: letter.position.offset,
        timestamp_ms: letter.timestamp_ms,
        reason,
        record: record.map(|record| StoredRecord {
            topic: record.topic.to_string(),
            key: encoded(&record.key),
            value: encoded(&record.value),
            headers: record
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), STANDARD.encode(value)))
                .collect(),
        }),
    };
    serde_json::to_vec(&stored).map_err(|err| StoreError::Refused(err.to_string()))
}

fn read(value: &[u8]) -> Option<DeadLetter> {
    let bytes = |text: String| STANDARD.decode(text).ok().map(Bytes::from);
    let optional = |text: Option<String>| text.map_or(Some(None), |text| bytes(text).map(Some));
    let stored: Stored = serde_json::from_slice(value).ok()?;
    let record = match stored.record {
        None => None,
        Some(record) => Some(NewRecord {
            topic: record.topic.into(),
            key: optional(record.key)?,
            value: optional(record.value)?,
            headers: record
                .headers
                .into_iter()
                .map(|(name, value)| Some((name, bytes(value)?)))
                .collect::<Option<_>>()?,
        }),
    };
    let position =
        SourcePosition { topic: stored.topic.into(), partition: stored.partition, offset: stored.offset };
    Some(DeadLetter { position, timestamp_ms: stored.timestamp_ms, reason: stored.reason, record })
}

/// Letters with an id above `after`, at most `limit` or about 32 MiB. Blocks.
pub(super) fn page(
    mut config: ClientConfig,
    watch: Watch,
    topic: &str,
    after: i64,
    limit: usize,
) -> StoreResult<Vec<(i64, DeadLetter)>> {
    let deadline = Instant::now() + PAGE_TIMEOUT;
    // Only a member may be assigned a partition; this one never joins its group.
    config.set("group.id", "dispatcher-dead-letters");
    let consumer: BaseConsumer<Member> = config.create_with_context(Member::new(watch))?;
    let partition: Partition = (topic.into(), 0);
    let edge = |point| {
        let found = find(&consumer, std::slice::from_ref(&partition), point, PAGE_TIMEOUT)?;
        Ok::<_, StoreError>(found.get(&partition).copied().unwrap_or(0))
    };
    let (low, end) = (edge(Point::Low)?, edge(Point::End)?);
    let from = after.max(low);
    let mut letters = Vec::new();
    if from >= end || limit == 0 {
        return Ok(letters);
    }
    consumer.assign(&list_of([(&partition, Offset::Offset(from))])?)?;
    let (mut next, mut bytes) = (from, 0);
    while next < end && letters.len() < limit && bytes < PAGE_BYTES {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                let value = message.payload().unwrap_or_default();
                next = message.offset() + 1;
                bytes += value.len();
                match read(value) {
                    Some(letter) => letters.push((next, letter)),
                    None => log::warn!("no dead letter of ours topic={topic} offset={}", message.offset()),
                }
            }
            Some(Err(err)) => return Err(store_error(err)),
            // The end of a transaction is an offset too.
            None => next = next.max(position(&consumer)),
        }
        if Instant::now() > deadline && next < end {
            return Err(StoreError::Unavailable("dead letters were not read in time".to_owned()));
        }
    }
    Ok(letters)
}

fn position(consumer: &BaseConsumer<Member>) -> i64 {
    let Ok(list) = consumer.position() else { return 0 };
    let offsets = list.elements().iter().filter_map(|element| element.offset().to_raw()).max();
    offsets.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(record: Option<NewRecord>) -> DeadLetter {
        let position = SourcePosition { topic: "mongo.db.coll".into(), partition: 2, offset: 41 };
        DeadLetter { position, timestamp_ms: 7, reason: "no JSON".into(), record }
    }

    #[test]
    fn a_letter_comes_back_as_it_was() {
        let record = NewRecord {
            topic: "mongo.db.coll".into(),
            key: None,
            value: Some(Bytes::from_static(b"\x00\xff")),
            headers: vec![("h".into(), Bytes::new())],
        };
        for letter in [letter(None), letter(Some(record))] {
            let outgoing = encode(&letter, &"dead".into(), 100_000).unwrap();
            assert_eq!(read(&outgoing.value.unwrap()), Some(letter));
        }
    }

    #[test]
    fn a_record_that_does_not_fit_is_left_out() {
        let value = Some(Bytes::from(vec![b'x'; 10_000]));
        let record = NewRecord { topic: "t".into(), key: None, value, headers: Vec::new() };
        let outgoing = encode(&letter(Some(record)), &"dead".into(), 8_000).unwrap();
        let found = read(&outgoing.value.unwrap()).unwrap();
        assert_eq!(found.record, None);
        assert!(found.reason.starts_with("no JSON (the record is too large"), "{}", found.reason);
    }
}
