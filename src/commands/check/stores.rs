//! The four stores of cluster mode, asked side by side.

use std::cell::Cell;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, join_all};
use tokio::time::timeout;

use super::partitions;
use crate::backends::kafka::probe as ask_kafka;
use crate::backends::mongo::probe as ask_mongo;
use crate::backends::postgres::probe as ask_postgres;
use crate::backends::redis::probe as ask_redis;
use crate::ports::findings::{Finding, Findings};
use crate::settings::{Settings, SettingsError};

/// How long the questions to one store may take together.
const LIMIT: Duration = Duration::from_secs(5);

pub(super) async fn look(settings: &Settings) -> Result<Vec<Finding>, SettingsError> {
    let (source, transfers) = (settings.source.group.as_str(), settings.source.transfer_group());
    let kafka = settings.kafka_options();
    let redis = settings.redis_options();
    let mongo = settings.mongo_options();
    let postgres = settings.postgres_options()?;
    let (in_topic, remembered) = (Cell::new(None), Cell::new(None));
    let asked: [LocalBoxFuture<'_, Vec<Finding>>; 4] = [
        bounded(LIMIT, "kafka", async |findings| {
            in_topic.set(ask_kafka(&kafka, &[source, &transfers], findings).await);
        })
        .boxed_local(),
        bounded(LIMIT, "redis", async |findings| ask_redis(&redis, findings).await).boxed_local(),
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
}
