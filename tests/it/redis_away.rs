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
use crate::node::Node;

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

/// Jobs that are done as soon as a worker looks at them.
struct Added<'a> {
    node: &'a Node,
    count: u64,
}

impl Added<'_> {
    /// Adds some, which Redis acknowledges.
    fn add(&mut self, count: u64) {
        for number in self.count..self.count + count {
            let client = format!("nobody-{number}");
            self.node.ask(&json!({
                "do": "add", "queue": "dispatcher", "job": "RETRY", "data": { "client": client },
                "opts": { "jobId": format!("retry-{client}"), "removeOnComplete": true },
            }));
        }
        self.count += count;
    }

    /// Waits until none of them is left.
    async fn until_done(&self, what: &str) {
        eventually(what, REBUILT, async || {
            let counts = self.node.ask(&json!({ "do": "counts", "queue": "dispatcher" }));
            let left: u64 = counts.as_object().unwrap().values().filter_map(Value::as_u64).sum();
            holds(left == 0, || counts.to_string())
        })
        .await;
    }
}

#[actix_web::test]
async fn the_workers_are_back_within_two_seconds_and_lose_no_job_whatever_becomes_of_redis() {
    let turn = Turn::shared();
    let cluster = Cluster::with_own_redis("redisaway");
    let service = cluster.replica_in(&turn).start().await;
    let node = Node::new(cluster.redis.port(), &cluster.queue_prefix(), "bullmq");
    let mut jobs = Added { node: &node, count: 0 };
    jobs.add(1);
    jobs.until_done("the first job").await;
    for Outage { name, go, come } in OUTAGES {
        jobs.add(50);
        go(&cluster);
        // Long enough that connections are given up.
        tokio::time::sleep(Duration::from_secs(4)).await;
        come(&cluster);
        let back = Instant::now();
        jobs.add(1);
        // The client of Node has its own patience.
        let added = Instant::now();
        eventually("the new job to be done", SOON, async || {
            let job = node.job("dispatcher", &format!("retry-nobody-{}", jobs.count - 1));
            holds(job.is_null(), || job.to_string())
        })
        .await;
        let took = added.elapsed();
        println!("Redis {name}: a job was added {:?} after it was back, and done in {took:?}", added - back);
        assert!(took < BACK, "Redis {name}: {took:?}");
    }
    // A job that was on its way when Redis went has a lock that must end first.
    jobs.until_done("all that was acknowledged").await;
    let log = service.log();
    assert!(log.matches("redis is away").count() <= OUTAGES.len(), "said once each time: {log}");
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
    // One alone: several put things back at different times.
    let service = cluster.replica_in(&turn).start().await;
    let api = service.api();
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
    api.wait_for_metric("blocked_owners", &[], 1.0, SOON).await;
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
    api.wait_for_metric("skipped_total", &[("reason", "owner_blocked")], 1.0, SOON).await;
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
    eventually("all schedules", REBUILT * 2, async || {
        let shown = queue(api, SCHEDULE).await?;
        holds(shown["schedules"].as_array().is_some_and(|all| all.len() == 3), || shown.to_string())
    })
    .await;
    let schedules = emptied.elapsed();
    println!("RETRY and DISABLE are back after {jobs:?}, schedules within {schedules:?}");
    assert!(jobs < REBUILT && schedules < REBUILT, "jobs after {jobs:?}, schedules within {schedules:?}");
    assert_eq!(blocked.ledger().len(), 1, "its owner is blocked");
}
