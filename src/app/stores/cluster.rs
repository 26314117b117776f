//! Cluster mode: Kafka, MongoDB, PostgreSQL, Redis.

use std::sync::Arc;

use super::{NotOpen, ResyncStores, RoleBoard, Stores, until_there};
use crate::actors::operational_events::EventRecorder;
use crate::app::own_runtime::OwnRuntime;
use crate::backends::bullmq::{BullMq, BullMqOptions};
use crate::backends::kafka::{self, KafkaEventLog, TellOperator};
use crate::backends::mongo::MongoClientConfigs;
use crate::backends::postgres::{self, Postgres};
use crate::backends::redis::{DecisionCopies, Kicks, Parts, Redis, Restarts, StateCopies};
use crate::domain::replica::ReplicaName;
use crate::metrics::Metrics;
use crate::ports::clock::Clock;
use crate::ports::{BoxFuture, StoreError};
use crate::settings::{Role, Settings, SettingsError};
use crate::web::{Startup, StoreProbe};

pub(super) async fn open(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    metrics: &Metrics,
    startup: &Startup,
    events: EventRecorder,
    here: ReplicaName,
) -> anyhow::Result<Stores> {
    // Connections live on a runtime of their own: an actor that never yields must not hold up everybody's answers.
    let runtime = OwnRuntime::start("stores", 1)?;
    let handle = &runtime.handle();
    let redis = Arc::new(
        Redis::open(&settings.redis_options(), metrics.clone(), handle.clone())
            .map_err(|err| SettingsError::new("redis.url", err.to_string()))?,
    );
    let mongo = Arc::new(
        MongoClientConfigs::open(&settings.mongo_options(), redis.clone(), clock.clone(), handle.clone())
            .map_err(|err| SettingsError::new("mongo.url", err.to_string()))?,
    );
    let options = settings.postgres_options()?;
    let postgres = until_there("postgres", startup, async || {
        Postgres::open(options.clone(), handle.clone()).await.map_err(|err| match err {
            postgres::OpenError::Options(problem) => {
                NotOpen::Wrong(SettingsError::new("postgres", problem).into())
            }
            // Who refuses our login may let us in when its settings, or the secret that both have, are put right.
            postgres::OpenError::Unavailable(why) | postgres::OpenError::Rejected(why) => NotOpen::Away(why),
            other => NotOpen::Wrong(anyhow::Error::new(other).context("postgres")),
        })
    })
    .await?;
    let options = settings.kafka_options();
    let tell: TellOperator = Arc::new(move |event| events.record(event));
    let kafka = until_there("kafka", startup, async || {
        let (options, registry) = (options.clone(), postgres.registry());
        let opened = KafkaEventLog::open(options, registry, clock.clone(), metrics, tell.clone()).await;
        opened.map_err(|err| match err {
            kafka::OpenError::Unavailable(why) => NotOpen::Away(why),
            other => NotOpen::Wrong(anyhow::Error::new(other).context("kafka")),
        })
    })
    .await?;
    let kafka = Arc::new(kafka);
    let decisions = DecisionCopies::new(postgres.decisions(), redis.clone());
    let states = StateCopies::new(postgres.states(), redis.clone());
    Ok(Stores {
        log: kafka.clone(),
        stash: postgres.stash(),
        states: Arc::new(states),
        configs: mongo.clone(),
        decisions: Arc::new(decisions),
        locks: postgres.locks(),
        queues: Arc::new(BullMq::new(BullMqOptions::new(
            settings.queue_url()?,
            &settings.queue.prefix,
            clock,
        ))),
        heavy_jobs: postgres.heavy_jobs(),
        resync: Some(ResyncStores {
            documents: mongo.documents(),
            progress: kafka.source_progress(&settings.source.group),
        }),
        roles: role_board(redis.clone()),
        operational_events: postgres.operational_events(),
        events_topic: Some(kafka.operational_events()?),
        attempts: postgres.attempts(),
        audit: postgres.audit(),
        session_keys: postgres.session_keys(),
        stash_rows: postgres.stash_rows(),
        owner_kicks: Arc::new(Kicks::new(redis.clone())),
        actor_restarts: Arc::new(Restarts::new(redis.clone(), here)),
        dashboard_parts: Some(Arc::new(Parts::new(redis.clone()))),
        configs_in: "mongo",
        probes: probes(&kafka, &mongo, &postgres, &redis),
        housekeeping: Arc::new(|_| Box::pin(async { Ok(0) })),
        close: Box::pin(close(kafka, runtime)),
    })
}

fn role_board(redis: Arc<Redis>) -> RoleBoard {
    let asked = redis.clone();
    RoleBoard {
        tell: Arc::new(move |roles| {
            let redis = redis.clone();
            Box::pin(async move { redis.keep_roles(&roles).await })
        }),
        held: Arc::new(move |()| {
            let redis = asked.clone();
            Box::pin(async move {
                let held = redis.held_roles(&Role::ALL.map(Role::as_str)).await;
                held.map_err(|err| err.to_string())
            })
        }),
    }
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
            Box::pin(async move { kafka.health().await.map_err(StoreError::Unavailable) })
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

async fn close(kafka: Arc<KafkaEventLog>, runtime: OwnRuntime) {
    kafka.close().await;
    drop(runtime);
}
