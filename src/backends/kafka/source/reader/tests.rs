use std::time::Duration;

use super::*;
use crate::backends::kafka::mock::{Mock, plain};
use crate::backends::kafka::offsets::Begin;
use crate::ports::event_log::SourceConsumer;

const TOPIC: &str = "mongo.db.coll";

async fn values(consumer: &dyn SourceConsumer) -> Vec<String> {
    let read = tokio::time::timeout(Duration::from_secs(30), consumer.next());
    let records = read.await.expect("nothing is read").unwrap();
    let text = |record: SourceRecord| String::from_utf8(record.value.unwrap().to_vec()).unwrap();
    records.into_iter().map(text).collect()
}

/// The place may be asked for while a broker is behind, and be there a moment later: no record is missing, and yet librdkafka reads it no more.
#[tokio::test]
async fn a_partition_that_was_given_up_where_it_can_be_read_is_read_on() {
    let mock = Mock::new(1, 1);
    mock.cluster.create_topic(TOPIC, 1, 1).unwrap();
    mock.produce(&[plain(TOPIC, "1")]);
    let consumer = mock.source().start().unwrap();
    assert_eq!(values(&consumer).await, ["1"]);
    mock.give_up_once();
    mock.produce(&[plain(TOPIC, "2")]);
    assert_eq!(values(&consumer).await, ["2"]);
    mock.produce(&[plain(TOPIC, "3")]);
    assert_eq!(values(&consumer).await, ["3"]);
    assert!(mock.told.lock().unwrap().is_empty(), "nothing is gone");
}

/// It would be taken for the answer, so nothing is done; and whoever asked must know that nothing was.
#[test]
fn what_cannot_be_read_again_now_is_not_taken_for_read_again() {
    let mock = Mock::new(1, 1);
    let reader = mock.source();
    let consumer: BaseConsumer<Member> = reader.config.create_with_context(reader.member.clone()).unwrap();
    let mut running = reader.running(consumer, mpsc::channel().1, Arc::default());
    let begins = [((TOPIC.into(), 0), Begin { from: 3, gap: None })].into();
    running.assigning = Some(TopicPartitionList::new());
    assert!(matches!(running.read_again(&begins), Err(StoreError::Unavailable(_))));
    assert_eq!(running.read_again(&[].into()), Ok(()));
}
