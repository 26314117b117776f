//! Topics: made by us, made by others, made again.

use std::time::{Duration, Instant};

use dispatcher::backends::kafka::{KafkaOptions, OpenError, Start};
use dispatcher::domain::config::Secret;
use dispatcher::domain::operational_event::Happening;
use dispatcher::domain::transfer::{NewTransfer, partition_of};
use dispatcher::ports::StoreError;
use dispatcher::ports::event_log::{BatchLimits, EventLog, IngestWork, NewRecord};
use dispatcher::ports::log_registry::LogRegistry;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, TopicPartitionList};
use rdkafka::admin::{AdminOptions, ResourceSpecifier};
use rdkafka::topic_partition_list::Offset;

use super::records::noise;
use super::{KafkaBackend, LIMITS, append, quiet, read, record, transfers, until, values, work};
use crate::fixture::{client, new_transfer};

/// The error with which this log does not open.
async fn refused(backend: &KafkaBackend) -> OpenError {
    backend.replica().await.err().expect("it opened")
}

#[tokio::test]
async fn a_topic_that_is_made_later_is_read_from_its_beginning() {
    let mut backend = KafkaBackend::new();
    backend.options.start = Start::Now;
    let log = backend.replica().await.unwrap();
    append(&log, &backend.topic("old"), &["passed over"]).await;
    let source = log.source(&backend.group("g"), LIMITS).await.unwrap();
    append(&log, &backend.topic("old"), &["1"]).await;
    assert_eq!(values(&read(&*source, 1).await), ["1"]);
    let made = Instant::now();
    append(&log, &backend.topic("new"), &["2"]).await;
    assert_eq!(values(&read(&*source, 1).await), ["2"]);
    assert!(made.elapsed() < Duration::from_secs(10), "{:?}", made.elapsed());
    // A group that was seen before goes on where it was, whatever the start.
    drop(source);
    let source = log.source(&backend.group("g"), LIMITS).await.unwrap();
    let mut found = read(&*source, 2).await;
    found.sort_by(|a, b| a.value.cmp(&b.value));
    assert_eq!(values(&found), ["1", "2"]);
}

/// The first process died after it was seen that the group is new, and before it was committed where it begins.
#[tokio::test]
async fn a_group_whose_first_replica_died_at_once_begins_where_it_should() {
    let mut backend = KafkaBackend::new();
    backend.options.start = Start::Now;
    let group = backend.group("g");
    let log = backend.replica().await.unwrap();
    append(&log, &backend.topic("old"), &["passed over"]).await;
    backend.registry.left(&group, Duration::from_secs(1));
    let waits = log.source(&group, LIMITS).await.err();
    assert!(matches!(waits, Some(StoreError::Unavailable(_))), "somebody may be about to commit it: {waits:?}");
    backend.registry.left(&group, Duration::from_secs(31));
    let source = log.source(&group, LIMITS).await.unwrap();
    assert!(backend.registry.has_begun(&group));
    append(&log, &backend.topic("old"), &["1"]).await;
    assert_eq!(values(&read(&*source, 1).await), ["1"]);
}

/// Members that the registry knows nothing of: what they have not committed would be read from its beginning.
#[tokio::test]
async fn a_group_that_has_members_before_it_begins_waits_for_their_end() {
    let mut backend = KafkaBackend::new();
    backend.options.start = Start::Now;
    let group = backend.group("g");
    let log = backend.replica().await.unwrap();
    append(&log, &backend.topic("old"), &["passed over"]).await;
    let member: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &backend.options.brokers)
        .set("group.id", &group)
        .create()
        .unwrap();
    member.subscribe(&[&backend.topic("old")]).unwrap();
    until("it has joined", async || {
        drop(member.poll(Duration::from_millis(100)));
        member.assignment().unwrap().count() > 0
    })
    .await;
    let refused = log.source(&group, LIMITS).await.err();
    assert!(matches!(refused, Some(StoreError::Unavailable(_))), "{refused:?}");
    assert!(!backend.registry.has_begun(&group));
    tokio::task::spawn_blocking(move || drop(member)).await.unwrap();
    backend.registry.left(&group, Duration::from_secs(31));
    until("it begins", async || log.source(&group, LIMITS).await.is_ok()).await;
    assert!(backend.registry.has_begun(&group));
}

#[tokio::test]
async fn nothing_is_written_to_a_topic_that_nobody_reads() {
    let backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    for topic in ["__consumer_offsets", backend.options.transfer_topic.as_str(), "other.db.coll"] {
        let refused = log.append(vec![record(topic, "2")]).await;
        assert!(matches!(&refused, Err(StoreError::Refused(why)) if why.contains(topic)), "{refused:?}");
    }
}

#[tokio::test]
async fn a_new_group_begins_at_a_time() {
    let mut backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    let topic = backend.topic("coll");
    append(&log, &topic, &["early"]).await;
    let source = log.source(&backend.group("g"), LIMITS).await.unwrap();
    let early = read(&*source, 1).await[0].timestamp_ms;
    until("the next millisecond", async || chrono_ms() > early + 1).await;
    append(&log, &topic, &["late"]).await;
    backend.options.start = Start::At(early + 1);
    let log = backend.replica().await.unwrap();
    let source = log.source(&backend.group("h"), LIMITS).await.unwrap();
    assert_eq!(values(&read(&*source, 1).await), ["late"]);
}

fn chrono_ms() -> i64 {
    use dispatcher::ports::clock::Clock;
    dispatcher::ports::clock::SystemClock.now_ms()
}

#[tokio::test]
async fn names_and_settings_that_cannot_be_are_refused() {
    let mut backend = KafkaBackend::new();
    let good = backend.options.clone();
    let topic = format!("{}.transfer", good.source_prefix);
    for options in [
        KafkaOptions { transfer_topic: topic.clone(), ..good.clone() },
        KafkaOptions { dead_topic: topic.clone(), ..good.clone() },
    ] {
        backend.options = options;
        let err = refused(&backend).await;
        assert!(matches!(&err, OpenError::SourceTopic { topic: found, .. } if *found == topic), "{err}");
    }
    backend.options = good.clone();
    backend.options.options.insert("acks".into(), Secret::new("1"));
    assert!(matches!(refused(&backend).await, OpenError::Option(name) if name.starts_with("acks")));
    backend.options = good.clone();
    backend.options.options.insert("sasl.mechanism".into(), Secret::new("planted-secret"));
    backend.options.options.insert("no.such.setting".into(), Secret::new("planted-secret"));
    let err = refused(&backend).await;
    assert!(matches!(&err, OpenError::Option(_)), "{err}");
    assert!(!format!("{err} {err:?} {:?}", backend.options).contains("planted-secret"));
}

/// Known at the start, not by the first record that cannot be written.
#[tokio::test]
async fn transactions_that_the_brokers_do_not_allow_are_refused_at_once() {
    let mut backend = KafkaBackend::new();
    backend.options.options.insert("transaction.timeout.ms".into(), Secret::new("3600000"));
    let err = refused(&backend).await;
    assert!(
        matches!(&err, OpenError::Refused(why) if why.contains("transaction.max.timeout.ms")),
        "{err}"
    );
}

#[tokio::test]
async fn a_topic_that_is_not_as_it_must_be_is_refused() {
    let backend = KafkaBackend::new();
    let topic = backend.options.transfer_topic.clone();
    backend.registry.register(&topic, 12, None).await.unwrap();
    backend.create_topic(&topic, 5, &[]).await;
    let expected = OpenError::Partitions { topic, found: 5, expected: 12 };
    assert_eq!(refused(&backend).await, expected);

    let backend = KafkaBackend::new();
    let topic = backend.options.transfer_topic.clone();
    backend.create_topic(&topic, 12, &[("cleanup.policy", "compact,delete")]).await;
    let OpenError::CleanupPolicy { topic: found, policy } = refused(&backend).await else { panic!() };
    assert_eq!((found, policy.contains("compact")), (topic, true));

    let backend = KafkaBackend::new();
    let topic = backend.options.dead_topic.clone();
    backend.create_topic(&topic, 3, &[]).await;
    assert_eq!(refused(&backend).await, OpenError::Partitions { topic, found: 3, expected: 1 });
}

#[tokio::test]
async fn topics_that_we_make_take_the_largest_record() {
    let backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    let source = backend.topic("made");
    append(&log, &source, &["1"]).await;
    let names = [&backend.options.transfer_topic, &backend.options.dead_topic, &source];
    let asked = names.map(|name| ResourceSpecifier::Topic(name));
    let answers = backend.admin().describe_configs(&asked, &AdminOptions::new()).await.unwrap();
    assert_eq!(answers.len(), names.len());
    for (name, answer) in names.into_iter().zip(answers) {
        let answer = answer.unwrap();
        let bytes = answer.get("max.message.bytes").and_then(|entry| entry.value.as_deref());
        assert_eq!(bytes, Some("33554432"), "{name}");
    }
}

#[tokio::test]
async fn a_topic_that_others_made_keeps_its_partitions() {
    let backend = KafkaBackend::new();
    backend.create_topic(&backend.options.transfer_topic, 5, &[]).await;
    let log = backend.replica().await.unwrap();
    assert_eq!((log.partitions(), log.incarnation()), (5, 1));
    let known = backend.registry.find(&backend.options.transfer_topic).await.unwrap().unwrap();
    assert_eq!(known.partitions, 5);
}

#[tokio::test]
async fn a_transfer_topic_that_was_made_again_is_another_log() {
    let backend = KafkaBackend::new();
    let topic = backend.options.transfer_topic.clone();
    let log = backend.replica().await.unwrap();
    assert_eq!((log.partitions(), log.incarnation()), (12, 1));
    log.close().await;
    let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(10)));
    backend.admin().delete_topics(&[&topic], &options).await.unwrap();
    let log = backend.replica().await.unwrap();
    assert_eq!((log.partitions(), log.incarnation()), (12, 2));
    log.close().await;
    // By somebody else: it ends before what was committed.
    backend.registry.committed(&topic, 3, 41);
    let log = backend.replica().await.unwrap();
    assert_eq!(log.incarnation(), 3);
    log.close().await;
    assert_eq!(backend.replica().await.unwrap().incarnation(), 3);
}

#[tokio::test]
async fn what_is_gone_is_said_and_passed_over() {
    let backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    let topic = backend.topic("coll");
    append(&log, &topic, &["0", "1"]).await;
    let source = log.source(&backend.group("g"), LIMITS).await.unwrap();
    let records = read(&*source, 2).await;
    source.commit(work(&records[..1])).await.unwrap();
    log.close().await;
    let log = backend.replica().await.unwrap();
    append(&log, &topic, &["2", "3"]).await;
    delete_before(&backend, &topic, 0, 4).await;
    let source = log.source(&backend.group("g"), LIMITS).await.unwrap();
    let found = read(&*source, 1).await;
    assert_eq!((values(&found), backend.gaps("source")), (vec!["3"], 1));
    let told = backend.told.lock().unwrap().clone();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].happening, &told[0].details["partition"]), (Happening::SourceGap, &0.into()));
    // Nothing is said of what was committed.
    source.commit(work(&found)).await.unwrap();
    source.rewind().await.unwrap();
    append(&log, &topic, &["4"]).await;
    assert_eq!(values(&read(&*source, 1).await), ["4"]);
    assert_eq!(backend.gaps("source"), 1);
}

#[tokio::test]
async fn transfers_that_are_gone_are_said_and_passed_over() {
    let backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    append(&log, &backend.topic("coll"), &["1", "2", "3"]).await;
    let source = log.source(&backend.group("g"), LIMITS).await.unwrap();
    let records = read(&*source, 3).await;
    let partition = partition_of(&client("a"), 12);
    for (change, record) in (1..).zip(&records[..2]) {
        let transfers = vec![new_transfer("a", "d", change)];
        source.commit(IngestWork { transfers, ..work(std::slice::from_ref(record)) }).await.unwrap();
    }
    delete_before(&backend, &backend.options.transfer_topic, partition as i32, 1).await;
    let reader = log.transfers(&backend.group("t"), LIMITS).await.unwrap();
    // Nothing was committed: it begins at the oldest, and no gap is known.
    assert_eq!(transfers(&*reader, 1).await[0].source.offset, 2);
    until("its beginning is committed", async || reader.lag().await.is_ok_and(|lag| lag.records == 1)).await;
    drop(reader);
    log.close().await;
    let log = backend.replica().await.unwrap();
    let source = log.source(&backend.group("g"), LIMITS).await.unwrap();
    let last = read(&*source, 1).await;
    let work = IngestWork { transfers: vec![new_transfer("a", "d", 3)], ..work(&last) };
    source.commit(work).await.unwrap();
    delete_before(&backend, &backend.options.transfer_topic, partition as i32, 4).await;
    let reader = log.transfers(&backend.group("t"), LIMITS).await.unwrap();
    assert_eq!(transfers(&*reader, 1).await[0].source.offset, 3);
    assert_eq!(backend.gaps("transfer"), 1);
    assert!(quiet(transfers(&*reader, 1)).await);
}

/// More than is read ahead, so that what is deleted was not read yet.
#[tokio::test]
async fn what_goes_while_it_is_read_is_said_and_passed_over() {
    let backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    let topic = backend.topic("coll");
    for number in 0..60 {
        let large = NewRecord { value: Some(noise(1 << 20)), ..record(&topic, &number.to_string()) };
        log.append(vec![large]).await.unwrap();
    }
    let few = BatchLimits { records: 1, bytes: 1 << 20 };
    let source = log.source(&backend.group("g"), few).await.unwrap();
    let first = read(&*source, 1).await;
    let last = first[0].position.offset + 2 * 58;
    delete_before(&backend, &topic, 0, last).await;
    let mut offsets = Vec::new();
    while offsets.last() < Some(&last) {
        offsets.extend(read(&*source, 1).await.iter().map(|record| record.position.offset));
    }
    assert!(offsets.is_sorted_by(|a, b| a < b) && offsets.contains(&last), "{offsets:?}");
    assert!(offsets.len() < 55, "all was read ahead");
    assert_eq!(backend.gaps("source"), 1);
    log.close().await;

    let log = backend.replica().await.unwrap();
    let source = log.source(&backend.group("g"), LIMITS).await.unwrap();
    let records = read(&*source, 1).await;
    let partition = partition_of(&client("a"), 12);
    let body = noise(1 << 20);
    let large = |change| NewTransfer { body: body.clone(), ..new_transfer("a", "d", change) };
    source.commit(IngestWork { transfers: (0..20).map(large).collect(), ..work(&records) }).await.unwrap();
    let reader = log.transfers(&backend.group("t"), few).await.unwrap();
    assert_eq!(transfers(&*reader, 1).await[0].source.offset, 0);
    delete_before(&backend, &backend.options.transfer_topic, partition as i32, 19).await;
    let mut changes = Vec::new();
    while changes.last() != Some(&19) {
        changes.extend(transfers(&*reader, 1).await.iter().map(|transfer| transfer.source.offset));
    }
    assert!(changes.is_sorted_by(|a, b| a < b) && changes.len() < 19, "{changes:?}");
    assert_eq!(backend.gaps("transfer"), 1);
    reader.commit([(partition, 20)].into()).await.unwrap();
}

async fn delete_before(backend: &KafkaBackend, topic: &str, partition: i32, offset: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
    let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(10)));
    backend.admin().delete_records(&list, &options).await.unwrap();
}
