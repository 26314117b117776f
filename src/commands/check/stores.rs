//! The four stores of cluster mode, and the queues in one of them, asked side by side.

use std::cell::Cell;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, join_all};
use tokio::time::timeout;

use super::{partitions, roles};
use crate::backends::bullmq::probe as ask_queues;
use crate::backends::kafka::probe as ask_kafka;
use crate::backends::mongo::probe as ask_mongo;
use crate::backends::postgres::probe as ask_postgres;
use crate::backends::redis::probe as ask_redis;
use crate::ports::findings::{Finding, Findings};
use crate::settings::{Role, Settings, SettingsError};
use crate::workers::QueueSet as _;
use crate::workers::queues::Queue;

/// How long the questions to one store may take together: more than each of them alone, which has its own limit of 3 to 10 s.
const LIMIT: Duration = Duration::from_secs(40);

pub(super) async fn look(settings: &Settings) -> Result<Vec<Finding>, SettingsError> {
    let (source, transfers) = (settings.source.group.as_str(), settings.source.transfer_group());
    let kafka = settings.kafka_options();
    let redis = settings.redis_options();
    let mongo = settings.mongo_options();
    let postgres = settings.postgres_options()?;
    let queue_url = settings.queue_url()?;
    let names = Queue::ALL.iter().map(|queue| queue.spec().name).collect::<Vec<_>>();
    let (in_topic, remembered, held) = (Cell::new(None), Cell::new(None), Cell::new(None));
    let asked: [LocalBoxFuture<'_, Vec<Finding>>; 5] = [
        bounded(LIMIT, "kafka", async |findings| {
            in_topic.set(ask_kafka(&kafka, &[source, &transfers], findings).await);
        })
        .boxed_local(),
        bounded(LIMIT, "redis", async |findings| {
            held.set(ask_redis(&redis, &Role::ALL.map(Role::as_str), findings).await);
        })
        .boxed_local(),
        bounded(LIMIT, "queues", async |findings| {
            ask_queues(&queue_url, &settings.queue.prefix, &names, findings).await;
        })
        .boxed_local(),
        bounded(LIMIT, "mongo", async |findings| ask_mongo(&mongo, findings).await).boxed_local(),
        bounded(LIMIT, "postgres", async |findings| {
            remembered.set(ask_postgres(&postgres, &kafka.transfer_topic, findings).await);
        })
        .boxed_local(),
    ];
    let mut findings = join_all(asked).await.concat();
    let mut log = Findings::of("transfer log");
    partitions::judge(kafka.partitions, in_topic.get(), remembered.get(), &mut log);
    findings.extend(log.into_list());
    let mut replicas = Findings::of("replicas");
    roles::judge(&settings.roles, held.take().as_deref(), &mut replicas);
    findings.extend(replicas.into_list());
    Ok(findings)
}

/// Asks one dependency. What it said before it fell silent is kept.
async fn bounded(
    limit: Duration,
    dependency: &'static str,
    ask: impl AsyncFnOnce(&mut Findings),
) -> Vec<Finding> {
    let mut findings = Findings::of(dependency);
    if timeout(limit, ask(&mut findings)).await.is_err() {
        let found = format!("not done within {}", humantime::format_duration(limit));
        findings.fault("time", found, "see what holds it up: the network, its load, a lock");
    }
    findings.into_list()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::findings::Outcome;

    #[actix_rt::test]
    async fn who_falls_silent_is_a_fault_beside_what_it_said() {
        let findings = bounded(Duration::from_millis(1), "x", async |findings| {
            findings.ok("connection", "answers");
            std::future::pending().await
        })
        .await;
        let outcomes: Vec<_> = findings.iter().map(|finding| (finding.check, finding.outcome)).collect();
        assert_eq!(outcomes, [("connection", Outcome::Ok), ("time", Outcome::Fault)]);
    }

    /// The brokers are asked nine things, and may be slow in each.
    #[tokio::test(start_paused = true)]
    async fn many_slow_answers_are_no_silence() {
        let findings = bounded(LIMIT, "x", async |findings| {
            for seconds in [3, 3, 3, 3, 3, 3, 3, 10] {
                tokio::time::sleep(Duration::from_secs(seconds) - Duration::from_millis(1)).await;
                findings.ok("connection", "answers");
            }
        });
        let findings = findings.await;
        assert!(findings.iter().all(|finding| finding.outcome == Outcome::Ok), "{findings:?}");
    }
}
