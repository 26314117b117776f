//! What an operator does about a client.

use serde_json::{Value, json};

use super::World;
use super::blocked_owners::add_client;
use crate::domain::config::ClientId;

#[actix_web::test]
async fn a_client_is_paused_shown_and_resumed() {
    let world = World::start();
    add_client(&world, "a", None);
    let answer = world.post("/v1/clients/a/pause", r#"{"reason": "tired", "by": "ann"}"#).await;
    let pause = json!({ "by": "ann", "reason": "tired", "since_ms": 1_764_435_600_000_i64 });
    assert_eq!((answer.status, answer.json()), (200, json!({ "paused": pause })));
    assert_eq!(world.get("/v1/clients/a").await.json()["paused"], pause);

    let resume = async || world.post("/v1/clients/a/resume", "{}").await.status;
    assert_eq!((resume().await, resume().await), (200, 404));
    assert_eq!(world.get("/v1/clients/a").await.json()["paused"], Value::Null);

    *world.block_list_is_late.lock().unwrap() = true;
    assert_eq!(world.post("/v1/clients/a/pause", "{}").await.status, 202, "stored, in use soon");
}

#[actix_web::test]
async fn a_client_is_tried_now() {
    let world = World::start();
    add_client(&world, "a", None);
    assert_eq!(world.post("/v1/clients/a/retry", "{}").await.status, 202);
    assert_eq!(*world.tried.lock().unwrap(), [ClientId::new("a")]);
}

#[actix_web::test]
async fn a_client_is_switched_off_and_on_and_keeps_its_value() {
    let world = World::start();
    let value = json!({ "webhook": "http://a.test/", "authorization": "hunter2" });
    world.put("/v1/clients/a", &json!({ "value": value })).await;
    for (action, status) in [("disable", "INACTIVE"), ("enable", "ACTIVE")] {
        let answer = world.post(&format!("/v1/clients/a/{action}"), "").await;
        assert_eq!((answer.status, &answer.json()["config"]["status"]), (200, &json!(status)));
        let stored = world.configs.0.lock().unwrap()[&ClientId::new("a")].value.clone();
        assert_eq!(serde_json::from_str::<Value>(&stored).unwrap(), value);
    }
}

#[actix_web::test]
async fn what_is_no_client_cannot_be_acted_on() {
    let world = World::start();
    for action in ["pause", "resume", "retry", "disable", "enable"] {
        assert_eq!(world.post(&format!("/v1/clients/none/{action}"), "{}").await.status, 404, "{action}");
        assert_eq!(world.get(&format!("/v1/clients/none/{action}")).await.status, 405, "{action}");
    }
    add_client(&world, "a", None);
    for body in [json!({ "by": "" }), json!({ "reason": "x".repeat(501) }), json!({ "other": 1 })] {
        assert_eq!(world.post("/v1/clients/a/pause", body.to_string()).await.status, 400, "{body}");
    }
    assert!(world.tried.lock().unwrap().is_empty());
}
