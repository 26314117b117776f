//! `/v1/clients/{id}/resync`, `…/replay` and `…/heavy-jobs`.

use actix_web::http::Method;
use serde_json::{Value, json};

use super::{Answer, World};
use crate::domain::heavy_job::HeavyState;

fn client(status: &str) -> Value {
    json!({ "status": status, "value": { "webhook": "http://a.test" } })
}

async fn delete(world: &World, path: &str) -> Answer {
    world.send(Method::DELETE, path, &[], "").await
}

async fn world() -> World {
    let world = World::start();
    world.put("/v1/clients/a", &client("ACTIVE")).await;
    world
}

#[actix_web::test]
async fn a_job_is_asked_for_once_and_seen() {
    let world = world().await;
    let asked = world.post("/v1/clients/a/resync", r#"{"collections": ["identity.users"]}"#).await;
    assert_eq!(asked.status, 202, "{}", asked.text);
    let job = &asked.json()["job"];
    assert_eq!((&job["kind"], &job["state"]), (&json!("resync"), &json!("open")));
    let id = job["id"].as_str().unwrap();
    assert!(id.starts_with("resync-a-"), "{id}");
    let again = world.post("/v1/clients/a/resync", r#"{"collections": ["identity.users"]}"#).await;
    assert_eq!(again.json()["job"]["id"], id);
    let replay = world.post("/v1/clients/a/replay", "").await.json();
    assert_ne!(replay["job"]["id"], id);

    let list = world.get("/v1/clients/a/heavy-jobs").await.json();
    assert_eq!(list["heavy_jobs"].as_array().unwrap().len(), 2, "{list}");
    assert_eq!(world.get(&format!("/v1/clients/a/heavy-jobs/{id}")).await.json()["id"], id);
    for path in ["/v1/clients/a/heavy-jobs/nothing", &format!("/v1/clients/b/heavy-jobs/{id}")] {
        assert_eq!(world.get(path).await.status, 404, "{path}");
        assert_eq!(delete(&world, path).await.status, 404, "{path}");
    }
    assert_eq!(
        world.heavy_queue.inside.lock().unwrap().jobs.len(),
        2,
        "the row has the truth, the queue the kick"
    );
}

#[actix_web::test]
async fn what_is_open_is_cancelled_and_what_has_ended_forgotten() {
    let world = world().await;
    let job = world.post("/v1/clients/a/replay", "{}").await.json();
    let path = format!("/v1/clients/a/heavy-jobs/{}", job["job"]["id"].as_str().unwrap());
    let cancelled = delete(&world, &path).await;
    assert_eq!((cancelled.status, &cancelled.json()["state"]), (200, &json!("cancelled")));
    let same = world.post("/v1/clients/a/replay", "{}").await;
    assert_eq!((same.status, &same.json()["job"]["state"]), (200, &json!("cancelled")), "it is remembered");
    let anew = world.post("/v1/clients/a/replay", r#"{"again": true}"#).await;
    assert_eq!((anew.status, &anew.json()["job"]["state"]), (202, &json!("open")));
    for job in world.heavy_jobs.0.lock().unwrap().values_mut() {
        job.state = HeavyState::Done;
    }
    assert_eq!(delete(&world, &path).await.status, 204);
    assert_eq!(world.get(&path).await.status, 404);
}

#[actix_web::test]
async fn nothing_is_begun_for_who_gets_nothing() {
    let world = world().await;
    world.put("/v1/clients/off", &client("INACTIVE")).await;
    let refused = world.post("/v1/clients/off/replay", "").await;
    assert_eq!((refused.status, &refused.json()["reason"]), (409, &json!("inactive")));
    assert_eq!(world.post("/v1/clients/unknown/replay", "").await.status, 404);
    for body in
        [r#"{"collections": []}"#, r#"{"collections": ["users"]}"#, r#"{"collections": 7}"#, r#"{"x": 1}"#]
    {
        assert_eq!(world.post("/v1/clients/a/resync", body).await.status, 400, "{body}");
    }
    assert!(world.heavy_jobs.0.lock().unwrap().is_empty());
}
