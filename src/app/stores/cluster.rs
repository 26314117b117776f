//! Cluster mode: Kafka, MongoDB, PostgreSQL, Redis.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};

use super::{NotOpen, Stores, until_there};
use crate::backends::kafka::{self, KafkaEventLog, KafkaOptions};
use crate::backends::mongo::{MongoClientConfigs, MongoOptions};
use crate::backends::postgres::{self, Postgres, PostgresOptions};
use crate::backends::redis::{Redis, RedisOptions, StateCopies};
use crate::metrics::Metrics;
use crate::ports::clock::Clock;
use crate::ports::{BoxFuture, StoreError};
use crate::settings::{Settings, SettingsError, Start};
use crate::web::{Startup, StoreProbe};

pub(super) async fn open(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    metrics: &Metrics,
    startup: &Startup,
) -> anyhow::Result<Stores> {
    // Connections live on a runtime of their own: an actor that never yields must not hold up everybody's answers.
    let runtime = StoreRuntime::start()?;
    let handle = &runtime.handle();
    let redis = Arc::new(
        Redis::open(&redis_options(settings)?, metrics.clone(), handle.clone())
            .map_err(|err| SettingsError::new("redis.url", err.to_string()))?,
    );
    let mongo = Arc::new(
        MongoClientConfigs::open(&mongo_options(settings)?, redis.clone(), clock.clone(), handle.clone())
            .map_err(|err| SettingsError::new("mongo.url", err.to_string()))?,
    );
    let options = postgres_options(settings)?;
    let postgres = until_there("postgres", startup, async || {
        Postgres::open(options.clone(), handle.clone()).await.map_err(|err| match err {
            postgres::OpenError::Options(problem) => {
                NotOpen::Wrong(SettingsError::new("postgres", problem).into())
            }
            postgres::OpenError::Unavailable(why) => NotOpen::Away(why),
            other => NotOpen::Wrong(anyhow::Error::new(other).context("postgres")),
        })
    })
    .await?;
    let options = kafka_options(settings)?;
    let kafka = until_there("kafka", startup, async || {
        KafkaEventLog::open(options.clone(), postgres.registry(), clock.clone(), metrics.clone())
            .await
            .map_err(|err| match err {
                kafka::OpenError::Unavailable(why) => NotOpen::Away(why),
                other => NotOpen::Wrong(anyhow::Error::new(other).context("kafka")),
            })
    })
    .await?;
    let kafka = Arc::new(kafka);
    let states = StateCopies::new(postgres.states(), redis.clone());
    Ok(Stores {
        log: kafka.clone(),
        stash: postgres.stash(),
        states: Arc::new(states),
        configs: mongo.clone(),
        probes: probes(&kafka, &mongo, &postgres, &redis),
        housekeeping: Arc::new(|_| Box::pin(async { Ok(0) })),
        close: Box::pin(close(kafka, runtime)),
    })
}

fn probes(
    kafka: &Arc<KafkaEventLog>,
    mongo: &Arc<MongoClientConfigs>,
    postgres: &Arc<Postgres>,
    redis: &Arc<Redis>,
) -> Vec<StoreProbe> {
    let (kafka, mongo, postgres, redis) = (kafka.clone(), mongo.clone(), postgres.clone(), redis.clone());
    vec![
        probe("kafka", move || {
            let kafka = kafka.clone();
            Box::pin(async move { kafka.health().await })
        }),
        probe("mongo", move || {
            let mongo = mongo.clone();
            Box::pin(async move { mongo.health().await })
        }),
        probe("postgres", move || {
            let postgres = postgres.clone();
            Box::pin(async move { postgres.health().await.map(drop) })
        }),
        probe("redis", move || {
            let redis = redis.clone();
            Box::pin(async move { redis.health().await })
        }),
    ]
}

fn probe(
    name: &str,
    check: impl Fn() -> BoxFuture<'static, Result<(), StoreError>> + Send + Sync + 'static,
) -> StoreProbe {
    StoreProbe {
        name: name.to_owned(),
        check: Arc::new(move |()| {
            let answer = check();
            Box::pin(async move { answer.await.map_err(|err| err.to_string()) })
        }),
    }
}

async fn close(kafka: Arc<KafkaEventLog>, runtime: StoreRuntime) {
    kafka.close().await;
    drop(runtime);
}

/// The runtime of the connections.
struct StoreRuntime(Option<Runtime>);

impl StoreRuntime {
    fn start() -> std::io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        Ok(Self(Some(builder.worker_threads(1).thread_name("stores").enable_all().build()?)))
    }

    fn handle(&self) -> tokio::runtime::Handle {
        #[expect(clippy::expect_used, reason = "taken by drop alone")]
        self.0.as_ref().expect("the runtime runs").handle().clone()
    }
}

impl Drop for StoreRuntime {
    fn drop(&mut self) {
        // In async code a runtime cannot be waited for. Whoever still wants an answer of it is gone by now.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The settings were checked: what is named here is there.
fn named<T>(value: Option<T>, key: &'static str) -> anyhow::Result<T> {
    value.with_context(|| format!("{key} is not set"))
}

fn kafka_options(settings: &Settings) -> anyhow::Result<KafkaOptions> {
    let kafka = &settings.kafka;
    Ok(KafkaOptions {
        brokers: named(kafka.bootstrap_servers(), "kafka.brokers")?,
        options: kafka.options.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect(),
        source_prefix: settings.source.prefix.clone(),
        transfer_topic: kafka.transfer_topic.clone(),
        dead_topic: kafka.dead_topic.clone(),
        start: match kafka.start {
            Start::Now => kafka::Start::Now,
            Start::Earliest => kafka::Start::Earliest,
            Start::At(ms) => kafka::Start::At(ms),
        },
        partitions: settings.transfer.partitions,
        retention: settings.transfer.retention,
        session_timeout: kafka.session_timeout,
    })
}

fn redis_options(settings: &Settings) -> anyhow::Result<RedisOptions> {
    let redis = &settings.redis;
    Ok(RedisOptions { url: named(redis.url(), "redis.host")?, password: None, prefix: redis.prefix.clone() })
}

fn mongo_options(settings: &Settings) -> anyhow::Result<MongoOptions> {
    let mongo = &settings.mongo;
    Ok(MongoOptions {
        hosts: named(mongo.url(), "mongo.host")?,
        user: None,
        password: None,
        database: None,
        query: None,
        prefix: mongo.prefix.clone(),
    })
}

fn postgres_options(settings: &Settings) -> anyhow::Result<PostgresOptions> {
    let postgres = &settings.postgres;
    Ok(PostgresOptions {
        url: Some(named(postgres.url(), "postgres.host")?),
        prefix: postgres.prefix.clone(),
        pool_size: postgres.pool_size as usize,
        ..PostgresOptions::default()
    })
}
