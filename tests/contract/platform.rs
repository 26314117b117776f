//! The platform's MongoDB and Redis, under names of a test's own.

use std::sync::Arc;

use dispatcher::backends::mongo::{MongoClientConfigs, MongoOptions};
use dispatcher::backends::redis::{Redis, RedisOptions, StateCopies};
use dispatcher::domain::config::Secret;
use dispatcher::metrics::Metrics;
use dispatcher::ports::BoxFuture;
use dispatcher::ports::client_configs::{ClientConfigs, ConfigHint};
use dispatcher::ports::clock::SystemClock;
use mongodb::bson::{Document, doc};
use mongodb::{Client, Collection};
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;

use crate::fixture::{Backend, EmbeddedBackend, Stores};
use crate::services::{self, Service, unique};

/// Where a test's configs are.
pub(crate) struct Platform {
    pub(crate) prefix: String,
    mongo: String,
    redis: String,
}

/// One process of the service, as far as it has to do with configs.
pub(crate) struct Replica {
    pub(crate) configs: MongoClientConfigs,
    pub(crate) redis: Arc<Redis>,
    pub(crate) metrics: Metrics,
}

impl Platform {
    /// On the services that all tests share.
    pub(crate) async fn new() -> Self {
        let urls = || (services::mongo().url().to_owned(), services::redis().url().to_owned());
        let (mongo, redis) = tokio::task::spawn_blocking(urls).await.unwrap();
        Self { prefix: unique("p"), mongo, redis }
    }

    pub(crate) fn with_redis(self, redis: &Service) -> Self {
        Self { redis: redis.url().to_owned(), ..self }
    }

    pub(crate) fn with_mongo(self, mongo: &Service) -> Self {
        Self { mongo: mongo.url().to_owned(), ..self }
    }

    pub(crate) fn redis_options(&self) -> RedisOptions {
        RedisOptions { url: Secret::new(&self.redis), password: None, prefix: self.prefix.clone() }
    }

    pub(crate) fn redis(&self, metrics: &Metrics) -> Arc<Redis> {
        Arc::new(Redis::open(&self.redis_options(), metrics.clone(), Handle::current()).unwrap())
    }

    pub(crate) fn mongo_options(&self) -> MongoOptions {
        MongoOptions {
            hosts: Secret::new(&self.mongo),
            user: None,
            password: None,
            database: None,
            query: None,
            prefix: self.prefix.clone(),
        }
    }

    /// A replica that has just started.
    pub(crate) fn replica(&self) -> Replica {
        self.replica_with(&self.mongo_options())
    }

    pub(crate) fn replica_with(&self, options: &MongoOptions) -> Replica {
        let metrics = Metrics::new();
        let redis = self.redis(&metrics);
        let configs =
            MongoClientConfigs::open(options, redis.clone(), Arc::new(SystemClock), Handle::current());
        Replica { configs: configs.unwrap(), redis, metrics }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::with_uri_str(&self.mongo).await.unwrap()
    }

    /// The configs, as the platform itself writes them.
    pub(crate) async fn documents(&self) -> Collection<Document> {
        self.client().await.database(&format!("{}-context", self.prefix)).collection("configs")
    }

    /// Redis itself.
    pub(crate) async fn keys(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.redis.as_str()).unwrap();
        client.get_multiplexed_async_connection().await.unwrap()
    }
}

/// A hint that names a document only.
pub(crate) fn hint(document_id: &str, document: Option<&Document>) -> ConfigHint {
    ConfigHint {
        document_id: document_id.to_owned(),
        document: document.map(|document| serde_json::to_string(document).unwrap()),
        removed: false,
        ts_ms: 0,
    }
}

/// Configs in MongoDB, client states with copies in Redis, the rest embedded.
pub(crate) struct PlatformBackend {
    prefix: String,
    embedded: EmbeddedBackend,
}

impl PlatformBackend {
    pub(crate) fn new() -> Self {
        Self { prefix: unique("p"), embedded: EmbeddedBackend::new() }
    }
}

impl Backend for PlatformBackend {
    fn open(&self) -> BoxFuture<'_, Stores> {
        Box::pin(async {
            let platform = Platform { prefix: self.prefix.clone(), ..Platform::new().await };
            let Replica { configs, redis, .. } = platform.replica();
            let stores = self.embedded.open().await;
            let states = Arc::new(StateCopies::new(stores.states.clone(), redis));
            stores.with(Arc::new(configs) as Arc<dyn ClientConfigs>, states)
        })
    }
}

/// A config document of the platform.
pub(crate) fn document(id: &str, eid: &str, version: i32, webhook: &str) -> Document {
    let updated_at = mongodb::bson::DateTime::from_millis(1_764_435_600_000 + i64::from(version));
    doc! {
        "_id": id, "owner": "64e0c0de00000000000000a1", "clients": [eid], "updated_at": updated_at,
        "deleted_at": null, "version": version, "key": "CQRS", "eid": eid, "status": "ACTIVE",
        "value": { "webhook": webhook, "authorization": "Bearer hunter2" },
    }
}
