//! `/v1/blocked-owners`.

use std::sync::Arc;

use actix_web::http::Method;
use serde_json::{Value, json};

use super::World;
use crate::domain::config::{ClientId, Status, read_value};
use crate::ports::client_configs::StoredConfig;

async fn unblock(world: &World, owner: &str) -> u16 {
    world.send(Method::DELETE, &format!("/v1/blocked-owners/{owner}"), &[], "").await.status
}

/// A client whose config document has an owner.
pub(super) fn add_client(world: &World, client: &str, owner: Option<&str>) {
    let (client, value) = (ClientId::new(client), r#"{"webhook":"http://x.test/"}"#);
    let config = read_value(&client, Status::Active, false, 1, 0, owner.map(str::to_owned), value);
    let stored = StoredConfig { config: Arc::new(config), value: value.to_owned() };
    world.configs.0.lock().unwrap().insert(client, stored);
}

#[actix_web::test]
async fn an_owner_is_blocked_shown_and_let_go() {
    let world = World::start();
    add_client(&world, "a", Some("o 1"));
    add_client(&world, "b", None);
    let body = json!({ "reason": "unpaid", "by": "ann" });
    let answer = world.put("/v1/blocked-owners/o%201", &body).await;
    let block = json!({ "owner": "o 1", "by": "ann", "reason": "unpaid", "since_ms": 1_764_435_600_000_i64 });
    assert_eq!((answer.status, answer.json()), (200, block.clone()));
    let listed = world.get("/v1/blocked-owners").await.json();
    assert_eq!(listed, json!({ "blocked_owners": [block], "next": null }));
    assert_eq!(world.get("/v1/clients/a").await.json()["blocked"], block);
    assert_eq!(world.get("/v1/clients/b").await.json()["blocked"], Value::Null);
    assert_eq!(world.get("/v1/clients").await.json()["clients"][0]["blocked"], block);

    // Nothing needs to be said.
    let answer = world.send(Method::PUT, "/v1/blocked-owners/o%201", &[], "").await;
    assert_eq!((&answer.json()["by"], &answer.json()["reason"]), (&json!("loopback"), &json!("")));

    assert_eq!((unblock(&world, "o%201").await, unblock(&world, "o%201").await), (204, 404));
    assert_eq!(world.get("/v1/clients/a").await.json()["blocked"], Value::Null);
}

#[actix_web::test]
async fn blocked_owners_come_by_page() {
    let world = World::start();
    for owner in ["c", "a", "b"] {
        world.put(&format!("/v1/blocked-owners/{owner}"), &json!({})).await;
    }
    let page = async |query: &str| {
        let page = world.get(&format!("/v1/blocked-owners{query}")).await.json();
        let owners: Vec<_> =
            page["blocked_owners"].as_array().unwrap().iter().map(|block| block["owner"].clone()).collect();
        (owners, page["next"].clone())
    };
    assert_eq!(page("?limit=2").await, (vec![json!("a"), json!("b")], json!("b")));
    assert_eq!(page("?limit=2&after=b").await, (vec![json!("c")], Value::Null));
    assert_eq!(world.get("/v1/blocked-owners?limit=x").await.problem().0, 400);
}

#[actix_web::test]
async fn what_is_no_owner_or_no_reason_is_refused() {
    let world = World::start();
    for owner in ["%", "%FF", "%00", "a%0Ab", "%C2%85", &"x".repeat(513), &"x".repeat(600)] {
        let path = format!("/v1/blocked-owners/{owner}");
        assert_eq!(world.put(&path, &json!({})).await.problem().0, 400, "{owner}");
        assert_eq!(world.send(Method::DELETE, &path, &[], "").await.problem().0, 400, "{owner}");
    }
    for (body, key) in [
        (json!(7), Value::Null),
        (json!({ "owner": "b" }), Value::Null),
        (json!({ "reason": "a\u{1b}[31m" }), json!("reason")),
        (json!({ "reason": "x".repeat(501) }), json!("reason")),
        (json!({ "by": "x".repeat(101) }), json!("by")),
    ] {
        let answer = world.put("/v1/blocked-owners/o", &body).await;
        assert_eq!((answer.problem().0, &answer.json()["key"]), (400, &key), "{body}");
    }
    let large = json!({ "reason": "x".repeat(20_000) });
    assert_eq!(world.put("/v1/blocked-owners/o", &large).await.problem().0, 413);
    assert_eq!(world.get("/v1/blocked-owners").await.json()["blocked_owners"], json!([]));
    assert_eq!(world.get("/v1/blocked-owners/o").await.problem().0, 405);
}

#[actix_web::test]
async fn a_block_that_is_stored_but_not_in_use_yet_is_202_and_a_store_that_is_away_503() {
    let world = World::start();
    *world.block_list_is_late.lock().unwrap() = true;
    assert_eq!(world.put("/v1/blocked-owners/o", &json!({})).await.status, 202);
    assert_eq!(unblock(&world, "o").await, 202);
    world.decisions.go_away();
    assert_eq!(world.get("/v1/blocked-owners").await.problem().0, 503);
    assert_eq!(world.put("/v1/blocked-owners/o", &json!({})).await.problem().0, 503);
    assert_eq!(unblock(&world, "o").await, 503);
}
