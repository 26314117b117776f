//! The contract of the event log.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use dispatcher::domain::change_event::SourceRecord;
use dispatcher::domain::transfer::{NewTransfer, Transfer, TransferKind, partition_of};
use dispatcher::ports::StoreError;
use dispatcher::ports::event_log::{
    BatchLimits, DeadLetter, IngestWork, Lag, NewRecord, SourceConsumer, TransferConsumer, TransferEvent,
};

use crate::fixture::{new_transfer, soon};
use crate::log_backend::{LogBackend, OpenLog};

const LIMITS: BatchLimits = BatchLimits { records: 100, bytes: 1 << 20 };

fn record(topic: &str, value: &str) -> NewRecord {
    NewRecord {
        topic: topic.into(),
        key: Some(Bytes::from_static(b"{\"id\":\"1\"}")),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        headers: Vec::new(),
    }
}

fn values(records: &[SourceRecord]) -> Vec<&str> {
    records.iter().map(|record| std::str::from_utf8(record.value.as_ref().unwrap()).unwrap()).collect()
}

/// The offsets that stand after these records.
fn after(records: &[SourceRecord]) -> BTreeMap<(Arc<str>, i32), i64> {
    let next = |record: &SourceRecord| {
        let position = record.position.clone();
        ((position.topic, position.partition), position.offset + 1)
    };
    records.iter().map(next).collect()
}

async fn append(stores: &OpenLog, collection: &str, values: &[&str]) {
    let topic = stores.topic(collection);
    let records = values.iter().map(|value| record(&topic, value)).collect();
    stores.log.append(records).await.unwrap();
}

/// Reads this many records, however they are divided.
async fn read(consumer: &dyn SourceConsumer, count: usize) -> Vec<SourceRecord> {
    let mut records = Vec::new();
    while records.len() < count {
        records.extend(soon(consumer.next()).await.unwrap());
    }
    records
}

/// Writes transfers as the work on one source record.
async fn ingest(stores: &OpenLog, transfers: Vec<NewTransfer>) {
    append(stores, "coll", &["x"]).await;
    let consumer = stores.log.source(&stores.group("ingest"), LIMITS).await.unwrap();
    let records = read(&*consumer, 1).await;
    let offsets = after(&records);
    consumer.commit(IngestWork { transfers, offsets, ..IngestWork::default() }).await.unwrap();
}

async fn open(stores: &OpenLog, group: &str) -> Arc<dyn TransferConsumer> {
    let consumer = stores.log.transfers(&stores.group(group), LIMITS).await.unwrap();
    let TransferEvent::Assigned(partitions) = soon(consumer.next()).await.unwrap() else {
        panic!("a batch before the partitions");
    };
    assert!(partitions.keys().copied().eq(0..stores.log.partitions()));
    consumer
}

async fn batch(consumer: &dyn TransferConsumer) -> (u32, Vec<Arc<Transfer>>) {
    match soon(consumer.next()).await.unwrap() {
        TransferEvent::Batch { partition, transfers } => (partition, transfers),
        other => panic!("{other:?} instead of a batch"),
    }
}

async fn read_transfers(consumer: &dyn TransferConsumer, count: usize) -> Vec<Arc<Transfer>> {
    let mut all = Vec::new();
    while all.len() < count {
        let (partition, transfers) = batch(consumer).await;
        assert!(transfers.iter().all(|transfer| transfer.sequence.partition == partition));
        all.extend(transfers);
    }
    all
}

pub(crate) async fn appended_records_come_back_in_order(backend: &impl LogBackend) {
    let stores = backend.open().await;
    let headers = vec![("h".to_owned(), Bytes::from_static(b"\x00\xff")), ("h".to_owned(), Bytes::new())];
    let odd = NewRecord { topic: stores.topic("coll").into(), key: None, value: None, headers };
    let positions = stores.log.append(vec![record(&stores.topic("coll"), "1"), odd.clone()]).await.unwrap();
    append(&stores, "coll", &["3"]).await;
    let consumer = stores.log.source(&stores.group("g"), LIMITS).await.unwrap();
    let records = read(&*consumer, 3).await;
    assert_eq!(records[0].position, positions[0]);
    assert_eq!(records[1].position, positions[1]);
    assert!(positions[0] < positions[1]);
    assert_eq!((&records[1].key, &records[1].value, &records[1].headers), (&None, &None, &odd.headers));
    assert_eq!(values(&records[2..]), ["3"]);
    assert!(records[0].timestamp_ms > 1_700_000_000_000);
}

pub(crate) async fn nothing_is_appended_of_an_empty_list(backend: &impl LogBackend) {
    let stores = backend.open().await;
    assert_eq!(stores.log.append(Vec::new()).await.unwrap(), []);
    let consumer = stores.log.source(&stores.group("g"), LIMITS).await.unwrap();
    assert!(stores.waits(consumer.next()).await);
}

pub(crate) async fn a_batch_keeps_its_limits(backend: &impl LogBackend) {
    let stores = backend.open().await;
    let large = "x".repeat(100_000);
    append(&stores, "coll", &["1", "2", "3", &large, &large, "6"]).await;
    let two = BatchLimits { records: 2, bytes: 1 << 20 };
    let consumer = stores.log.source(&stores.group("g"), two).await.unwrap();
    let mut seen = 0;
    while seen < 6 {
        let batch = soon(consumer.next()).await.unwrap();
        assert!(batch.len() <= 2);
        seen += batch.len();
    }
    let small = BatchLimits { records: 100, bytes: 50_000 };
    let consumer = stores.log.source(&stores.group("h"), small).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 6 {
        let batch = soon(consumer.next()).await.unwrap();
        assert!(batch.len() == 1 || batch.iter().all(|record| record.value.as_ref().unwrap().len() < 50_000));
        seen.extend(batch);
    }
    assert_eq!(values(&seen), ["1", "2", "3", &large, &large, "6"]);
}

pub(crate) async fn a_consumer_waits_for_what_comes(backend: &impl LogBackend) {
    let stores = backend.open().await;
    let consumer = stores.log.source(&stores.group("g"), LIMITS).await.unwrap();
    let (records, ()) = tokio::join!(soon(consumer.next()), append(&stores, "coll", &["1"]));
    assert_eq!(values(&records.unwrap()), ["1"]);
    let transfers = open(&stores, "t").await;
    let (found, ()) = tokio::join!(batch(&*transfers), ingest(&stores, vec![new_transfer("a", "d", 1)]));
    assert_eq!(found.1[0].content, new_transfer("a", "d", 1));
}

pub(crate) async fn a_dropped_next_loses_nothing(backend: &impl LogBackend) {
    let stores = backend.open().await;
    let values_in: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let one = BatchLimits { records: 1, bytes: 1 << 20 };
    append(&stores, "coll", &values_in.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let transfers = (0..40).map(|change| new_transfer("a", "d", change)).collect();
    ingest(&stores, transfers).await;
    stores.close().await;
    // Opened again: the records come from where they are stored.
    let stores = backend.open().await;
    let source = stores.log.source(&stores.group("g"), one).await.unwrap();
    let log = stores.log.transfers(&stores.group("t"), one).await.unwrap();
    let (mut records, mut changes) = (Vec::new(), Vec::new());
    for round in 0.. {
        // A future is dropped after some polls, now and then before it is ready.
        let polls = round % 5;
        if let Some(found) = polled(source.next(), polls).await {
            records.extend(found.unwrap());
        }
        if let Some(TransferEvent::Batch { transfers, .. }) =
            polled(log.next(), polls).await.map(Result::unwrap)
        {
            changes.extend(transfers.iter().map(|transfer| transfer.source.offset));
        }
        if records.len() >= 41 && changes.len() >= 40 {
            break;
        }
    }
    assert_eq!(values(&records)[..40], values_in);
    assert_eq!(changes, (0..40).collect::<Vec<_>>());
}

/// Polls a future at most this often, then drops it.
async fn polled<T>(future: impl Future<Output = T>, polls: usize) -> Option<T> {
    let mut future = std::pin::pin!(future);
    for _ in 0..polls {
        let once = std::future::poll_fn(|context| {
            std::task::Poll::Ready(match future.as_mut().poll(context) {
                std::task::Poll::Ready(value) => Some(value),
                std::task::Poll::Pending => None,
            })
        });
        if let Some(value) = once.await {
            return Some(value);
        }
        tokio::task::yield_now().await;
    }
    None
}

pub(crate) async fn rewind_goes_back_to_the_committed_offset(backend: &impl LogBackend) {
    let stores = backend.open().await;
    append(&stores, "a", &["1"]).await;
    append(&stores, "b", &["2"]).await;
    append(&stores, "a", &["3"]).await;
    let consumer = stores.log.source(&stores.group("g"), LIMITS).await.unwrap();
    // In order within a topic.
    let sorted = |mut records: Vec<SourceRecord>| {
        records.sort_by(|a, b| a.position.cmp(&b.position));
        records
    };
    let records = read(&*consumer, 3).await;
    consumer.rewind().await.unwrap();
    assert_eq!(sorted(read(&*consumer, 3).await), sorted(records.clone()));
    let records = sorted(records);
    assert_eq!(values(&records), ["1", "3", "2"]);
    let done = [records[0].clone(), records[2].clone()];
    consumer.commit(IngestWork { offsets: after(&done), ..IngestWork::default() }).await.unwrap();
    consumer.rewind().await.unwrap();
    assert_eq!(read(&*consumer, 1).await, records[1..2]);
}

pub(crate) async fn groups_are_independent(backend: &impl LogBackend) {
    let stores = backend.open().await;
    append(&stores, "coll", &["1", "2"]).await;
    let one = stores.log.source(&stores.group("one"), LIMITS).await.unwrap();
    let records = read(&*one, 2).await;
    one.commit(IngestWork { offsets: after(&records), ..IngestWork::default() }).await.unwrap();
    let two = stores.log.source(&stores.group("two"), LIMITS).await.unwrap();
    assert_eq!(read(&*two, 2).await, records);
    let one = stores.log.source(&stores.group("one"), LIMITS).await.unwrap();
    assert!(stores.waits(one.next()).await);
}

pub(crate) async fn work_is_written_whole(backend: &impl LogBackend) {
    let stores = backend.open().await;
    append(&stores, "coll", &["1"]).await;
    let log = open(&stores, "t").await;
    let consumer = stores.log.source(&stores.group("g"), LIMITS).await.unwrap();
    let records = read(&*consumer, 1).await;
    let letter = dead_letter(&records[0], true);
    let work = IngestWork {
        transfers: vec![new_transfer("a", "d", 1)],
        dead_letters: vec![letter.clone()],
        offsets: [((records[0].position.topic.clone(), records[0].position.partition), 1_000)].into(),
    };
    // An offset that does not exist: nothing of the work may stand.
    consumer.commit(work.clone()).await.unwrap_err();
    assert!(stores.waits(log.next()).await);
    assert_eq!(stores.log.dead_letters(0, 10).await.unwrap(), []);
    consumer.rewind().await.unwrap();
    let again = read(&*consumer, 1).await;
    assert_eq!(again, records);
    consumer.commit(IngestWork { offsets: after(&records), ..work }).await.unwrap();
    assert_eq!(batch(&*log).await.1.len(), 1);
    assert_eq!(stores.log.dead_letters(0, 10).await.unwrap().len(), 1);
}

pub(crate) async fn a_commit_that_leaves_out_a_record_is_refused(backend: &impl LogBackend) {
    let stores = backend.open().await;
    append(&stores, "a", &["1"]).await;
    append(&stores, "b", &["2"]).await;
    let consumer = stores.log.source(&stores.group("g"), LIMITS).await.unwrap();
    let mut records = read(&*consumer, 2).await;
    // Topics come in any order. With one stream for all of them this would pass over the first; with one for each it is a commit of one of them.
    records.sort_by_key(|record| values(std::slice::from_ref(record))[0].to_owned());
    let offsets = after(&records[1..]);
    let skipped = consumer.commit(IngestWork { offsets, ..IngestWork::default() }).await;
    consumer.rewind().await.unwrap();
    let first = read(&*consumer, 1).await;
    assert_eq!(values(&first[..1]), ["1"], "{skipped:?}");
}

pub(crate) async fn a_second_consumer_cannot_write_the_same_work_again(backend: &impl LogBackend) {
    let stores = backend.open().await;
    append(&stores, "coll", &["1"]).await;
    let log = open(&stores, "t").await;
    let old = stores.log.source(&stores.group("g"), LIMITS).await.unwrap();
    let records = read(&*old, 1).await;
    let new = stores.log.source(&stores.group("g"), LIMITS).await.unwrap();
    assert_eq!(read(&*new, 1).await, records);
    let work = IngestWork {
        transfers: vec![new_transfer("a", "d", 1)],
        offsets: after(&records),
        ..IngestWork::default()
    };
    new.commit(work.clone()).await.unwrap();
    assert!(matches!(old.commit(work).await, Err(StoreError::Fenced(_))));
    assert_eq!(batch(&*log).await.1.len(), 1);
    assert!(stores.waits(log.next()).await);
}

pub(crate) async fn a_client_has_one_partition_and_its_order(backend: &impl LogBackend) {
    let stores = backend.open().await;
    let clients: Vec<String> = (0..30).map(|number| format!("client-{number}")).collect();
    for round in 0..4 {
        let transfers = clients.iter().map(|client| new_transfer(client, "d", round)).collect();
        ingest(&stores, transfers).await;
    }
    let log = open(&stores, "t").await;
    let all = read_transfers(&*log, 120).await;
    let mut places: BTreeMap<u32, i64> = BTreeMap::new();
    let mut changes: BTreeMap<&str, i64> = BTreeMap::new();
    for transfer in &all {
        let sequence = transfer.sequence;
        assert_eq!(sequence.partition, partition_of(&transfer.client, stores.log.partitions()));
        assert_eq!(sequence.incarnation, stores.log.incarnation());
        assert!(places.insert(sequence.partition, sequence.offset).is_none_or(|last| last < sequence.offset));
        let change = transfer.source.offset;
        assert_eq!(changes.insert(transfer.client.as_str(), change).map_or(0, |last| last + 1), change);
    }
    assert!(places.len() > 5, "30 clients on {} partitions", places.len());
}

pub(crate) async fn a_transfer_comes_back_as_it_was(backend: &impl LogBackend) {
    let stores = backend.open().await;
    let large = Bytes::from(vec![b'x'; 5 << 20]);
    let long = format!("nul\u{0}-{}", "é".repeat(1_500));
    let transfers = vec![
        NewTransfer {
            kind: TransferKind::Resync,
            traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
            ..new_transfer("client \u{0} é", &long, 1)
        },
        NewTransfer { body: large.clone(), ..new_transfer("a", "1", 2) },
        NewTransfer { body: large, kind: TransferKind::Replay, ..new_transfer("b", "1", 2) },
        NewTransfer { body: Bytes::from_static(b"\xff\x00"), ..new_transfer("b", "2", 3) },
    ];
    ingest(&stores, transfers.clone()).await;
    // Fresh, and as it is stored.
    let fresh = read_transfers(&*open(&stores, "t").await, 4).await;
    stores.close().await;
    let stores = backend.open().await;
    let stored = read_transfers(&*open(&stores, "t").await, 4).await;
    for found in [fresh, stored] {
        for transfer in &transfers {
            assert!(found.iter().any(|found| found.content == *transfer), "{}", transfer.client);
        }
    }
}

pub(crate) async fn transfers_are_appended_apart_from_ingest(backend: &impl LogBackend) {
    let stores = backend.open().await;
    ingest(&stores, vec![new_transfer("a", "d", 1)]).await;
    let log = open(&stores, "t").await;
    let first = read_transfers(&*log, 1).await.remove(0);
    let replays: Vec<_> = [TransferKind::Replay, TransferKind::ForcedReplay]
        .into_iter()
        .map(|kind| NewTransfer { kind, ..new_transfer("a", "d", 1) })
        .collect();
    stores.log.append_transfers(replays.clone()).await.unwrap();
    stores.log.append_transfers(Vec::new()).await.unwrap();
    let fresh = read_transfers(&*log, 2).await;
    stores.close().await;
    let stores = backend.open().await;
    let stored = read_transfers(&*open(&stores, "again").await, 3).await.split_off(1);
    for found in [fresh, stored] {
        assert_eq!(found.iter().map(|found| found.content.clone()).collect::<Vec<_>>(), replays);
        assert_eq!(found[0].event_id, first.event_id);
        assert!(first.sequence < found[0].sequence && found[0].sequence < found[1].sequence);
    }
}

pub(crate) async fn transfers_of_all_partitions_get_their_turn(backend: &impl LogBackend) {
    let stores = backend.open().await;
    let mut transfers: Vec<_> = (0..50).map(|change| new_transfer("busy", "d", change)).collect();
    let quiet = (0..).map(|number| format!("quiet-{number}")).find(|client| {
        partition_of(&crate::fixture::client(client), stores.log.partitions())
            != partition_of(&transfers[0].client, stores.log.partitions())
    });
    transfers.push(new_transfer(&quiet.unwrap(), "d", 99));
    ingest(&stores, transfers).await;
    let log =
        stores.log.transfers(&stores.group("t"), BatchLimits { records: 1, bytes: 1 << 20 }).await.unwrap();
    let TransferEvent::Assigned(_) = soon(log.next()).await.unwrap() else { panic!("not assigned") };
    let first = read_transfers(&*log, 2).await;
    assert!(first.iter().any(|transfer| transfer.source.offset == 99));
}

pub(crate) async fn a_paused_partition_waits(backend: &impl LogBackend) {
    let stores = backend.open().await;
    let log = open(&stores, "t").await;
    let partition = partition_of(&crate::fixture::client("a"), stores.log.partitions());
    log.pause(partition);
    ingest(&stores, vec![new_transfer("a", "d", 1)]).await;
    assert!(stores.waits(log.next()).await);
    let (found, ()) = tokio::join!(batch(&*log), async { log.resume(partition) });
    assert_eq!(found.0, partition);
}

pub(crate) async fn an_uncommitted_transfer_comes_again_after_a_restart(backend: &impl LogBackend) {
    let stores = backend.open().await;
    ingest(&stores, (0..10).map(|change| new_transfer("a", "d", change)).collect()).await;
    let log = open(&stores, "t").await;
    let all = read_transfers(&*log, 10).await;
    let partition = all[0].sequence.partition;
    log.commit([(partition, all[4].sequence.offset)].into()).await.unwrap();
    stores.close().await;
    let stores = backend.open().await;
    let log = open(&stores, "t").await;
    assert_eq!(read_transfers(&*log, 6).await, all[4..]);
}

pub(crate) async fn an_uncommitted_record_comes_again_after_a_restart(backend: &impl LogBackend) {
    let stores = backend.open().await;
    append(&stores, "coll", &["1", "2", "3"]).await;
    let consumer = stores.log.source(&stores.group("g"), LIMITS).await.unwrap();
    let records = read(&*consumer, 3).await;
    consumer.commit(IngestWork { offsets: after(&records[..1]), ..IngestWork::default() }).await.unwrap();
    stores.close().await;
    let stores = backend.open().await;
    let consumer = stores.log.source(&stores.group("g"), LIMITS).await.unwrap();
    assert_eq!(read(&*consumer, 2).await, records[1..]);
}

pub(crate) async fn a_restart_keeps_shape_and_goes_on_counting(backend: &impl LogBackend) {
    let stores = backend.open().await;
    let shape = (stores.log.partitions(), stores.log.incarnation());
    ingest(&stores, vec![new_transfer("a", "d", 1)]).await;
    stores.close().await;
    let stores = backend.open().await;
    assert_eq!((stores.log.partitions(), stores.log.incarnation()), shape);
    ingest(&stores, vec![new_transfer("a", "d", 2)]).await;
    let log = open(&stores, "t").await;
    let all = read_transfers(&*log, 2).await;
    assert!(all[0].sequence < all[1].sequence);
    assert_eq!(all[1].source.offset, 2);
}

pub(crate) async fn nothing_is_appended_under_a_lease_that_is_over(backend: &impl LogBackend) {
    let stores = backend.open().await;
    let log = open(&stores, "t").await;
    let append = |change, held: bool| {
        stores.log.append_transfers_while(vec![new_transfer("a", "d", change)], Arc::new(move || held))
    };
    append(1, true).await.unwrap();
    assert!(matches!(append(2, false).await, Err(StoreError::Fenced(_))));
    append(3, true).await.unwrap();
    let all = read_transfers(&*log, 2).await;
    assert_eq!([all[0].source.offset, all[1].source.offset], [1, 3]);
}

pub(crate) async fn lag_counts_what_is_not_committed(backend: &impl LogBackend) {
    let stores = backend.open().await;
    let consumer = stores.log.source(&stores.group("g"), LIMITS).await.unwrap();
    let log = open(&stores, "t").await;
    assert_eq!(consumer.lag().await.unwrap(), Lag::default());
    append(&stores, "coll", &["1", "2", "3"]).await;
    let records = read(&*consumer, 3).await;
    let lag = consumer.lag().await.unwrap();
    assert_eq!(lag, Lag { records: 3, oldest_ms: Some(records[0].timestamp_ms) });
    let transfers = vec![new_transfer("a", "d", 1), new_transfer("b", "d", 1)];
    let work = IngestWork { transfers, offsets: after(&records), ..IngestWork::default() };
    consumer.commit(work).await.unwrap();
    assert_eq!(consumer.lag().await.unwrap(), Lag::default());
    // Where a transaction ends is an offset too, until it is read: one more in each partition that was written to. But a change is never in no stage.
    let lag = log.lag().await.unwrap().records;
    assert!((2..=4).contains(&lag), "{lag}");
    let lag = soon(async {
        loop {
            match log.lag().await.unwrap() {
                Lag { records: 2, oldest_ms: Some(oldest) } => {
                    break Lag { records: 2, oldest_ms: Some(oldest) };
                }
                more => assert!((2..=4).contains(&more.records), "{more:?}"),
            }
        }
    })
    .await;
    assert!(lag.oldest_ms >= Some(records[0].timestamp_ms));
    let all = read_transfers(&*log, 2).await;
    for transfer in all {
        let sequence = transfer.sequence;
        log.commit([(sequence.partition, sequence.offset + 1)].into()).await.unwrap();
    }
    assert_eq!(log.lag().await.unwrap(), Lag::default());
}

fn dead_letter(record: &SourceRecord, kept: bool) -> DeadLetter {
    DeadLetter {
        position: record.position.clone(),
        timestamp_ms: record.timestamp_ms,
        reason: "not JSON".into(),
        record: kept.then(|| NewRecord {
            topic: record.position.topic.clone(),
            key: record.key.clone(),
            value: record.value.clone(),
            headers: record.headers.clone(),
        }),
    }
}

pub(crate) async fn dead_letters_are_kept_with_their_work(backend: &impl LogBackend) {
    let stores = backend.open().await;
    append(&stores, "coll", &["{", "\u{0}"]).await;
    let consumer = stores.log.source(&stores.group("g"), LIMITS).await.unwrap();
    let records = read(&*consumer, 2).await;
    let letters = vec![dead_letter(&records[0], true), dead_letter(&records[1], false)];
    let work =
        IngestWork { dead_letters: letters.clone(), offsets: after(&records), ..IngestWork::default() };
    consumer.commit(work).await.unwrap();
    stores.close().await;
    let stores = backend.open().await;
    let found = stores.log.dead_letters(0, 10).await.unwrap();
    assert_eq!(found.iter().map(|(_, letter)| letter.clone()).collect::<Vec<_>>(), letters);
    let first = stores.log.dead_letters(0, 1).await.unwrap();
    assert_eq!(first, found[..1]);
    assert_eq!(stores.log.dead_letters(first[0].0, 10).await.unwrap(), found[1..]);
}
