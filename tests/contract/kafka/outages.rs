//! The broker goes away and comes back.

use std::time::{Duration, Instant};

use dispatcher::backends::kafka::OpenError;
use dispatcher::ports::StoreError;
use dispatcher::ports::clock::{Clock, SystemClock};
use dispatcher::ports::event_log::{EventLog, IngestWork};

use super::{KafkaBackend, LIMITS, append, read, record, transfers, until, values, work};
use crate::fixture::new_transfer;
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
    until("the permission", async || permission.allows(SystemClock.boot_ms())).await;
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
    // It lost everything meanwhile, and was told so.
    assert!(!permission.allows(SystemClock.boot_ms()));
    permission.restore();
    until("the permission", async || permission.allows(SystemClock.boot_ms())).await;
}
