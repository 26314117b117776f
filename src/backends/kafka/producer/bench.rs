//! What a transaction costs, against idempotent production with a commit of its own: time and CPU a record, ours and the broker's.
//!
//! ```text
//! KAFKA_BROKERS=127.0.0.1:9092 BROKER_PID=1234 cargo test --release --lib what_a_transaction_costs -- --ignored --nocapture
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::topic_partition_list::Offset;

use super::*;
use crate::backends::kafka::{KafkaOptions, Start};

const BATCHES: usize = 100;
const RECORD_BYTES: usize = 1_200;
const PARTITIONS: i32 = 12;

fn options() -> KafkaOptions {
    let brokers = std::env::var("KAFKA_BROKERS").expect("KAFKA_BROKERS names a broker");
    KafkaOptions {
        brokers,
        options: BTreeMap::new(),
        source_prefix: "bench".into(),
        transfer_topic: "bench-transfer".into(),
        dead_topic: "bench-dead".into(),
        events_topic: "bench-events".into(),
        start: Start::Now,
        partitions: 12,
        retention: Duration::from_secs(3600),
        session_timeout: Duration::from_secs(10),
    }
}

fn batch(records: usize, topic: &Arc<str>) -> Vec<Outgoing> {
    let record = |number: usize| Outgoing {
        topic: topic.clone(),
        partition: Some(number as i32 % PARTITIONS),
        key: Some(format!("client-{number}").into()),
        value: Some(std::iter::repeat_with(|| fastrand::alphanumeric() as u8).take(RECORD_BYTES).collect()),
        headers: OwnedHeaders::new(),
    };
    (0..records).map(record).collect()
}

/// CPU time of a process in milliseconds; of threads that live.
fn cpu_ms(process: &str) -> u64 {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return 0 };
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    // In ticks of 10 ms.
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap_or(0) * 10).sum()
}

fn measure(what: &str, records: usize, mut write: impl FnMut(Vec<Outgoing>), topic: &Arc<str>) {
    let broker = std::env::var("BROKER_PID").unwrap_or_default();
    write(batch(records, topic));
    let batches: Vec<_> = (0..BATCHES).map(|_| batch(records, topic)).collect();
    let before = (Instant::now(), cpu_ms("self"), cpu_ms(&broker));
    batches.into_iter().for_each(write);
    let per_batch = before.0.elapsed().as_secs_f64() * 1e3 / BATCHES as f64;
    let per_record = |ms: u64| ms as f64 * 1e3 / (BATCHES * records) as f64;
    println!(
        "{what:>12} of {records:>4}: {per_batch:7.2} ms a batch, {:8.0} records/s, CPU a record {:5.1} us here, {:5.1} us broker",
        records as f64 * 1e3 / per_batch,
        per_record(cpu_ms("self") - before.1),
        per_record(cpu_ms(&broker) - before.2),
    );
}

#[test]
#[ignore = "a measurement: needs KAFKA_BROKERS"]
fn what_a_transaction_costs() {
    let options = options();
    let topic: Arc<str> = format!("bench-{}", fastrand::u64(..)).into();
    let admin: AdminClient<DefaultClientContext> =
        rdkafka::ClientConfig::new().set("bootstrap.servers", &options.brokers).create().unwrap();
    let new = NewTopic::new(&topic, PARTITIONS, TopicReplication::Fixed(1));
    let made = AdminOptions::new().operation_timeout(Some(Duration::from_secs(10)));
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(admin.create_topics([&new], &made))
        .unwrap();

    let mut config = options.reader();
    let group: BaseConsumer = config.set("group.id", &*topic).create().unwrap();
    let mut next = 0;
    let mut offsets = |group: &BaseConsumer| {
        next += 1;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&topic, 0, Offset::Offset(next)).unwrap();
        GroupOffsets { next: list, member: group.group_metadata().unwrap() }
    };
    let mut plain = options.producer("bench", usize::MAX);
    plain.remove("transactional.id").remove("transaction.timeout.ms");
    let plain: ThreadedProducer<Reports> = plain.create_with_context(Reports(Watch::default())).unwrap();
    let mut transactions = Transactions::new(
        options.producer("bench", usize::MAX),
        options.transaction_timeout(),
        Watch::default(),
    );
    for records in [1, 10, 100, 1_000] {
        let committed = |records| {
            transactions.write(records, Some(&offsets(&group))).unwrap();
        };
        measure("transaction", records, committed, &topic);
        let deadline = Instant::now() + Duration::from_secs(600);
        let sent = |records: Vec<Outgoing>| {
            let flight = Arc::new(Flight::of(records.len()));
            for (index, record) in records.into_iter().enumerate() {
                send(&plain, &flight, index, record, deadline).unwrap();
            }
            flight.landed(deadline).unwrap();
            group.commit(&offsets(&group).next, CommitMode::Sync).unwrap();
        };
        measure("idempotent", records, sent, &topic);
    }
}
