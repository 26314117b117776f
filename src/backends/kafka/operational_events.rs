//! Operational events for others: JSON, the client as key. Its producer and its thread are its own, so that a topic that nobody may write
//! to holds up nothing else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::admin::AdminClient;
use rdkafka::message::{Header, OwnedHeaders};

use super::options::KafkaOptions;
use super::producer::{Outgoing, Transactions};
use super::topics::{OurTopic, ensure};
use super::watch::Watch;
use super::worker::Worker;
use crate::domain::operational_event::NumberedEvent;
use crate::ports::operational_events::EventTopic;
use crate::ports::{BoxFuture, StoreResult};

/// The events of one transaction are far below this.
const BATCH_BYTES: usize = 1_000_000;

pub(super) struct KafkaEventTopic {
    name: Arc<str>,
    admin: Arc<AdminClient<Watch>>,
    worker: Worker,
    transactions: Arc<Mutex<Transactions>>,
    /// Whether the topic was there when it was last written to.
    is_there: AtomicBool,
}

impl KafkaEventTopic {
    /// Connects, and makes the topic, with the first event.
    pub(super) fn new(
        options: &KafkaOptions,
        admin: Arc<AdminClient<Watch>>,
        watch: Watch,
    ) -> StoreResult<Self> {
        let producer = options.producer("events", BATCH_BYTES);
        let transactions = Transactions::new(producer, options.transaction_timeout(), watch);
        Ok(Self {
            name: options.events_topic.as_str().into(),
            admin,
            worker: Worker::start("kafka-events")?,
            transactions: Arc::new(Mutex::new(transactions)),
            is_there: AtomicBool::new(false),
        })
    }

    async fn write(&self, events: &[NumberedEvent]) -> StoreResult<()> {
        if !self.is_there.load(Ordering::Relaxed) {
            ensure(&self.admin, &self.worker, &OurTopic::operational_events(&self.name)).await?;
        }
        let records: Vec<Outgoing> = events.iter().map(|event| self.record(event)).collect();
        let transactions = Arc::clone(&self.transactions);
        let written = self.worker.run(move || {
            let mut transactions = transactions.lock().unwrap_or_else(PoisonError::into_inner);
            transactions.write(records, None).map(drop)
        });
        let written = written.await;
        self.is_there.store(written.is_ok(), Ordering::Relaxed);
        written
    }

    fn record(&self, numbered: &NumberedEvent) -> Outgoing {
        let client = numbered.event.client.as_ref();
        Outgoing {
            topic: Arc::clone(&self.name),
            partition: None,
            key: client.map(|client| client.as_str().to_owned().into()),
            value: Some(numbered.to_json().to_string().into()),
            headers: OwnedHeaders::new_with_capacity(1).insert(Header { key: "format", value: Some("1") }),
        }
    }
}

impl EventTopic for KafkaEventTopic {
    fn append(&self, events: Vec<NumberedEvent>) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async move { self.write(&events).await })
    }
}
