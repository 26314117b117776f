//! Several members of a group.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dispatcher::domain::transfer::partition_of;
use dispatcher::ports::StoreError;
use dispatcher::ports::clock::{Clock, SystemClock};
use dispatcher::ports::event_log::{EventLog, IngestWork, TransferConsumer, TransferEvent};

use super::{KafkaBackend, LIMITS, append, quiet, read, transfers, until, values, work};
use crate::fixture::{client, new_transfer, soon};
use crate::services;

/// Writes one transfer for each client as work on a record.
async fn ingest(backend: &KafkaBackend, log: &impl EventLog, clients: &[String]) {
    append(log, &backend.topic("coll"), &["x"]).await;
    let source = log.source(&backend.group("ingest"), LIMITS).await.unwrap();
    let records = read(&*source, 1).await;
    let transfers = clients.iter().map(|client| new_transfer(client, "d", 1)).collect();
    source.commit(IngestWork { transfers, ..work(&records) }).await.unwrap();
}

async fn assigned(consumer: &dyn TransferConsumer) -> BTreeMap<u32, i64> {
    match soon(consumer.next()).await.unwrap() {
        TransferEvent::Assigned(committed) => committed,
        other => panic!("{other:?}"),
    }
}

fn allows(consumer: &dyn TransferConsumer) -> bool {
    consumer.permission().allows(SystemClock.boot_ms())
}

#[tokio::test]
async fn a_partition_is_handed_over_when_it_was_left() {
    let backend = KafkaBackend::new();
    let (one, two) = (backend.replica().await.unwrap(), backend.replica().await.unwrap());
    let clients: Vec<String> = (0..60).map(|number| format!("client-{number}")).collect();
    ingest(&backend, &one, &clients).await;
    let first = one.transfers(&backend.group("t"), LIMITS).await.unwrap();
    assert_eq!(assigned(&*first).await.len(), 12);
    let all = transfers(&*first, 60).await;
    let second = two.transfers(&backend.group("t"), LIMITS).await.unwrap();
    let (partitions, left) = loop {
        match soon(first.next()).await.unwrap() {
            TransferEvent::Revoked { partitions, left } => break (partitions, left),
            TransferEvent::Assigned(none) => assert!(none.is_empty()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(partitions.len(), 6);
    // Nobody has them as long as they are in use; what is settled meanwhile is committed.
    let given =
        tokio::time::timeout(Duration::from_secs(3), async { while assigned(&*second).await.is_empty() {} });
    assert!(given.await.is_err(), "two have them");
    let mut settled: BTreeMap<u32, i64> = BTreeMap::new();
    for transfer in &all {
        settled.entry(transfer.sequence.partition).or_insert(transfer.sequence.offset + 1);
    }
    first.commit(settled.clone()).await.unwrap();
    drop(left);
    let committed = loop {
        let committed = assigned(&*second).await;
        if !committed.is_empty() {
            break committed;
        }
    };
    assert!(committed.keys().all(|partition| partitions.contains(partition)));
    assert!(committed.iter().all(|(partition, next)| settled.get(partition) == Some(next)));
    // The first of each is settled: the second member gets the others, each once.
    let rest: BTreeSet<_> = all
        .iter()
        .filter(|transfer| partitions.contains(&transfer.sequence.partition))
        .filter(|transfer| transfer.sequence.offset >= settled[&transfer.sequence.partition])
        .map(|transfer| transfer.sequence)
        .collect();
    let got: BTreeSet<_> =
        transfers(&*second, rest.len()).await.iter().map(|transfer| transfer.sequence).collect();
    assert_eq!(got, rest);
    // And the first cannot commit them any more.
    let partition = *partitions.first().unwrap();
    let late = first.commit([(partition, settled[&partition])].into()).await;
    assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
    until("both may send", async || allows(&*first) && allows(&*second)).await;
}

#[tokio::test]
async fn an_idle_member_keeps_its_permission() {
    let backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    let consumer = log.transfers(&backend.group("t"), LIMITS).await.unwrap();
    assert!(!allows(&*consumer), "nothing is its own yet");
    assigned(&*consumer).await;
    until("the permission", async || allows(&*consumer)).await;
    // Twice as long as a commit is proof.
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    for _ in 0..100 {
        tick.tick().await;
        assert!(allows(&*consumer));
    }
    drop(consumer);
}

#[tokio::test]
async fn work_on_records_of_another_member_is_refused() {
    let backend = KafkaBackend::new();
    let (one, two) = (backend.replica().await.unwrap(), backend.replica().await.unwrap());
    append(&one, &backend.topic("a"), &["a"]).await;
    append(&one, &backend.topic("b"), &["b"]).await;
    let first = one.source(&backend.group("g"), LIMITS).await.unwrap();
    let records = read(&*first, 2).await;
    let second = two.source(&backend.group("g"), LIMITS).await.unwrap();
    let moved = read(&*second, 1).await;
    let transfers_of = |records: &[_]| IngestWork {
        transfers: values(records).iter().map(|value| new_transfer("a", value, 1)).collect(),
        ..work(records)
    };
    let late = first.commit(transfers_of(&records)).await;
    assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
    second.commit(transfers_of(&moved)).await.unwrap();
    first.rewind().await.unwrap();
    let kept = read(&*first, 1).await;
    first.commit(transfers_of(&kept)).await.unwrap();
    let log = one.transfers(&backend.group("t"), LIMITS).await.unwrap();
    let documents: BTreeSet<_> =
        transfers(&*log, 2).await.iter().map(|transfer| transfer.document.to_string()).collect();
    assert_eq!(documents, ["identity.users:a".to_owned(), "identity.users:b".to_owned()].into());
    assert!(quiet(log.next()).await);
}

#[tokio::test]
async fn a_member_that_was_cut_off_sends_and_writes_nothing() {
    let (kafka, proxy) = tokio::task::spawn_blocking(services::own_kafka_behind_proxy).await.unwrap();
    let backend = KafkaBackend::at(format!("127.0.0.1:{}", kafka.port()));
    let cut_off = backend.replica_at(&format!("127.0.0.1:{}", proxy.port())).await.unwrap();
    let well = backend.replica().await.unwrap();
    append(&well, &backend.topic("a"), &["1"]).await;
    let source = cut_off.source(&backend.group("g"), LIMITS).await.unwrap();
    let records = read(&*source, 1).await;
    let log = cut_off.transfers(&backend.group("t"), LIMITS).await.unwrap();
    assigned(&*log).await;
    until("the permission", async || allows(&*log)).await;

    proxy.stall();
    let (source_2, log_2) = (
        well.source(&backend.group("g"), LIMITS).await.unwrap(),
        well.transfers(&backend.group("t"), LIMITS).await.unwrap(),
    );
    // Before anybody else has them, the one that is cut off may not send any more.
    let mut given = loop {
        let given = assigned(&*log_2).await;
        if !given.is_empty() {
            assert!(!allows(&*log), "two may send");
            break given;
        }
    };
    while given.len() < 12 {
        given.extend(assigned(&*log_2).await);
    }
    let again = read(&*source_2, 1).await;
    assert_eq!(again, records);
    let partition = partition_of(&client("a"), 12);
    let transfers_of =
        |change| IngestWork { transfers: vec![new_transfer("a", "d", change)], ..work(&records) };
    source_2.commit(transfers_of(1)).await.unwrap();
    assert_eq!(transfers(&*log_2, 1).await[0].source.offset, 1);

    proxy.heal();
    let late = source.commit(transfers_of(2)).await;
    assert!(late.is_err(), "written twice");
    loop {
        match soon(log.next()).await.unwrap() {
            TransferEvent::Lost(lost) => break assert!(lost.contains(&partition)),
            TransferEvent::Revoked { .. } => panic!("revoked, although it was lost"),
            _ => {}
        }
    }
    let late = log.commit([(partition, 1)].into()).await;
    assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
    assert!(quiet(transfers(&*log_2, 1)).await);
}
