//! The hand-over in memory, bodies, retention.

use std::sync::Arc;

use bytes::Bytes;
use diesel::prelude::*;

use super::super::schema::{source_records, transfer_bodies, transfers};
use super::{Embedded, HOUR_MS, options, record, transfer};
use crate::domain::config::ClientId;
use crate::domain::transfer::{Transfer, partition_of};
use crate::ports::StoreError;
use crate::ports::event_log::{
    BatchLimits, EventLog, IngestWork, SourceConsumer, TransferConsumer, TransferEvent,
};

const LIMITS: BatchLimits = BatchLimits { records: 10, bytes: 1 << 20 };

async fn open(log: &dyn EventLog) -> (Arc<dyn SourceConsumer>, Arc<dyn TransferConsumer>) {
    let source = log.source("g", LIMITS).await.unwrap();
    let transfers = log.transfers("t", LIMITS).await.unwrap();
    assert!(matches!(transfers.next().await.unwrap(), TransferEvent::Assigned(_)));
    (source, transfers)
}

/// On two of the four partitions.
const CLIENTS: [&str; 2] = ["a", "d"];

/// Makes of each record that comes a transfer for two clients with one body.
async fn ingest(source: &dyn SourceConsumer, count: usize) {
    let mut done = 0;
    while done < count {
        let mut work = IngestWork::default();
        for record in source.next().await.unwrap() {
            let body = record.value.unwrap();
            for client in CLIENTS {
                work.transfers.push(transfer(client, record.position.offset, body.clone()));
            }
            let position = record.position;
            work.offsets.insert((position.topic, position.partition), position.offset + 1);
            done += 1;
        }
        source.commit(work).await.unwrap();
    }
}

async fn read(consumer: &dyn TransferConsumer, count: usize) -> Vec<Arc<Transfer>> {
    let mut all = Vec::new();
    while all.len() < count {
        match consumer.next().await.unwrap() {
            TransferEvent::Batch { transfers, .. } => all.extend(transfers),
            other => panic!("{other:?} instead of a batch"),
        }
    }
    all
}

async fn commit(consumer: &dyn TransferConsumer, transfers: &[Arc<Transfer>]) {
    let next = |transfer: &Arc<Transfer>| (transfer.sequence.partition, transfer.sequence.offset + 1);
    consumer.commit(transfers.iter().map(next).collect()).await.unwrap();
}

/// Source records, transfers, bodies.
async fn rows(embedded: &Embedded) -> (i64, i64, i64) {
    embedded
        .database
        .read(|connection| {
            Ok((
                source_records::table.count().get_result(connection)?,
                transfers::table.count().get_result(connection)?,
                transfer_bodies::table.count().get_result(connection)?,
            ))
        })
        .await
        .unwrap()
}

#[tokio::test]
async fn fresh_records_are_handed_over_without_reading_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(options(folder.path())).await.unwrap();
    let log = embedded.log();
    let (source, consumer) = open(&*log).await;
    for round in 0..20 {
        log.append((0..10).map(|number| record(&format!("{round}-{number}"))).collect()).await.unwrap();
        ingest(&*source, 10).await;
        let found = read(&*consumer, 20).await;
        commit(&*consumer, &found).await;
    }
    assert_eq!(embedded.log_file_reads(), 0);
    embedded.close().await;
}

#[tokio::test]
async fn who_is_behind_reads_the_file_until_the_rest_is_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(options(folder.path())).await.unwrap();
    let log = embedded.log();
    let (source, consumer) = open(&*log).await;
    // The memory holds 100 of the 300 records, and 100 of the 600 transfers.
    for _ in 0..30 {
        log.append((0..10).map(|number| record(&number.to_string())).collect()).await.unwrap();
    }
    ingest(&*source, 300).await;
    let source_reads = embedded.log_file_reads();
    assert_eq!(source_reads, 20, "10 records a read");
    let found = read(&*consumer, 600).await;
    assert_eq!(embedded.log_file_reads() - source_reads, 50);
    for client in CLIENTS {
        let of_client = found.iter().filter(|transfer| transfer.client.as_str() == client);
        let changes: Vec<_> = of_client.map(|transfer| transfer.source.offset).collect();
        assert_eq!(changes, (0..300).collect::<Vec<_>>());
    }
    embedded.close().await;
}

#[tokio::test]
async fn a_restart_reads_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(options(folder.path())).await.unwrap();
    let (source, consumer) = open(&*embedded.log()).await;
    embedded.log().append(vec![record("1")]).await.unwrap();
    ingest(&*source, 1).await;
    let fresh = read(&*consumer, 2).await;
    embedded.close().await;
    let embedded = Embedded::open(options(folder.path())).await.unwrap();
    let (_, consumer) = open(&*embedded.log()).await;
    assert_eq!(read(&*consumer, 2).await, fresh);
    assert!(embedded.log_file_reads() > 0);
    embedded.close().await;
}

#[tokio::test]
async fn a_body_is_stored_once_for_all_its_clients() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(options(folder.path())).await.unwrap();
    let (source, _) = open(&*embedded.log()).await;
    embedded.log().append(vec![record("1"), record("2")]).await.unwrap();
    ingest(&*source, 2).await;
    assert_eq!(rows(&embedded).await, (2, 4, 2));
    // Equal bytes that are not shared, and an empty one.
    let bodies = [Bytes::from(b"1".to_vec()), Bytes::new()];
    let transfers = bodies.map(|body| transfer("c", 1, body)).into();
    source.commit(IngestWork { transfers, ..IngestWork::default() }).await.unwrap();
    assert_eq!(rows(&embedded).await, (2, 6, 4));
    embedded.close().await;
}

#[tokio::test]
async fn only_what_every_group_committed_and_is_old_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let created_ms = options.clock.now_ms();
    let (young, old) = (created_ms + HOUR_MS, created_ms + HOUR_MS + 1);
    let embedded = Embedded::open(options.clone()).await.unwrap();
    let log = embedded.log();
    let [a, d] = CLIENTS.map(|client| partition_of(&ClientId::new(client), log.partitions()));
    assert_ne!(a, d, "each is committed on its own");
    log.append((0..1_200).map(|number| record(&number.to_string())).collect()).await.unwrap();
    assert_eq!(embedded.housekeeping(old).await.unwrap(), 0, "nobody reads it yet");
    let (source, consumer) = open(&*log).await;
    ingest(&*source, 1_200).await;
    assert_eq!(embedded.housekeeping(young).await.unwrap(), 0, "too young");
    let late = log.transfers("late", LIMITS).await.unwrap();
    let found = read(&*consumer, 2_400).await;
    commit(&*consumer, &found).await;
    assert_eq!(embedded.housekeeping(old).await.unwrap(), 1_200, "transfers wait for the other group");
    assert_eq!(rows(&embedded).await, (0, 2_400, 1_200));
    let (of_a, of_d): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|transfer| transfer.client.as_str() == "a");
    commit(&*late, &of_a).await;
    assert_eq!(embedded.housekeeping(old).await.unwrap(), 1_200);
    assert_eq!(rows(&embedded).await, (0, 1_200, 1_200), "the bodies are needed for the other client");
    commit(&*late, &of_d).await;
    assert_eq!(embedded.housekeeping(old).await.unwrap(), 1_200);
    assert_eq!(rows(&embedded).await, (0, 0, 0));
    embedded.close().await;
    // Offsets go on where they were.
    let embedded = Embedded::open(options).await.unwrap();
    let positions = embedded.log().append(vec![record("x")]).await.unwrap();
    assert_eq!(positions[0].offset, 1_200);
    let (source, consumer) = open(&*embedded.log()).await;
    ingest(&*source, 1).await;
    assert_eq!(read(&*consumer, 2).await[0].sequence.offset, 1_200);
    embedded.close().await;
}

#[tokio::test]
async fn a_commit_never_goes_back_nor_beyond_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(options(folder.path())).await.unwrap();
    let log = embedded.log();
    log.append(vec![record("1"), record("2")]).await.unwrap();
    let (source, consumer) = open(&*log).await;
    ingest(&*source, 2).await;
    let found = read(&*consumer, 4).await;
    commit(&*consumer, &found).await;
    // Transfers: a late commit is passed over.
    let partition = found[0].sequence.partition;
    consumer.commit([(partition, 1)].into()).await.unwrap();
    assert_eq!(consumer.lag().await.unwrap().records, 0);
    let beyond = consumer.commit([(partition, 1_000)].into()).await;
    assert!(matches!(beyond, Err(StoreError::Refused(_))));
    // Source: its work would be written twice, so it is refused.
    let offsets = [(("mongo.db.coll".into(), 0), 1)].into();
    let back = source.commit(IngestWork { offsets, ..IngestWork::default() }).await;
    assert!(matches!(back, Err(StoreError::Refused(_))));
    embedded.close().await;
}

#[tokio::test]
async fn a_commit_that_leaves_out_a_topic_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(options(folder.path())).await.unwrap();
    let log = embedded.log();
    let other = crate::ports::event_log::NewRecord { topic: "mongo.db.other".into(), ..record("1") };
    log.append(vec![other, record("2")]).await.unwrap();
    let source = log.source("g", LIMITS).await.unwrap();
    source.next().await.unwrap();
    let offsets = [(("mongo.db.coll".into(), 0), 2)].into();
    let left_out = source.commit(IngestWork { offsets, ..IngestWork::default() }).await;
    assert!(matches!(left_out, Err(StoreError::Refused(text)) if text.contains("mongo.db.other/0@0")));
    embedded.close().await;
}

#[tokio::test]
async fn partitions_stay_as_they_were_created() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(options(folder.path())).await.unwrap();
    let incarnation = embedded.log().incarnation();
    assert_eq!(incarnation, 1_764_435_600, "the second of its creation");
    embedded.close().await;
    let more = super::EmbeddedOptions { partitions: 9, ..options(folder.path()) };
    let embedded = Embedded::open(more).await.unwrap();
    assert_eq!((embedded.log().partitions(), embedded.log().incarnation()), (4, incarnation));
    embedded.close().await;
}
