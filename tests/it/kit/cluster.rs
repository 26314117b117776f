//! Cluster mode around the service: real Kafka, MongoDB, PostgreSQL and Redis, with names of their own for each test.

use std::cell::OnceCell;
use std::time::Duration;

use mongodb::bson::doc;
use rdkafka::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};
use serde_json::{Value, json};

use super::service::{Builder, Service};
use super::turn::Turn;
use crate::services::{self, Kind, Proxy, Service as Store};

/// The stores of one test.
pub(crate) struct Cluster {
    pub(crate) kafka: Handle,
    pub(crate) redis: Handle,
    pub(crate) mongo: Handle,
    pub(crate) postgres: Handle,
    name: String,
    environment: Vec<(String, String)>,
    producer: OnceCell<FutureProducer>,
}

/// A store: everybody's, or this test's alone.
pub(crate) enum Handle {
    Shared(&'static Store),
    Own(Store),
}

impl std::ops::Deref for Handle {
    type Target = Store;

    fn deref(&self) -> &Store {
        match self {
            Self::Shared(store) => store,
            Self::Own(store) => store,
        }
    }
}

impl Cluster {
    /// On the stores of all tests, with names that no other test has.
    pub(crate) fn shared(test: &str) -> Self {
        let store = Handle::Shared;
        Self::on(
            test,
            [
                store(services::kafka()),
                store(services::redis()),
                store(services::mongo()),
                store(services::postgres()),
            ],
        )
    }

    /// On stores of its own: the test may stop them.
    pub(crate) fn own(test: &str) -> Self {
        let own = Handle::Own;
        Self::on(
            test,
            [
                own(services::own_kafka()),
                own(services::own_redis()),
                own(services::own_mongo()),
                own(services::own_postgres()),
            ],
        )
    }

    /// On the stores of all tests but Kafka: that is this test's own, with a wire to it that can be cut. Clients that begin at the
    /// wire's port stay behind it.
    pub(crate) fn behind_a_wire(test: &str) -> (Self, Proxy) {
        let (kafka, wire) = services::own_kafka_behind_proxy();
        (Self { kafka: Handle::Own(kafka), ..Self::shared(test) }, wire)
    }

    /// On the stores of all tests but Redis, which is this test's own.
    pub(crate) fn with_own_redis(test: &str) -> Self {
        Self { redis: Handle::Own(services::own_redis()), ..Self::shared(test) }
    }

    /// On the stores of all tests but this one, which asks for [`PASSWORD`](services::PASSWORD).
    pub(crate) fn with_password(test: &str, kind: Kind) -> Self {
        let store = Handle::Own(services::own_with_password(kind));
        let shared = Self::shared(test);
        match kind {
            Kind::Kafka => Self { kafka: store, ..shared },
            Kind::Mongo => Self { mongo: store, ..shared },
            Kind::Postgres => Self { postgres: store, ..shared },
            Kind::Redis => Self { redis: store, ..shared },
        }
    }

    /// Its store of a kind.
    pub(crate) fn store(&self, kind: Kind) -> &Store {
        match kind {
            Kind::Kafka => &self.kafka,
            Kind::Mongo => &self.mongo,
            Kind::Postgres => &self.postgres,
            Kind::Redis => &self.redis,
        }
    }

    fn on(test: &str, [kafka, redis, mongo, postgres]: [Handle; 4]) -> Self {
        let name = services::unique(test);
        Self { kafka, redis, mongo, postgres, name, environment: Vec::new(), producer: OnceCell::new() }
    }

    /// Sets an environment variable of all replicas that are made from now on.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// One more replica, beside those of other tests. Not started yet.
    pub(crate) fn replica(&self) -> Builder {
        self.add_environment(Service::shared())
    }

    /// A replica in a turn that the test holds.
    pub(crate) fn replica_in(&self, turn: &Turn) -> Builder {
        self.add_environment(Service::within(turn))
    }

    fn add_environment(&self, mut builder: Builder) -> Builder {
        for (variable, value) in self.environment() {
            builder = builder.env(&variable, &value);
        }
        builder
    }

    /// The environment of a replica.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let address = |store: &Store| format!("{}:{}", store.host(), store.port());
        let name = &self.name;
        let environment = [
            ("DISPATCHER_MODE", "cluster".to_owned()),
            ("DISPATCHER_API_HOST", "127.0.0.1".to_owned()),
            ("DISPATCHER_START", "earliest".to_owned()),
            ("DISPATCHER_SOURCE_PREFIX", name.clone()),
            ("DISPATCHER_TRANSFER_TOPIC", self.transfer_topic()),
            ("DISPATCHER_DEAD_TOPIC", format!("dead-{name}")),
            ("DISPATCHER_EVENTS_TOPIC", self.events_topic()),
            ("DISPATCHER_CONSUMER_GROUP_ID", name.clone()),
            ("KAFKA_BROKERS", address(&self.kafka)),
            ("REDIS_HOST", self.redis.host().to_owned()),
            ("REDIS_PORT", self.redis.port().to_string()),
            ("REDIS_PREFIX", name.clone()),
            ("DISPATCHER_QUEUE_PREFIX", self.queue_prefix()),
            ("MONGO_HOST", address(&self.mongo)),
            ("MONGO_PREFIX", name.clone()),
            ("POSTGRES_HOST", self.postgres.host().to_owned()),
            ("POSTGRES_PORT", self.postgres.port().to_string()),
            ("POSTGRES_USER", "postgres".to_owned()),
            ("POSTGRES_DB", "postgres".to_owned()),
            ("POSTGRES_PREFIX", format!("{}_", name.replace('-', "_"))),
        ];
        let environment = environment.map(|(variable, value)| (variable.to_owned(), value));
        environment.into_iter().chain(self.environment.iter().cloned()).collect()
    }

    /// The clients' configs, as the platform itself writes them.
    pub(crate) async fn configs(&self) -> mongodb::Collection<mongodb::bson::Document> {
        let client = mongodb::Client::with_uri_str(self.mongo.url()).await.unwrap();
        client.database(&format!("{}-context", self.name)).collection("configs")
    }

    /// Writes a config as the platform does, and Debezium after it.
    pub(crate) async fn write_config(&self, document: &mongodb::bson::Document) {
        let id = document.get("_id").unwrap();
        let replaced = self.configs().await.replace_one(doc! { "_id": id }, document).upsert(true).await;
        replaced.unwrap();
        let (db, now_ms) = (format!("{}-context", self.name), chrono::Utc::now().timestamp_millis());
        let source = json!({ "name": "mongo", "db": db, "collection": "configs", "ts_ms": now_ms });
        let after = serde_json::to_string(document).unwrap();
        let value = json!({ "op": "u", "ts_ms": now_ms, "before": null, "after": after, "source": source });
        let key = json!({ "id": serde_json::to_string(id).unwrap() });
        let topic = format!("mongo.{db}.configs");
        self.produce(&[json!({ "topic": topic, "key": key.to_string(), "value": value.to_string() })]).await;
    }

    /// What keys of queues in Redis begin with.
    pub(crate) fn queue_prefix(&self) -> String {
        format!("bull-{}", self.name)
    }

    /// What keys in Redis begin with.
    pub(crate) fn redis_prefix(&self) -> &str {
        &self.name
    }

    /// Where transfers go.
    pub(crate) fn transfer_topic(&self) -> String {
        format!("transfer-{}", self.name)
    }

    /// Where operational events go.
    pub(crate) fn events_topic(&self) -> String {
        format!("events-{}", self.name)
    }

    /// The topic of a collection, `<db>.<collection>`.
    pub(crate) fn topic(&self, collection: &str) -> String {
        format!("{}.{collection}", self.name)
    }

    /// The records as this cluster's source has them: their topics have its prefix.
    pub(crate) fn records(&self, records: &[Value]) -> Vec<Value> {
        let renamed = |record: &Value| {
            let mut record = record.clone();
            let topic = record["topic"].as_str().expect("a record has a topic");
            let (_, collection) = topic.split_once('.').expect("a topic has a prefix");
            record["topic"] = self.topic(collection).into();
            record
        };
        records.iter().map(renamed).collect()
    }

    /// Writes records to Kafka as Connect does: same keys, same partitioner.
    pub(crate) async fn produce(&self, records: &[Value]) {
        let producer = self.producer();
        let records = self.records(records);
        let sent = records.iter().map(|record| {
            let text = |name: &str| record[name].as_str().map(str::to_owned);
            let (topic, key, value) = (text("topic").unwrap(), text("key"), text("value"));
            async move {
                let mut record = FutureRecord::<String, String>::to(&topic);
                record.key = key.as_ref();
                record.payload = value.as_ref();
                producer.send(record, Duration::from_secs(30)).await.map_err(|(err, _)| err)
            }
        });
        for sent in futures_util::future::join_all(sent).await {
            sent.expect("the record is written");
        }
    }

    /// A producer that partitions as Java does. Made once: a new one takes a second.
    pub(crate) fn producer(&self) -> &FutureProducer {
        self.producer.get_or_init(|| {
            ClientConfig::new()
                .set("bootstrap.servers", format!("{}:{}", self.kafka.host(), self.kafka.port()))
                .set("partitioner", "murmur2_random")
                .set("enable.idempotence", "true")
                .set("linger.ms", "5")
                .set("message.max.bytes", "33554432")
                .create()
                .unwrap()
        })
    }
}
