//! The queues through the command line, and what operators decided over restarts and an emptied Redis.

use std::time::Duration;

use serde_json::{Value, json};

use crate::kit::api::Api;
use crate::kit::service::{Service, run, text};
use crate::kit::wait::{eventually, holds};

const SOON: Duration = Duration::from_secs(30);
const SCHEDULE: &str = "dispatcher-schedule";

fn queues(service: &Service, arguments: &[&str]) -> Result<String, String> {
    let output = run(&[&["queues"], arguments, &["--url", service.api().url()]].concat(), None);
    if output.status.success() {
        Ok(text(&output.stdout).to_owned())
    } else {
        assert_eq!(output.status.code(), Some(1));
        Err(text(&output.stderr).to_owned())
    }
}

/// Both schedules have their next job, and the first of the reconciling is done.
async fn wait_for_schedules(api: &Api) {
    let waits = [("queue", SCHEDULE), ("state", "delayed")];
    api.wait_for_metric("queue_jobs", &waits, 2.0, SOON).await;
}

async fn wait_until_paused(api: &Api, queue: &str, paused: bool) {
    eventually(&format!("{queue} paused: {paused}"), SOON, async || {
        let shown = api.get(&format!("/v1/queues/{queue}")).await?.json();
        holds(shown["paused"] == paused, || shown.to_string())
    })
    .await;
}

#[actix_web::test]
async fn queues_are_looked_at_and_acted_on_and_a_pause_outlives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::shared().data(folder.path()).start().await;
    wait_for_schedules(service.api()).await;
    let listed = queues(&service, &["list"]).unwrap();
    for queue in ["dispatcher ", SCHEDULE, "dispatcher-heavy"] {
        assert!(listed.contains(queue), "{listed}");
    }
    let shown: Value = serde_json::from_str(&queues(&service, &["show", SCHEDULE]).unwrap()).unwrap();
    let ids: Vec<_> = shown["schedules"].as_array().unwrap().iter().map(|schedule| &schedule["id"]).collect();
    assert_eq!(ids, ["purge-audit", "purge-stash", "reconcile-configs"]);

    let jobs = queues(&service, &["jobs", SCHEDULE, "--state", "delayed", "--limit", "1"]).unwrap();
    let next: Value = serde_json::from_str(jobs.trim()).unwrap();
    let id = next["id"].as_str().unwrap();
    let job: Value = serde_json::from_str(&queues(&service, &["job", SCHEDULE, id]).unwrap()).unwrap();
    assert_eq!((&job["id"], &job["state"], &job["logs"]), (&json!(id), &json!("delayed"), &json!([])));
    let refused = queues(&service, &["remove", SCHEDULE, id]).unwrap_err();
    assert!(refused.contains("remove the schedule"), "{refused}");
    assert!(queues(&service, &["promote", SCHEDULE, "nobody"]).unwrap_err().contains("no such job"));
    assert!(queues(&service, &["jobs", "nothing"]).unwrap_err().contains("no such queue"));
    queues(&service, &["retry", SCHEDULE, "--all"]).unwrap();
    queues(&service, &["clean", SCHEDULE, "completed", "--older-than", "1h"]).unwrap();

    queues(&service, &["pause", SCHEDULE, "--reason", "incident 7", "--by", "ann"]).unwrap();
    assert!(queues(&service, &["list"]).unwrap().contains("by ann"));
    service.api().wait_for_metric("queue_paused", &[("queue", SCHEDULE)], 1.0, SOON).await;
    drop(service);
    let service = Service::shared().data(folder.path()).start().await;
    let shown = service.api().get(&format!("/v1/queues/{SCHEDULE}")).await.unwrap().json();
    assert_eq!((&shown["paused"], &shown["pause"]["reason"]), (&json!(true), &json!("incident 7")));
    queues(&service, &["resume", SCHEDULE]).unwrap();
    wait_until_paused(service.api(), SCHEDULE, false).await;
}

#[cfg(feature = "cluster")]
#[actix_web::test]
async fn what_operators_decided_was_never_only_in_redis() {
    use crate::kit::cluster::Cluster;
    use crate::kit::turn::Turn;

    let turn = Turn::shared();
    let cluster = Cluster::with_own_redis("decided");
    let replicas = [cluster.replica_in(&turn).start().await, cluster.replica_in(&turn).start().await];
    let [one, two] = [replicas[0].api(), replicas[1].api()];
    wait_for_schedules(one).await;
    queues(&replicas[0], &["pause", SCHEDULE]).unwrap();
    assert_eq!(two.get("/v1/queues").await.unwrap().json()["queues"][1]["paused"], true);
    let url = one.url();
    let blocked = run(&["owners", "block", "somebody", "--url", url], None);
    assert!(blocked.status.success(), "{}", text(&blocked.stderr));
    two.wait_for_metric("blocked_owners", &[], 1.0, Duration::from_secs(1)).await;

    let mut redis = redis::Client::open(cluster.redis.url()).unwrap().get_connection().unwrap();
    redis::cmd("FLUSHALL").exec(&mut redis).unwrap();
    wait_until_paused(two, SCHEDULE, true).await;
    let listed = two.get("/v1/blocked-owners").await.unwrap().json();
    assert_eq!(listed["blocked_owners"][0]["owner"], "somebody");

    // A replica that begins with an empty Redis knows it, too.
    let three = cluster.replica_in(&turn).start().await;
    assert_eq!(three.api().metrics().await.sum("blocked_owners", &[]), 1.0);
    let resumed = three.api().post(&format!("/v1/queues/{SCHEDULE}/resume"), &json!({})).await.unwrap();
    assert_eq!(resumed.status, 200, "{}", resumed.text());
    wait_until_paused(one, SCHEDULE, false).await;
}
