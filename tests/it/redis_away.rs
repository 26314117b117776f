//! Redis as the home of the queues: whatever becomes of it, the workers of the service are back within two seconds; and what it loses is there
//! again within a minute, but for what was never only there.

use std::time::{Duration, Instant};

use mongodb::bson::{DateTime, doc};
use serde_json::{Value, json};

use crate::kit::api::Api;
use crate::kit::cluster::Cluster;
use crate::kit::events::Document;
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::service::{run, text};
use crate::kit::turn::Turn;
use crate::kit::wait::{eventually, holds};

const SOON: Duration = Duration::from_secs(30);
/// Of workers, after Redis.
const BACK: Duration = Duration::from_secs(2);
/// Of jobs and schedules, after Redis was emptied.
const REBUILT: Duration = Duration::from_secs(60);
const SCHEDULE: &str = "dispatcher-schedule";
const OWNER: &str = "64e0c0de00000000000000b7";

/// Redis goes, and comes back.
struct Outage {
    name: &'static str,
    go: fn(&Cluster),
    come: fn(&Cluster),
}

fn ask(cluster: &Cluster, words: &[&str]) {
    let mut redis = redis::Client::open(cluster.redis.url()).unwrap().get_connection().unwrap();
    redis::cmd(words[0]).arg(&words[1..]).exec(&mut redis).unwrap();
}

const OUTAGES: [Outage; 4] = [
    Outage {
        name: "killed",
        go: |cluster| cluster.redis.kill(),
        come: |cluster| cluster.redis.start_again(),
    },
    Outage {
        name: "a replica of nobody",
        go: |cluster| ask(cluster, &["REPLICAOF", "127.0.0.1", "1"]),
        come: |cluster| ask(cluster, &["REPLICAOF", "NO", "ONE"]),
    },
    Outage {
        name: "without its replicas",
        go: |cluster| ask(cluster, &["CONFIG", "SET", "min-replicas-to-write", "1"]),
        come: |cluster| ask(cluster, &["CONFIG", "SET", "min-replicas-to-write", "0"]),
    },
    Outage { name: "stopped", go: |cluster| cluster.redis.freeze(), come: |cluster| cluster.redis.thaw() },
];

/// The job that the clock will start next.
async fn next_job(api: &Api) -> Result<String, String> {
    let jobs = api.get(&format!("/v1/queues/{SCHEDULE}/jobs?state=delayed")).await?;
    let listed: Value = serde_json::from_slice(&jobs.body).map_err(|_| jobs.text())?;
    let jobs = listed["jobs"].as_array().cloned().unwrap_or_default();
    let next = jobs.iter().find(|job| job["name"] == "reconcile-configs");
    next.map(|job| job["id"].as_str().unwrap().to_owned()).ok_or_else(|| listed.to_string())
}

async fn reconciled(api: &Api) -> f64 {
    let labels = [("job", "reconcile-configs"), ("outcome", "completed")];
    api.metrics().await.sum("jobs_total", &labels)
}

/// Promotes the next job of the clock: it is acknowledged.
async fn promote_next(api: &Api) {
    eventually("a job to be promoted", SOON, async || {
        let id = next_job(api).await?;
        let path = format!("/v1/queues/{SCHEDULE}/jobs/{id}/promote");
        let reply = api.post(&path, &Value::Null).await?;
        holds(reply.status < 300, || reply.text())
    })
    .await;
}

#[actix_web::test]
async fn the_workers_are_back_within_two_seconds_whatever_becomes_of_redis() {
    let turn = Turn::alone();
    let cluster = Cluster::with_own_redis("redisaway");
    let service = cluster.replica_in(&turn).start().await;
    let api = service.api();
    api.wait_for_metric("jobs_total", &[("job", "reconcile-configs")], 1.0, SOON).await;
    for Outage { name, go, come } in OUTAGES {
        let before = reconciled(api).await;
        promote_next(api).await;
        go(&cluster);
        // Long enough that connections are given up.
        tokio::time::sleep(Duration::from_secs(4)).await;
        come(&cluster);
        let back = Instant::now();
        promote_next(api).await;
        eventually("both promoted jobs to be done", SOON, async || {
            let done = reconciled(api).await - before;
            holds(done >= 2.0, || format!("{name}: {done} are done"))
        })
        .await;
        println!("Redis {name}: jobs are done {:?} after it was back", back.elapsed());
        assert!(back.elapsed() < BACK, "Redis {name}: {:?}", back.elapsed());
    }
}

async fn queue(api: &Api, queue: &str) -> Result<Value, String> {
    let reply = api.get(&format!("/v1/queues/{queue}")).await?;
    serde_json::from_slice(&reply.body).map_err(|_| reply.text())
}

/// The job of a client in the queue `dispatcher`.
async fn has_job(api: &Api, id: &str) -> Result<(), String> {
    let job = api.get(&format!("/v1/queues/dispatcher/jobs/{id}")).await?;
    holds(job.status == 200, || format!("{id}: {} {}", job.status, job.text()))
}

#[actix_web::test]
async fn what_an_emptied_redis_has_lost_is_back_within_a_minute_and_decisions_hold() {
    let turn = Turn::shared();
    let cluster = Cluster::with_own_redis("rebuilt");
    let replicas = [cluster.replica_in(&turn).start().await, cluster.replica_in(&turn).start().await];
    let api = replicas[0].api();
    let failing = Receiver::start(|_| Answer::Status(503));
    let blocked = Receiver::healthy();
    api.put_client("failing", json!({ "webhook": failing.hook("failing") })).await;
    cluster
        .write_config(&doc! {
            "_id": "config-of-blocked", "owner": OWNER, "key": "CQRS", "eid": "blocked", "status": "ACTIVE",
            "version": 1, "updated_at": DateTime::now(), "deleted_at": null,
            "value": { "webhook": blocked.hook("blocked") },
        })
        .await;
    let mut of_blocked = Document::new(1, &["blocked"]);
    cluster.produce(&[of_blocked.create()]).await;
    blocked.ledger().wait_for(1, SOON).await;
    let command = run(&["owners", "block", OWNER, "--url", api.url()], None);
    assert!(command.status.success(), "{}", text(&command.stderr));
    for replica in &replicas {
        replica.api().wait_for_metric("blocked_owners", &[], 1.0, SOON).await;
    }
    let heavy = "dispatcher-heavy";
    let paused = api.post(&format!("/v1/queues/{heavy}/pause"), &json!({})).await.unwrap();
    assert_eq!(paused.status, 200, "{}", paused.text());
    cluster.produce(&[Document::new(2, &["failing"]).create()]).await;
    eventually("the jobs of who fails", SOON, async || {
        has_job(api, "retry-failing").await?;
        has_job(api, "disable-failing").await
    })
    .await;

    // The worst moment: all was put just now.
    ask(&cluster, &["FLUSHALL"]);
    let emptied = Instant::now();
    cluster.produce(&[of_blocked.change()]).await;
    let skipped = [("reason", "owner_blocked")];
    eventually("the change to be skipped", SOON, async || {
        let mut counted = 0.0;
        for replica in &replicas {
            counted += replica.api().metrics().await.sum("skipped_total", &skipped);
        }
        holds(counted == 1.0, || format!("{counted}"))
    })
    .await;
    eventually("the pause", SOON, async || {
        let shown = queue(api, heavy).await?;
        holds(shown["paused"] == true, || shown.to_string())
    })
    .await;
    println!("the pause is back after {:?}", emptied.elapsed());
    eventually("RETRY and DISABLE", REBUILT * 2, async || {
        has_job(api, "retry-failing").await?;
        has_job(api, "disable-failing").await
    })
    .await;
    let jobs = emptied.elapsed();
    eventually("both schedules", REBUILT * 2, async || {
        let shown = queue(api, SCHEDULE).await?;
        holds(shown["schedules"].as_array().is_some_and(|all| all.len() == 2), || shown.to_string())
    })
    .await;
    let schedules = emptied.elapsed();
    println!("RETRY and DISABLE are back after {jobs:?}, schedules within {schedules:?}");
    assert!(jobs < REBUILT && schedules < REBUILT, "jobs after {jobs:?}, schedules within {schedules:?}");
    assert_eq!(blocked.ledger().len(), 1, "its owner is blocked");
}
