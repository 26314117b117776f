//! The audit log: what gets into it, and `/v1/audit`.

use std::sync::atomic::Ordering;

use actix_web::http::Method;
use serde_json::{Value, json};

use super::blocked_owners::add_client;
use super::{RECORD, World};
use crate::domain::access::{AccessRole, AccessToken, TokenHash};

/// Who, what, on what, and what came of it; the newest first.
async fn actions(world: &World, query: &str, headers: &[(&str, &str)]) -> Vec<[Value; 4]> {
    let page = world.send(Method::GET, &format!("/v1/audit{query}"), headers, "").await.json();
    let actions = page["actions"].as_array().unwrap().iter();
    actions.map(|action| ["by", "action", "subject", "outcome"].map(|name| action[name].clone())).collect()
}

#[actix_web::test]
async fn every_action_is_written_down_also_one_that_fails() {
    let world = World::start();
    add_client(&world, "a", None);
    assert_eq!(world.post("/v1/clients/a/pause", r#"{"reason":"hunter2","by":"ann"}"#).await.status, 200);
    assert_eq!(world.post("/v1/clients/none%2F%20/resume", "").await.status, 404);
    world.decisions.go_away();
    assert_eq!(world.put("/v1/blocked-owners/o%201", &json!({})).await.status, 503);
    assert_eq!(
        actions(&world, "", &[]).await,
        [
            ["loopback", "block_owner", "o%201", "failed"],
            ["loopback", "resume_client", "none%2F%20", "refused"],
            ["loopback", "pause_client", "a", "done"],
        ]
        .map(|action| action.map(Value::from))
    );
    // Looking, sending changes, and what leads nowhere are no actions.
    world.get("/v1/clients").await;
    world.post("/v1/events", RECORD).await;
    world.post("/v1/nothing", "").await;
    world.send(Method::DELETE, "/v1/clients", &[], "").await;
    let page = world.get("/v1/audit").await;
    assert_eq!(page.json()["actions"].as_array().unwrap().len(), 3);
    assert!(!page.text.contains("hunter2"), "no bodies: {page:?}");
    let first = &page.json()["actions"][2];
    assert_eq!((&first["status"], &first["role"]), (&json!(200), &json!("operator")));
    assert!(first["at_ms"].is_number());
}

#[actix_web::test]
async fn who_reads_payloads_is_written_down() {
    let viewer = AccessToken::named("wall", AccessRole::Viewer, TokenHash::of("w")).unwrap();
    let operator = AccessToken::named("ann", AccessRole::Operator, TokenHash::of("a")).unwrap();
    let world = World::with_tokens(vec![viewer, operator]);
    add_client(&world, "a", None);
    let (wall, ann) = ([("authorization", "Bearer w")], [("authorization", "Bearer a")]);
    for (path, headers) in [
        ("/v1/clients/a/export", &wall),
        ("/v1/clients/a/export", &ann),
        ("/v1/dead-letters/a/evt_1?body=true", &ann),
        ("/v1/clients/a/stash/evt_1?body=true", &ann),
        ("/v1/clients/a/stash/evt_1", &ann),
        ("/v1/clients/a", &wall),
    ] {
        world.send(Method::GET, path, headers, "").await;
    }
    assert_eq!(
        actions(&world, "", &ann).await,
        [
            ["ann", "get_row", "a/evt_1", "done"],
            ["ann", "get_dead_letter", "a/evt_1", "done"],
            ["ann", "export_rows", "a", "done"],
            ["wall", "export_rows", "a", "refused"],
        ]
        .map(|action| action.map(Value::from))
    );
}

#[actix_web::test]
async fn it_says_whose_token_it_was_and_what_was_refused() {
    let viewer = AccessToken::named("wall", AccessRole::Viewer, TokenHash::of("w")).unwrap();
    let operator = AccessToken::named("ann", AccessRole::Operator, TokenHash::of("a")).unwrap();
    let world = World::with_tokens(vec![viewer, operator]);
    add_client(&world, "a", None);
    let (wall, ann) = ([("authorization", "Bearer w")], [("authorization", "Bearer a")]);
    for headers in [&wall[..], &ann, &[("authorization", "Bearer x")]] {
        world.send(Method::POST, "/v1/clients/a/retry", headers, "").await;
    }
    let log_in = [("x-dispatcher-action", "1")];
    world.send(Method::PUT, "/dashboard/session", &log_in, r#"{"token":"w"}"#).await;
    world.send(Method::PUT, "/dashboard/session", &log_in, r#"{"token":"x"}"#).await;
    assert_eq!(
        actions(&world, "", &ann).await,
        [
            ["wall", "log_in", "", "done"],
            ["ann", "retry_client", "a", "done"],
            ["wall", "retry_client", "a", "refused"],
        ]
        .map(|action| action.map(Value::from))
    );
    assert_eq!(actions(&world, "?by=ann", &wall).await.len(), 1);
    assert_eq!(actions(&world, "?action=retry_client&subject=a", &wall).await.len(), 2);
    let first = world.send(Method::GET, "/v1/audit?limit=2", &wall, "").await.json();
    assert_eq!(first["next"], 2);
    assert_eq!(actions(&world, "?limit=2&before=2", &wall).await.len(), 1);
    for query in ["?limit=0", "?before=x", "?who=ann"] {
        let refused = world.send(Method::GET, &format!("/v1/audit{query}"), &wall, "").await;
        assert_eq!(refused.problem().0, 400, "{query}");
    }
}

#[actix_web::test]
async fn an_action_is_done_and_counted_though_it_cannot_be_written_down() {
    let world = World::start();
    add_client(&world, "a", None);
    world.audit.1.store(true, Ordering::Relaxed);
    assert_eq!(world.post("/v1/clients/a/retry", "").await.status, 202);
    assert_eq!((world.tried.lock().unwrap().len(), world.metrics.audit_missed.get()), (1, 1));
}
