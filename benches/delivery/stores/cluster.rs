//! Cluster mode: Kafka, Redis, MongoDB and PostgreSQL of the tests, with names of a scenario's own in each of them.

#[path = "../../../tests/services/mod.rs"]
#[expect(clippy::unwrap_used, reason = "shared with the tests")]
mod services;

use std::panic::catch_unwind;

use mongodb::bson::{Bson, DateTime, Document, doc};
use rdkafka::ClientConfig as KafkaConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{FutureProducer, FutureRecord};

use self::services::Service;
use crate::changes::{Change, ClientConfig, EVENT_MS, Writer};
use crate::clock::now_us;

/// Partitions of the source topic.
const PARTITIONS: i32 = 3;

/// Records that are on their way at a time.
const BATCH: usize = 1000;

/// Names in the stores of the cluster, and the producer that stands for Debezium.
pub(crate) struct Names {
    name: String,
    topic: String,
    servers: Servers,
    producer: FutureProducer,
}

/// The servers, started.
struct Servers {
    kafka: &'static Service,
    redis: &'static Service,
    mongo: &'static Service,
    postgres: &'static Service,
}

impl Servers {
    /// Those of this process; the first call starts them and takes some seconds.
    fn started() -> anyhow::Result<Self> {
        let started = catch_unwind(|| Self {
            kafka: services::kafka(),
            redis: services::redis(),
            mongo: services::mongo(),
            postgres: services::postgres(),
        });
        // A test ends when one is missing; the bench still shows what it has.
        started.map_err(|_| anyhow::anyhow!("the servers of cluster mode do not run, see above"))
    }
}

impl Names {
    /// Nobody else's.
    pub(super) async fn fresh() -> anyhow::Result<Self> {
        let servers = Servers::started()?;
        let name = services::unique("bench");
        let topic = format!("{name}.wnx-identity.users");
        let mut config = KafkaConfig::new();
        config.set("bootstrap.servers", servers.kafka.url());
        let admin: AdminClient<DefaultClientContext> = config.create()?;
        let created = NewTopic::new(&topic, PARTITIONS, TopicReplication::Fixed(1));
        for result in admin.create_topics([&created], &AdminOptions::new()).await? {
            result.map_err(|(topic, code)| anyhow::anyhow!("{topic}: {code}"))?;
        }
        // As Connect does: murmur2 of the key, acknowledged by all, in order.
        let producer = config
            .set("partitioner", "murmur2_random")
            .set("enable.idempotence", "true")
            .set("linger.ms", "1")
            .create()?;
        Ok(Self { name, topic, servers, producer })
    }

    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let Servers { kafka, redis, mongo, postgres } = &self.servers;
        let name = &self.name;
        [
            ("DISPATCHER_MODE", "cluster".to_owned()),
            ("DISPATCHER_API_HOST", "127.0.0.1".to_owned()),
            ("DISPATCHER_SOURCE_PREFIX", name.clone()),
            ("DISPATCHER_CONSUMER_GROUP_ID", name.clone()),
            ("DISPATCHER_START", "earliest".to_owned()),
            ("DISPATCHER_TRANSFER_TOPIC", format!("{name}-transfer")),
            ("DISPATCHER_DEAD_TOPIC", format!("{name}-dead")),
            ("DISPATCHER_EVENTS_TOPIC", format!("{name}-events")),
            ("KAFKA_BROKERS", kafka.url().to_owned()),
            ("REDIS_URL", redis.url().to_owned()),
            ("REDIS_PREFIX", name.clone()),
            ("MONGO_URL", mongo.url().to_owned()),
            ("MONGO_PREFIX", name.clone()),
            ("POSTGRES_URL", postgres.url().to_owned()),
            ("POSTGRES_PREFIX", name.clone()),
        ]
        .map(|(variable, value)| (variable.to_owned(), value))
        .to_vec()
    }

    /// Inserts the documents of the platform that configure them.
    pub(super) async fn put_clients(&self, clients: &[ClientConfig]) -> anyhow::Result<()> {
        let mongo = mongodb::Client::with_uri_str(self.servers.mongo.url()).await?;
        let configs = mongo.database(&format!("{}-context", self.name)).collection::<Document>("configs");
        let document = |ClientConfig { id, value }: &ClientConfig| {
            let value: Bson = serde_json::from_value(value.clone())?;
            let updated_at = DateTime::from_millis(EVENT_MS);
            anyhow::Ok(doc! {
                "key": "CQRS", "eid": id, "status": "ACTIVE", "value": value,
                "version": 1, "updated_at": updated_at, "deleted_at": null,
            })
        };
        configs.insert_many(clients.iter().map(document).collect::<Result<Vec<_>, _>>()?).await?;
        Ok(())
    }

    pub(super) async fn load(
        &self,
        writer: &Writer,
        changes: impl Iterator<Item = Change>,
    ) -> anyhow::Result<()> {
        let sent_us = now_us();
        let changes: Vec<(Change, u64)> = changes.map(|change| (change, sent_us)).collect();
        for batch in changes.chunks(BATCH) {
            self.send(writer, batch).await?;
        }
        Ok(())
    }

    /// Produces changes, and waits until they are acknowledged.
    pub(super) async fn send(&self, writer: &Writer, changes: &[(Change, u64)]) -> anyhow::Result<()> {
        let mut sent = Vec::new();
        for (change, due_us) in changes {
            let (key, value) = (writer.key(*change), writer.value(*change, *due_us));
            // Enqueued here and now, so they stay in order.
            let record = FutureRecord::to(&self.topic).key(&key).payload(&value);
            sent.push(self.producer.send_result(record).map_err(|(err, _)| err)?);
        }
        for delivery in sent {
            delivery.await?.map_err(|(err, _)| err)?;
        }
        Ok(())
    }
}
