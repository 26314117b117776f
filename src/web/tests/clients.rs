//! `/v1/clients`.

use actix_web::http::Method;
use serde_json::{Value, json};

use super::World;
use crate::domain::client_state::{ClientState, Phase};
use crate::domain::config::{ClientId, Status};
use crate::domain::stash::Backlog;
use crate::ports::client_configs::ClientConfigs as _;

#[actix_web::test]
async fn a_client_is_created_shown_without_secrets_switched_and_deleted() {
    let world = World::start();
    let value = json!({ "webhook": "https://a.test/in", "authorization": "Bearer hunter2" });
    let answer = world.put("/v1/clients/acme", &json!({ "status": "ACTIVE", "value": value })).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert!(!answer.text.contains("hunter2"));
    let config = answer.json()["config"].clone();
    assert_eq!(config["value"], json!({ "webhook": "https://a.test/in", "authorization": "set" }));
    assert_eq!((&config["status"], &config["fault"]), (&json!("ACTIVE"), &Value::Null));

    // Switching needs no value, and keeps the one that nobody can read back.
    let answer = world.put("/v1/clients/acme", &json!({ "status": "INACTIVE" })).await;
    assert_eq!((answer.status, &answer.json()["config"]["status"]), (200, &json!("INACTIVE")));
    let stored = world.configs.0.lock().unwrap()[&ClientId::new("acme")].clone();
    assert_eq!(serde_json::from_str::<Value>(&stored.value).unwrap(), value);
    // A value alone keeps the status.
    let answer = world.put("/v1/clients/acme", &json!({ "value": { "webhook": "http://b.test/" } })).await;
    assert_eq!((answer.status, &answer.json()["config"]["status"]), (200, &json!("INACTIVE")));
    assert_eq!(world.get("/v1/clients/acme").await.json(), answer.json());

    assert_eq!(world.send(Method::DELETE, "/v1/clients/acme", &[], "").await.status, 204);
    assert_eq!(world.send(Method::DELETE, "/v1/clients/acme", &[], "").await.problem().0, 404);
    assert_eq!(world.get("/v1/clients/acme").await.problem().0, 404);
    // What was deleted does not come back by being switched on.
    assert_eq!(world.put("/v1/clients/acme", &json!({ "status": "ACTIVE" })).await.problem().0, 422);
    assert_eq!(*world.refreshed.lock().unwrap(), [(); 4].map(|()| ClientId::new("acme")));
}

#[actix_web::test]
async fn clients_are_filtered_and_sorted() {
    let world = World::start();
    for (client, status, pending, oldest) in [
        ("Acme-1", "ACTIVE", 5, 30),
        ("acme-2", "INACTIVE", 7, 20),
        ("b", "ACTIVE", 5, 10),
        ("c", "ACTIVE", 0, 0),
    ] {
        let config = json!({ "status": status, "value": { "webhook": "http://a.test/" } });
        world.put(&format!("/v1/clients/{client}"), &config).await;
        let oldest_ts_ms = (oldest > 0).then_some(oldest);
        let backlog = Backlog { pending, oldest_ts_ms, ..Backlog::default() };
        world.stash.0.lock().unwrap().insert(ClientId::new(client), backlog);
    }
    let state = ClientState { phase: Phase::Degraded, ..ClientState::new(1) };
    world.states.0.lock().unwrap().insert(ClientId::new("b"), state);
    let list = async |query: &str| {
        let page = world.get(&format!("/v1/clients?{query}")).await.json();
        let clients = page["clients"].as_array().unwrap().iter();
        clients.map(|client| client["client"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list("filter=ACME").await, ["Acme-1", "acme-2"]);
    assert_eq!(list("status=INACTIVE").await, ["acme-2"]);
    assert_eq!(list("phase=degraded").await, ["b"]);
    assert_eq!(list("sort=pending").await, ["acme-2", "Acme-1", "b", "c"]);
    assert_eq!(list("sort=oldest").await, ["b", "acme-2", "Acme-1", "c"]);
    assert_eq!(list("sort=pending&limit=2&after=Acme-1").await, ["b", "c"]);
    for query in ["sort=size", "status=ON", "phase=ill", "limit=0"] {
        assert_eq!(world.get(&format!("/v1/clients?{query}")).await.problem().0, 400, "{query}");
    }
}

#[actix_web::test]
async fn a_mistake_in_a_config_names_its_key_and_stores_nothing() {
    let world = World::start();
    for (body, status, key) in [
        (r#"{"value":{"webhook":"ftp://x/"}}"#, 422, json!("value.webhook")),
        (r#"{"value":{}}"#, 422, json!("value.webhook")),
        (r#"{"value":{"webhook":"http://x/","timeout_ms":1}}"#, 422, json!("value.timeout_ms")),
        (r#"{"value":7}"#, 422, json!("value")),
        (r#"{"status":"ACTIVE"}"#, 422, json!("value")),
        (r#"{"status":"ON","value":{"webhook":"http://x/"}}"#, 400, Value::Null),
        (r#"{"state":"ACTIVE"}"#, 400, Value::Null),
        ("", 400, Value::Null),
    ] {
        let answer = world.send(Method::PUT, "/v1/clients/a", &[], body).await;
        assert_eq!((answer.problem().0, answer.json()["key"].clone()), (status, key), "{body}");
    }
    assert!(world.configs.0.lock().unwrap().is_empty());
    let large = json!({ "value": { "webhook": "http://x/", "note": "x".repeat(300 << 10) } });
    assert_eq!(world.put("/v1/clients/a", &large).await.problem().0, 413);
}

#[actix_web::test]
async fn a_config_that_is_stored_but_not_in_use_yet_is_202() {
    let world = World::start();
    let body = json!({ "value": { "webhook": "http://x.test/" } });
    assert_eq!(world.put("/v1/clients/late", &body).await.status, 202);
    assert_eq!(world.get("/v1/clients/late").await.status, 200);
}

#[actix_web::test]
async fn client_ids_may_be_anything() {
    let world = World::start();
    let body = json!({ "value": { "webhook": "http://x.test/" } });
    for (segment, id) in [
        ("64c0a1e0f1a2b3c4d5e60001", "64c0a1e0f1a2b3c4d5e60001"),
        ("a%2Fb", "a/b"),
        ("a%252Fb", "a%2Fb"),
        ("a+b%20c", "a+b c"),
        ("%00%0A", "\0\n"),
        ("%C3%A5", "å"),
        ("%2E%2E", ".."),
        (&"x".repeat(512), &"x".repeat(512)),
    ] {
        let path = format!("/v1/clients/{segment}");
        assert_eq!(world.put(&path, &body).await.json()["client"], id, "{segment}");
        assert_eq!(world.get(&path).await.status, 200, "{segment}");
    }
    for segment in ["%", "%2", "%zz", "%FF", &"x".repeat(513)] {
        assert_eq!(world.put(&format!("/v1/clients/{segment}"), &body).await.problem().0, 400, "{segment}");
    }
}

#[actix_web::test]
async fn clients_are_listed_by_page_with_state_and_backlog() {
    let world = World::start();
    let body = json!({ "value": { "webhook": "http://x.test/" } });
    for id in ["a", "b", "c", "gone", "gone-with-rows"] {
        world.put(&format!("/v1/clients/{id}"), &body).await;
    }
    world.configs.put(&ClientId::new("bad"), Status::Active, "{}".into(), 0).await.unwrap();
    for id in ["gone", "gone-with-rows"] {
        world.send(Method::DELETE, &format!("/v1/clients/{id}"), &[], "").await;
    }
    let backlog = Backlog { pending: 3, dead: 1, ..Backlog::default() };
    for id in ["b", "gone-with-rows"] {
        world.stash.0.lock().unwrap().insert(ClientId::new(id), backlog);
    }
    let state = ClientState { phase: Phase::Degraded, ..ClientState::new(1) };
    world.states.0.lock().unwrap().insert(ClientId::new("b"), state);

    let page = world.get("/v1/clients?limit=3").await.json();
    let ids = |page: &Value| -> Vec<String> {
        page["clients"].as_array().unwrap().iter().map(|c| c["client"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((ids(&page), &page["next"]), (vec!["a".into(), "b".into(), "bad".into()], &json!("bad")));
    assert_eq!(page["clients"][1]["state"]["phase"], "degraded");
    assert_eq!(page["clients"][1]["in_flight"], 0);
    assert_eq!(page["clients"][1]["backlog"]["pending"], 3);
    assert_eq!(page["clients"][2]["config"]["fault"]["key"], "webhook");
    let page = world.get("/v1/clients?limit=3&after=bad").await.json();
    assert_eq!((ids(&page), &page["next"]), (vec!["c".into(), "gone-with-rows".into()], &Value::Null));
    assert_eq!(page["clients"][1]["config"]["deleted"], true);
    assert_eq!(world.get("/v1/clients?limit=x").await.problem().0, 400);
}

#[actix_web::test]
async fn what_a_delivery_actor_says_is_fresher_than_the_store() {
    let world = World::start();
    let body = json!({ "value": { "webhook": "http://x.test/" } });
    world.put("/v1/clients/a", &body).await;
    let stored = ClientState { phase: Phase::Degraded, ..ClientState::new(1) };
    world.states.0.lock().unwrap().insert(ClientId::new("a"), stored);
    let live = json!({ "state": ClientState::new(2), "in_flight": 3, "queued": 4 });
    world.delivery.lock().unwrap().insert(ClientId::new("a"), live);
    let client = world.get("/v1/clients/a").await.json();
    assert_eq!(client["state"]["phase"], "healthy");
    assert_eq!((&client["in_flight"], &client["queued"]), (&json!(3), &json!(4)));
}
