//! `/status`, the probes, `/metrics`.

use std::sync::atomic::Ordering;

use serde_json::json;

use super::{RECORD, World};
use crate::web::Readiness;

#[actix_web::test]
async fn status_tells_every_actor_and_store_and_is_503_when_one_is_down() {
    let world = World::start();
    let answer = world.get("/status").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let status = answer.json();
    assert_eq!((&status["status"], &status["mode"]), (&json!("ok"), &json!("embedded")));
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["actors"], json!([{ "kind": "ingest", "state": "running" }]));
    assert_eq!(status["stores"], json!([{ "name": "sqlite", "healthy": true }]));
    assert_eq!(status["lag"]["source"], 7);
    assert_eq!(status["roles"], json!({ "here": ["ingest", "web"], "nobody": ["heavy"] }));

    world.store_is_up.store(false, Ordering::Relaxed);
    let answer = world.get("/status").await;
    assert_eq!((answer.status, &answer.json()["status"]), (503, &json!("a store is down")));
    assert_eq!(answer.json()["stores"][0]["error"], "disk I/O error");
    // A dependency that is down is no reason to take the replica out.
    assert_eq!(world.get("/readyz").await.status, 200);
    world.store_is_up.store(true, Ordering::Relaxed);

    *world.actor_state.lock().unwrap() = "restarting";
    assert_eq!(world.get("/status").await.status, 200);
    *world.actor_state.lock().unwrap() = "failed";
    assert_eq!(world.get("/status").await.status, 503);
}

#[actix_web::test]
async fn a_stopping_service_is_alive_but_not_ready() {
    let world = World::start();
    assert_eq!(world.get("/readyz").await.text, "ready\n");
    world.readiness.is_stopping();
    assert_eq!(world.get("/readyz").await.problem(), (503, "stopping".into()));
    assert_eq!(world.get("/status").await.status, 503);
    assert_eq!(world.get("/livez").await.status, 200);
    // What is on its way is still taken, until the intake is closed.
    assert_eq!(world.post("/v1/events", RECORD).await.status, 202);
}

#[test]
fn every_step_of_the_start_is_missing_until_it_is_taken() {
    let readiness = Readiness::default();
    assert!(!readiness.takes_events());
    assert_eq!(readiness.missing(), Some("the log is not open yet"));
    readiness.log_is_open();
    assert_eq!(readiness.missing(), Some("the client configs are not loaded yet"));
    readiness.configs_are_loaded();
    assert_eq!(readiness.missing(), Some("not started yet"));
    readiness.is_started();
    assert_eq!(readiness.missing(), None);
}

#[actix_web::test]
async fn metrics_hold_ours_and_the_servers_and_no_path_of_a_caller() {
    let world = World::start();
    world.metrics.routed.inc_by(3);
    world.get("/v1/clients/somebody").await;
    world.get("/made-up-by-a-scanner").await;
    let answer = world.get("/metrics").await;
    assert!(answer.content_type.starts_with("text/plain"));
    for line in [
        "dispatcher_routed_total 3",
        "dispatcher_lag{stream=\"source\"} 7",
        "dispatcher_http_requests_total{endpoint=\"/v1/clients/{id}\",method=\"GET\",status=\"404\"} 1",
        "endpoint=\"unmatched\"",
    ] {
        assert!(answer.text.contains(line), "{line}\n{}", answer.text);
    }
    assert!(!answer.text.contains("somebody") && !answer.text.contains("scanner"));
}
