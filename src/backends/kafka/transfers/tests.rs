use std::time::{Duration, Instant};

use super::*;
use crate::backends::kafka::mock::Mock;
use crate::backends::kafka::producer::Outgoing;
use crate::backends::kafka::record;
use crate::domain::config::ClientId;
use crate::domain::transfer::{
    DocumentHash, EventId, NewTransfer, SourcePosition, TransferKind, partition_of,
};
use crate::ports::StoreError;
use crate::ports::clock::Clock;

/// A change for a client in this partition, as it is produced.
fn transfer(partition: u32, partitions: u32, change: i64) -> Outgoing {
    let mut clients = (0..).map(|number| ClientId::new(&format!("client-{number}")));
    let client = clients.find(|client| partition_of(client, partitions) == partition).unwrap();
    let source = SourcePosition { topic: "mongo.db.coll".into(), partition: 0, offset: change };
    let transfer = NewTransfer {
        document: "db.coll:1".into(),
        document_hash: DocumentHash::of("db", "coll", "1"),
        event_id: EventId::derive(&source, 0, &client),
        client,
        kind: TransferKind::Live,
        source,
        traceparent: None,
        ts_ms: 0,
        body: bytes::Bytes::from_static(b"{}"),
    };
    record::encode(&transfer, &"transfer".into(), partitions)
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("not in time")
}

/// The next change, whatever else is told.
async fn change(consumer: &KafkaTransferConsumer) -> i64 {
    loop {
        if let TransferEvent::Batch { transfers, .. } = soon(consumer.next()).await.unwrap() {
            assert_eq!(transfers.len(), 1);
            return transfers[0].source.offset;
        }
    }
}

/// The place may be asked for while a broker is behind, and be there a moment later: no record is missing, and yet librdkafka reads it no more.
#[tokio::test]
async fn a_partition_that_was_given_up_where_it_can_be_read_is_read_on() {
    let mock = Mock::new(1, 1);
    mock.produce(&[transfer(0, 1, 1)]);
    let consumer = mock.transfers().start().unwrap();
    assert_eq!(change(&consumer).await, 1);
    mock.give_up_once();
    mock.produce(&[transfer(0, 1, 2)]);
    assert_eq!(change(&consumer).await, 2);
    mock.produce(&[transfer(0, 1, 3)]);
    assert_eq!(change(&consumer).await, 3);
    assert!(mock.told.lock().unwrap().is_empty(), "nothing is gone");
}

/// Breaks whoever asks it for the time that permissions are held against.
struct Broken;

impl Clock for Broken {
    fn now_ms(&self) -> i64 {
        0
    }

    fn boot_ms(&self) -> i64 {
        panic!("planted")
    }
}

/// Nobody would ever commit, or be permitted to send, again.
#[tokio::test]
async fn a_consumer_whose_committer_broke_has_ended() {
    let mut mock = Mock::new(1, 1);
    mock.clock = Arc::new(Broken);
    let consumer = mock.transfers().start().unwrap();
    let ended = soon(async {
        loop {
            if let Err(err) = consumer.next().await {
                break err;
            }
        }
    });
    assert!(matches!(ended.await, StoreError::Fenced(_)));
    assert!(matches!(soon(consumer.commit([(0, 1)].into())).await, Err(StoreError::Fenced(_))));
}

/// What is only told to people must not hold up what the permission to send rests on.
#[tokio::test]
async fn commits_go_on_while_a_broker_does_not_tell_where_its_partitions_end() {
    let mock = Mock::new(2, 2);
    mock.cluster.partition_leader("transfer", 0, Some(1)).unwrap();
    mock.cluster.partition_leader("transfer", 1, Some(2)).unwrap();
    let group = rdkafka::mocking::MockCoordinator::Group("t".to_owned());
    mock.cluster.coordinator(group, 1).unwrap();
    mock.produce(&[transfer(0, 2, 1)]);
    let consumer = Arc::new(mock.transfers().start().unwrap());
    assert_eq!(change(&consumer).await, 1);
    assert_eq!(soon(consumer.lag()).await.unwrap().records, 1);

    mock.cluster.broker_round_trip_time(2, Duration::from_secs(20)).unwrap();
    let asks = Arc::clone(&consumer);
    let asking = tokio::spawn(async move {
        let asked = Instant::now();
        let lag = asks.lag().await;
        (lag, asked.elapsed())
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let asked = Instant::now();
    soon(consumer.commit([(0, 1)].into())).await.unwrap();
    assert!(asked.elapsed() < Duration::from_millis(500), "{:?}", asked.elapsed());
    let (lag, took) = asking.await.unwrap();
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(lag.unwrap().records, 0, "as it was known last");
    // The broker is left alone meanwhile, so that nobody who looks waits for it.
    let asked = Instant::now();
    soon(consumer.lag()).await.unwrap();
    assert!(asked.elapsed() < Duration::from_millis(500), "{:?}", asked.elapsed());
}
