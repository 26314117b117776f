//! What Kafka alone has: several members, revoked and lost partitions, transactions, topics that others make, brokers that go away.

mod members;
mod outages;
mod progress;
mod records;
mod registry;
mod topics;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dispatcher::backends::kafka::{KafkaEventLog, KafkaOptions, OpenError, Start};
use dispatcher::domain::change_event::SourceRecord;
use dispatcher::domain::operational_event::OperationalEvent;
use dispatcher::domain::transfer::Transfer;
use dispatcher::metrics::Metrics;
use dispatcher::ports::BoxFuture;
use dispatcher::ports::clock::SystemClock;
use dispatcher::ports::event_log::{
    BatchLimits, EventLog, IngestWork, NewRecord, SourceConsumer, TransferConsumer, TransferEvent,
};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;

use self::registry::Registry;
use crate::fixture::soon;
use crate::log_backend::{LogBackend, OpenLog};
use crate::services;

pub(super) const LIMITS: BatchLimits = BatchLimits { records: 100, bytes: 1 << 20 };

/// Topics and groups of one test on a broker, and the registry that its logs share.
pub(crate) struct KafkaBackend {
    pub(crate) options: KafkaOptions,
    pub(crate) registry: Arc<Registry>,
    pub(crate) metrics: Metrics,
    /// What the operator was told of.
    pub(crate) told: Arc<Mutex<Vec<OperationalEvent>>>,
}

impl KafkaBackend {
    /// On the broker of all tests.
    pub(crate) fn new() -> Self {
        let kafka = services::kafka();
        Self::at(format!("{}:{}", kafka.host(), kafka.port()))
    }

    pub(crate) fn at(brokers: String) -> Self {
        let names = services::unique("contract");
        let options = KafkaOptions {
            brokers,
            options: BTreeMap::new(),
            transfer_topic: format!("{names}-transfer"),
            dead_topic: format!("{names}-dead"),
            events_topic: format!("{names}-events"),
            source_prefix: names,
            start: Start::Earliest,
            partitions: 12,
            retention: Duration::from_secs(3600),
            session_timeout: Duration::from_secs(6),
        };
        Self { options, registry: Arc::default(), metrics: Metrics::new(), told: Arc::default() }
    }

    /// Opens the log as one replica.
    pub(crate) async fn replica(&self) -> Result<KafkaEventLog, OpenError> {
        self.replica_at(&self.options.brokers).await
    }

    /// One that comes in by another way.
    pub(crate) async fn replica_at(&self, brokers: &str) -> Result<KafkaEventLog, OpenError> {
        let options = KafkaOptions { brokers: brokers.to_owned(), ..self.options.clone() };
        let told = self.told.clone();
        let tell = Arc::new(move |event| told.lock().unwrap().push(event));
        KafkaEventLog::open(options, self.registry.clone(), Arc::new(SystemClock), &self.metrics, tell).await
    }

    pub(super) fn topic(&self, collection: &str) -> String {
        format!("{}.db.{collection}", self.options.source_prefix)
    }

    pub(super) fn group(&self, name: &str) -> String {
        format!("{}-{name}", self.options.source_prefix)
    }

    pub(super) fn admin(&self) -> AdminClient<DefaultClientContext> {
        ClientConfig::new().set("bootstrap.servers", &self.options.brokers).create().unwrap()
    }

    pub(super) async fn create_topic(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        for (key, value) in settings {
            topic = topic.set(key, value);
        }
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(10)));
        for result in self.admin().create_topics([&topic], &options).await.unwrap() {
            result.unwrap();
        }
    }

    pub(super) fn gaps(&self, stream: &str) -> u64 {
        self.metrics.gaps.with_label_values(&[stream]).get()
    }
}

impl LogBackend for KafkaBackend {
    fn open(&self) -> BoxFuture<'_, OpenLog> {
        Box::pin(async {
            let log = Arc::new(self.replica().await.unwrap());
            OpenLog {
                log: log.clone(),
                names: self.options.source_prefix.clone(),
                quiet: Duration::from_millis(1_500),
                close: Box::pin(async move { log.close().await }),
            }
        })
    }
}

/// A record of a topic.
pub(super) fn record(topic: &str, value: &str) -> NewRecord {
    NewRecord {
        topic: topic.into(),
        key: Some(value.to_owned().into()),
        value: Some(value.to_owned().into()),
        headers: Vec::new(),
    }
}

pub(super) async fn append(log: &impl EventLog, topic: &str, values: &[&str]) {
    log.append(values.iter().map(|value| record(topic, value)).collect()).await.unwrap();
}

pub(super) fn values(records: &[SourceRecord]) -> Vec<&str> {
    records.iter().map(|record| std::str::from_utf8(record.value.as_ref().unwrap()).unwrap()).collect()
}

/// Work that has no transfers, on these records.
pub(super) fn work(records: &[SourceRecord]) -> IngestWork {
    let next = |record: &SourceRecord| {
        let position = record.position.clone();
        ((position.topic, position.partition), position.offset + 1)
    };
    IngestWork { offsets: records.iter().map(next).collect(), ..IngestWork::default() }
}

/// Reads this many records, however they are divided.
pub(super) async fn read(consumer: &dyn SourceConsumer, count: usize) -> Vec<SourceRecord> {
    let mut records = Vec::new();
    while records.len() < count {
        records.extend(soon(consumer.next()).await.unwrap());
    }
    records
}

/// Transfers that come next, whatever else is told.
pub(super) async fn transfers(consumer: &dyn TransferConsumer, count: usize) -> Vec<Arc<Transfer>> {
    let mut all = Vec::new();
    while all.len() < count {
        if let TransferEvent::Batch { transfers, .. } = soon(consumer.next()).await.unwrap() {
            all.extend(transfers);
        }
    }
    all
}

/// Whether nothing comes of it for a while.
pub(super) async fn quiet<T>(future: impl Future<Output = T>) -> bool {
    tokio::time::timeout(Duration::from_millis(1_500), future).await.is_err()
}

/// Waits until this holds.
pub(super) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waited)
        .await
        .unwrap_or_else(|_| panic!("not in a minute: {what}"));
}
