//! The rows of the stash.

use serde_json::{Value, json};

use super::World;
use super::dead_letters::{row, superseded};
use super::fakes::FakeRow;

fn world() -> World {
    let world = World::start();
    let waits = |row| FakeRow { waits: true, ..row };
    *world.stash.1.lock().unwrap() =
        vec![row("a", 3), waits(row("a", 1)), superseded(row("a", 2)), waits(row("b", 4)), row("a", 5)];
    world
}

fn events(page: &Value) -> Vec<&str> {
    page["rows"].as_array().unwrap().iter().map(|row| row["event_id"].as_str().unwrap()).collect()
}

#[actix_web::test]
async fn rows_of_a_client_come_in_their_order_by_page() {
    let world = world();
    let all = world.get("/v1/clients/a/stash").await.json();
    assert_eq!(events(&all), ["evt_1", "evt_2", "evt_3", "evt_5"]);
    assert_eq!(all["next"], Value::Null);
    let states: Vec<_> = all["rows"].as_array().unwrap().iter().map(|row| &row["state"]).collect();
    assert_eq!(states, ["pending", "superseded", "dead", "dead"]);
    assert!(all["rows"][0].get("body").is_none());
    let first = world.get("/v1/clients/a/stash?limit=3").await.json();
    assert_eq!(first["next"], "1-3-3");
    assert_eq!(events(&world.get("/v1/clients/a/stash?limit=3&after=1-3-3").await.json()), ["evt_5"]);
    assert_eq!(events(&world.get("/v1/clients/a/stash?state=dead").await.json()), ["evt_3", "evt_5"]);
    let document = "/v1/clients/a/stash?document=identity.users%3A2";
    assert_eq!(events(&world.get(document).await.json()), ["evt_2"]);
    for query in ["state=gone", "document=users", "after=1", "limit=0", "limit=1001", "colour=red"] {
        assert_eq!(world.get(&format!("/v1/clients/a/stash?{query}")).await.problem().0, 400, "{query}");
    }
}

#[actix_web::test]
async fn a_row_is_shown_with_its_payload_when_that_is_asked_for() {
    let world = world();
    let bare = world.get("/v1/clients/b/stash/evt_4").await.json();
    assert_eq!((&bare["state"], bare.get("body")), (&json!("pending"), None));
    let whole = world.get("/v1/clients/b/stash/evt_4?body=true").await.json();
    assert_eq!(whole["body"], r#"{"id":"4","n":1.10}"#, "byte for byte");
    for path in ["/v1/clients/a/stash/evt_4", "/v1/clients/a/stash/none?body=true"] {
        assert_eq!(world.get(path).await.problem().0, 404, "{path}");
    }
}

#[actix_web::test]
async fn what_was_given_up_is_purged_and_what_waits_is_not() {
    let world = world();
    let purge = async |body: Value| {
        let answer = world.post("/v1/clients/a/purge", body.to_string()).await;
        (answer.status, answer.json()["purged"].clone(), answer.json()["more"].clone())
    };
    assert_eq!(purge(json!({ "state": "dead", "before_ms": 1_004 })).await, (200, json!(1), json!(false)));
    assert_eq!(purge(json!({ "state": "dead", "limit": 1 })).await, (200, json!(1), json!(true)));
    assert_eq!(purge(json!({ "state": "superseded" })).await, (200, json!(1), json!(false)));
    assert_eq!(events(&world.get("/v1/clients/a/stash").await.json()), ["evt_1"]);
    for body in
        [json!({}), json!({ "state": "pending" }), json!({ "state": "dead", "limit": 0 }), json!(null)]
    {
        assert_eq!(purge(body.clone()).await.0, 400, "{body}");
    }
}

#[actix_web::test]
async fn all_rows_of_a_client_are_exported_with_their_payloads() {
    let world = world();
    let lines = async |path: &str| {
        let text = world.get(path).await.text;
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    let all = lines("/v1/clients/a/export").await;
    let shown: Vec<_> =
        all.iter().map(|row| (row["event_id"].as_str().unwrap(), row["state"].as_str().unwrap())).collect();
    let expected = [("evt_1", "pending"), ("evt_2", "superseded"), ("evt_3", "dead"), ("evt_5", "dead")];
    assert_eq!(shown, expected);
    assert_eq!(all[0]["body"], r#"{"id":"1","n":1.10}"#, "byte for byte");
    assert_eq!(lines("/v1/clients/a/export?state=pending").await.len(), 1);
    assert!(lines("/v1/clients/nobody/export").await.is_empty());
    assert_eq!(world.get("/v1/clients/a/export?state=gone").await.problem().0, 400);
}
