//! The broker goes away and comes back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dispatcher::backends::kafka::OpenError;
use dispatcher::domain::config::Secret;
use dispatcher::domain::transfer::NewTransfer;
use dispatcher::ports::StoreError;
use dispatcher::ports::clock::{Clock, SystemClock};
use dispatcher::ports::event_log::{EventLog, IngestWork, TransferConsumer, TransferEvent};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::records::noise;
use super::{KafkaBackend, LIMITS, append, read, record, transfers, until, values, work};
use crate::fixture::{new_transfer, soon};
use crate::services;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_goes_on_when_the_broker_is_back() {
    let kafka = tokio::task::spawn_blocking(services::own_kafka).await.unwrap();
    let backend = KafkaBackend::at(format!("127.0.0.1:{}", kafka.port()));
    let log = backend.replica().await.unwrap();
    let topic = backend.topic("coll");
    append(&log, &topic, &["1"]).await;
    let source = log.source(&backend.group("g"), LIMITS).await.unwrap();
    let records = read(&*source, 1).await;
    let reader = log.transfers(&backend.group("t"), LIMITS).await.unwrap();
    let permission = reader.permission();
    allowed(&reader).await;
    log.health().await.unwrap();

    tokio::task::block_in_place(|| kafka.kill());
    let asked = Instant::now();
    log.health().await.unwrap_err();
    let appended = log.append(vec![record(&topic, "lost")]).await;
    assert!(matches!(appended, Err(StoreError::Unavailable(_))), "{appended:?}");
    let one = || IngestWork { transfers: vec![new_transfer("a", "d", 1)], ..work(&records) };
    let committed = source.commit(one()).await;
    // Away, or lost already: a member that hears nothing for the session time-out gives up what it has.
    assert!(committed.is_err());
    assert!(asked.elapsed() < Duration::from_secs(90), "{:?}", asked.elapsed());
    assert!(!permission.allows(SystemClock.boot_ms()));
    assert!(matches!(backend.replica().await, Err(OpenError::Unavailable(_))));

    tokio::task::block_in_place(|| kafka.start_again());
    until("health", async || log.health().await.is_ok()).await;
    until("rewind", async || source.rewind().await.is_ok()).await;
    let again = read(&*source, 1).await;
    assert_eq!(again, records);
    until("commit", async || source.commit(one()).await.is_ok()).await;
    until("append", async || log.append(vec![record(&topic, "2")]).await.is_ok()).await;
    assert_eq!(values(&read(&*source, 1).await), ["2"]);
    assert_eq!(transfers(&*reader, 1).await[0].content, new_transfer("a", "d", 1));
    allowed(&reader).await;
}

/// Somebody's transaction hides what the group has committed: the brokers answer, and yet it is not known where to begin. A consumer to which
/// that happens for long has lost sight of them, so it ends, and its reader opens another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_never_learns_where_to_begin_ends() {
    let backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    let (topic, group) = (backend.topic("coll"), backend.group("g"));
    append(&log, &topic, &["1"]).await;
    let source = log.source(&group, LIMITS).await.unwrap();
    let records = read(&*source, 1).await;
    source.commit(work(&records)).await.unwrap();

    let (brokers, hidden, of) = (backend.options.brokers.clone(), topic.clone(), group.clone());
    let hiding = tokio::task::spawn_blocking(move || hide(&brokers, &hidden, &of)).await.unwrap();
    let asked = Instant::now();
    until("the end of the consumer", async || match source.rewind().await {
        Err(StoreError::Unavailable(_)) => false,
        Err(StoreError::Fenced(_)) => true,
        other => panic!("{other:?}"),
    })
    .await;
    assert!(asked.elapsed() > Duration::from_secs(30), "gave up early: {:?}", asked.elapsed());
    let ended = soon(source.next()).await;
    assert!(matches!(ended, Err(StoreError::Fenced(_))), "{ended:?}");
    drop(source);

    tokio::task::block_in_place(|| hiding.abort_transaction(Duration::from_secs(10))).unwrap();
    append(&log, &topic, &["2"]).await;
    let source = log.source(&group, LIMITS).await.unwrap();
    assert_eq!(values(&read(&*source, 1).await), ["2"]);
}

/// Begins a transaction that commits the first offset of a group again, and leaves it open.
fn hide(brokers: &str, topic: &str, group: &str) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    let member: BaseConsumer = config.clone().set("group.id", group).create().unwrap();
    let id = services::unique("hides");
    let producer: BaseProducer =
        config.set("transactional.id", id).set("transaction.timeout.ms", "120000").create().unwrap();
    let within = Duration::from_secs(20);
    producer.init_transactions(within).unwrap();
    producer.begin_transaction().unwrap();
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(topic, 0, Offset::Offset(1)).unwrap();
    producer.send_offsets_to_transaction(&offsets, &member.group_metadata().unwrap(), within).unwrap();
    producer
}

/// A large fan-out takes longer than a small transaction may: it has longer, or ingest would stand still for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_fan_out_has_the_time_that_it_takes() {
    let (kafka, proxy) = tokio::task::spawn_blocking(services::own_kafka_behind_proxy).await.unwrap();
    let mut backend = KafkaBackend::at(format!("127.0.0.1:{}", kafka.port()));
    backend.options.options.insert("transaction.timeout.ms".into(), Secret::new("3000"));
    let log = backend.replica_at(&format!("127.0.0.1:{}", proxy.port())).await.unwrap();
    append(&log, &backend.topic("coll"), &["1", "2", "3"]).await;
    let source = log.source(&backend.group("g"), LIMITS).await.unwrap();
    let records = read(&*source, 3).await;
    let body = noise(9 << 20);
    let large = |client: i64| NewTransfer { body: body.clone(), ..new_transfer(&client.to_string(), "d", 1) };
    let commit = |record: usize, transfers| {
        let work = IngestWork { transfers, ..work(&records[record..=record]) };
        source.commit(work)
    };
    let fan_out = || (0..6).map(large).collect();
    commit(0, fan_out()).await.unwrap();
    // For longer than a small transaction may take.
    proxy.stall();
    let healed = async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        proxy.heal();
    };
    let (written, ()) = tokio::join!(commit(1, fan_out()), healed);
    written.unwrap();
    commit(2, vec![new_transfer("a", "d", 2)]).await.unwrap();
    let reader = log.transfers(&backend.group("t"), LIMITS).await.unwrap();
    assert_eq!(transfers(&*reader, 13).await.len(), 13);
}

/// Waits until requests may be started. Takes what comes meanwhile, as the service does: of partitions that nobody took nothing is
/// proved.
async fn allowed(reader: &Arc<dyn TransferConsumer>) {
    let permission = reader.permission();
    // What was lost so far is in nobody's hands here.
    permission.restore();
    let taken = reader.clone();
    let taking = tokio::spawn(async move {
        loop {
            match taken.next().await {
                Ok(TransferEvent::Assigned(_) | TransferEvent::Lost(_)) => taken.permission().restore(),
                Ok(_) => {}
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    });
    until("the permission", async || permission.allows(SystemClock.boot_ms())).await;
    taking.abort();
}
