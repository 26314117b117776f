//! Records of unusual size and kind.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use dispatcher::domain::transfer::{NewTransfer, partition_of};
use dispatcher::ports::StoreError;
use dispatcher::ports::event_log::{BatchLimits, EventLog, IngestWork, NewRecord, TransferEvent};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::producer::{FutureProducer, FutureRecord};

use super::{KafkaBackend, LIMITS, append, quiet, read, record, transfers, until, work};
use crate::fixture::{client, new_transfer, soon};

/// Bytes that no compression makes small.
pub(super) fn noise(length: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % 94 + 33) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[tokio::test]
async fn a_large_record_goes_all_the_way() {
    let backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    let value = noise(20 << 20);
    let large = NewRecord { value: Some(value.clone()), ..record(&backend.topic("coll"), "k") };
    log.append(vec![large]).await.unwrap();
    let source = log.source(&backend.group("g"), LIMITS).await.unwrap();
    let records = read(&*source, 1).await;
    assert!(records[0].value == Some(value.clone()));
    let transfer = NewTransfer { body: value.clone(), ..new_transfer("a", "d", 1) };
    source.commit(IngestWork { transfers: vec![transfer], ..work(&records) }).await.unwrap();
    let reader = log.transfers(&backend.group("t"), LIMITS).await.unwrap();
    assert!(transfers(&*reader, 1).await[0].body == value);
}

#[tokio::test]
async fn a_transfer_that_is_too_large_becomes_a_dead_letter_of_its_work() {
    let backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    append(&log, &backend.topic("coll"), &["1"]).await;
    let source = log.source(&backend.group("g"), LIMITS).await.unwrap();
    let records = read(&*source, 1).await;
    let large = NewTransfer { body: vec![b'x'; 33 << 20].into(), ..new_transfer("a", "large", 1) };
    let transfers_in = vec![new_transfer("a", "1", 1), large.clone(), new_transfer("a", "2", 2)];
    source.commit(IngestWork { transfers: transfers_in.clone(), ..work(&records) }).await.unwrap();
    let reader = log.transfers(&backend.group("t"), LIMITS).await.unwrap();
    let found = transfers(&*reader, 2).await;
    assert_eq!([&found[0].content, &found[1].content], [&transfers_in[0], &transfers_in[2]]);
    let letters = log.dead_letters(0, 10).await.unwrap();
    assert_eq!(letters.len(), 1);
    let letter = &letters[0].1;
    assert_eq!((&letter.position, letter.timestamp_ms, &letter.record), (&large.source, large.ts_ms, &None));
    assert!(letter.reason.contains("34603008 bytes"), "{}", letter.reason);
}

#[tokio::test]
async fn nothing_is_left_of_work_that_failed_in_its_middle() {
    let backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    append(&log, &backend.topic("coll"), &["1"]).await;
    let source = log.source(&backend.group("g"), LIMITS).await.unwrap();
    let records = read(&*source, 1).await;
    let reader = log.transfers(&backend.group("t"), LIMITS).await.unwrap();
    // Of the two only the small one is taken.
    limit(&backend, "10000").await;
    let large = NewTransfer { body: noise(100_000), ..new_transfer("b", "large", 1) };
    let whole = IngestWork { transfers: vec![new_transfer("a", "small", 1), large], ..work(&records) };
    let refused = source.commit(whole.clone()).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert!(quiet(transfers(&*reader, 1)).await);
    assert_eq!(reader.lag().await.unwrap().records, 0);
    limit(&backend, "1000000").await;
    // The brokers tell each other.
    until("it is written", async || {
        source.rewind().await.unwrap();
        assert_eq!(read(&*source, 1).await, records);
        source.commit(whole.clone()).await.is_ok()
    })
    .await;
    assert_eq!(transfers(&*reader, 2).await.len(), 2);
    assert!(quiet(transfers(&*reader, 1)).await);
}

/// The operator lowers a limit while the service runs: what was written before is refused, for ever.
#[tokio::test]
async fn a_limit_that_was_lowered_holds_up_only_what_is_larger() {
    let backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    append(&log, &backend.topic("coll"), &["1"]).await;
    let source = log.source(&backend.group("g"), LIMITS).await.unwrap();
    let records = read(&*source, 1).await;
    limit(&backend, "20000").await;
    let large = NewTransfer { body: noise(100_000), ..new_transfer("a", "large", 1) };
    // One batch of them is larger than the limit, none of them is.
    let small = |change| NewTransfer { body: noise(9_000), ..new_transfer("a", "small", change) };
    let mut transfers_in: Vec<NewTransfer> = (1..=20).map(small).collect();
    transfers_in.push(large.clone());
    let whole = IngestWork { transfers: transfers_in, ..work(&records) };
    let refused = source.commit(whole.clone()).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    source.rewind().await.unwrap();
    assert_eq!(read(&*source, 1).await, records);
    source.commit(whole).await.unwrap();
    let reader = log.transfers(&backend.group("t"), LIMITS).await.unwrap();
    let found = transfers(&*reader, 20).await;
    assert!(found.iter().all(|transfer| transfer.body.len() == 9_000));
    let letters = log.dead_letters(0, 10).await.unwrap();
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert!(letters[0].1.reason.contains("100000 bytes"), "{}", letters[0].1.reason);
}

/// Sets the largest batch that the transfer topic takes, and waits until the broker knows.
async fn limit(backend: &KafkaBackend, bytes: &str) {
    let topic = ResourceSpecifier::Topic(&backend.options.transfer_topic);
    let alter = AlterConfig::new(topic).set("max.message.bytes", bytes);
    for result in backend.admin().alter_configs([&alter], &AdminOptions::new()).await.unwrap() {
        result.unwrap();
    }
    until("the broker knows the limit", async || {
        let answers = backend.admin().describe_configs([&topic], &AdminOptions::new()).await.unwrap();
        let entries = answers.into_iter().next().unwrap().unwrap();
        entries.get("max.message.bytes").and_then(|entry| entry.value.as_deref()) == Some(bytes)
    })
    .await;
}

#[tokio::test]
async fn letters_that_are_no_part_of_a_batch_are_kept() {
    let backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    append(&log, &backend.topic("coll"), &["1"]).await;
    assert_eq!(log.dead_letters(0, 10).await.unwrap(), []);
    let letter = |offset| dispatcher::ports::event_log::DeadLetter {
        position: new_transfer("a", "d", offset).source,
        timestamp_ms: offset,
        reason: "no".into(),
        record: Some(record("t", "v")),
    };
    log.keep_dead(vec![letter(1), letter(2)]).await.unwrap();
    log.keep_dead(vec![letter(3)]).await.unwrap();
    let mut found = Vec::new();
    let mut after = 0;
    while let Some((id, letter)) = log.dead_letters(after, 1).await.unwrap().pop() {
        assert!(id > after);
        after = id;
        found.push(letter);
    }
    assert_eq!(found, [letter(1), letter(2), letter(3)]);
}

#[tokio::test]
async fn a_record_that_is_none_of_ours_stops_its_partition() {
    let backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    let topic = backend.options.transfer_topic.clone();
    let producer: FutureProducer =
        ClientConfig::new().set("bootstrap.servers", &backend.options.brokers).create().unwrap();
    let partition = partition_of(&client("a"), 12);
    let foreign = FutureRecord::to(&topic).key("k").payload("{}").partition(partition as i32);
    producer.send(foreign, Duration::from_secs(10)).await.unwrap();
    let other = (0..).map(|number| format!("other-{number}"));
    let other = other.into_iter().find(|other| partition_of(&client(other), 12) != partition).unwrap();
    append(&log, &backend.topic("coll"), &["1"]).await;
    let source = log.source(&backend.group("g"), LIMITS).await.unwrap();
    let records = read(&*source, 1).await;
    let both = vec![new_transfer("a", "behind", 1), new_transfer(&other, "d", 1)];
    source.commit(IngestWork { transfers: both, ..work(&records) }).await.unwrap();
    let reader = log.transfers(&backend.group("t"), LIMITS).await.unwrap();
    assert_eq!(transfers(&*reader, 1).await[0].client, client(&other));
    assert!(quiet(reader.next()).await);
    until("it is said", async || log.health().await.is_err()).await;
    let said = log.health().await.unwrap_err();
    assert!(said.contains(&format!("partition={partition} offset=0")), "{said}");
}

#[tokio::test]
async fn what_is_appended_stands_where_connect_would_put_it() {
    let backend = KafkaBackend::new();
    let topic = backend.topic("coll");
    backend.create_topic(&topic, 7, &[]).await;
    let log = backend.replica().await.unwrap();
    let table = include_str!("../../fixtures/partitions.tsv");
    for row in table.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = row.split('\t').collect();
        let key: String = serde_json::from_str(cells[0]).unwrap();
        let keyed = NewRecord { key: Some(key.clone().into()), ..record(&topic, "v") };
        let positions = log.append(vec![keyed]).await.unwrap();
        assert_eq!(positions[0].partition.to_string(), cells[2], "{key:?}");
    }
}

#[tokio::test]
async fn requests_that_come_together_keep_their_own_positions() {
    let backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    let topic = backend.topic("coll");
    append(&log, &topic, &["first"]).await;
    let requests = (0..50).map(|number| {
        let records = (0..=number % 3).map(|part| record(&topic, &format!("{number}/{part}")));
        log.append(records.collect())
    });
    let answers = futures_util::future::join_all(requests).await;
    let mut told = BTreeMap::new();
    for (number, positions) in answers.into_iter().enumerate() {
        for (part, position) in positions.unwrap().into_iter().enumerate() {
            told.insert(position.offset, format!("{number}/{part}"));
        }
    }
    let source = log.source(&backend.group("g"), LIMITS).await.unwrap();
    let records = read(&*source, told.len() + 1).await;
    for record in &records[1..] {
        assert_eq!(told[&record.position.offset].as_bytes(), record.value.as_ref().unwrap());
    }
}

#[tokio::test]
async fn a_consumer_that_nobody_asks_goes_on_afterwards() {
    let backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    let topic = backend.topic("coll");
    let records: Vec<NewRecord> = (0..2_000).map(|number| record(&topic, &number.to_string())).collect();
    log.append(records).await.unwrap();
    let few = BatchLimits { records: 10, bytes: 1 << 20 };
    let source = log.source(&backend.group("g"), few).await.unwrap();
    let mut seen: Vec<i64> = Vec::new();
    while seen.len() < 2_000 {
        let batch = soon(source.next()).await.unwrap();
        seen.extend(batch.iter().map(|record| record.position.offset));
        if seen.len() == 500 {
            // Long enough for the reading to be paused.
            assert!(quiet(std::future::pending::<()>()).await);
        }
    }
    assert!(seen.is_sorted_by(|a, b| a + 1 == *b), "a hole");
    let reader = log.transfers(&backend.group("t"), LIMITS).await.unwrap();
    assert!(matches!(soon(reader.next()).await, Ok(TransferEvent::Assigned(_))));
}
