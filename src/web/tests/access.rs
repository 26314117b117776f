//! Who is answered, and what is not there.

use actix_web::http::Method;

use serde_json::json;

use super::{RECORD, World};
use crate::domain::access::{AccessRole, AccessToken, TokenHash};

#[actix_web::test]
async fn the_api_needs_its_token_and_what_is_open_does_not() {
    let world = World::with_token(Some("sesame"));
    let admin = [
        (Method::POST, "/v1/events"),
        (Method::GET, "/v1/clients"),
        (Method::GET, "/v1/clients/a"),
        (Method::PUT, "/v1/clients/a"),
        (Method::DELETE, "/v1/clients/a"),
        (Method::GET, "/v1/dead-letters"),
        (Method::GET, "/v1/blocked-owners"),
        (Method::PUT, "/v1/blocked-owners/a"),
        (Method::DELETE, "/v1/blocked-owners/a"),
        (Method::GET, "/v1/queues"),
        (Method::GET, "/v1/queues/dispatcher/jobs"),
        (Method::DELETE, "/v1/queues/dispatcher/jobs/a"),
        (Method::POST, "/v1/queues/dispatcher/pause"),
        (Method::POST, "/v1/queues/dispatcher/clean"),
        (Method::DELETE, "/v1/queues/dispatcher/schedules/a"),
        (Method::GET, "/v1/nothing"),
    ];
    for (method, path) in admin {
        let bare = world.send(method.clone(), path, &[], "").await;
        assert_eq!(bare.problem().0, 401, "{method} {path}");
        let wrong = world.send(method.clone(), path, &[("authorization", "Bearer sesam")], "").await;
        assert_eq!(wrong.problem().0, 401, "{method} {path}");
        let right = world.send(method.clone(), path, &[("authorization", "Bearer sesame")], "").await;
        assert_ne!(right.status, 401, "{method} {path}");
    }
    for path in ["/status", "/livez", "/readyz", "/metrics"] {
        assert_eq!(world.get(path).await.status, 200, "{path}");
    }
    assert!(world.taken().is_empty());
}

#[actix_web::test]
async fn without_a_token_no_web_page_is_answered() {
    let world = World::start();
    let page = [("origin", "https://evil.example"), ("content-type", "application/json")];
    assert_eq!(world.send(Method::POST, "/v1/events", &page, RECORD).await.problem().0, 403);
    for header in ["forwarded", "via", "x-forwarded-for", "x-real-ip"] {
        let handed_on = world.send(Method::GET, "/v1/clients", &[(header, "203.0.113.9")], "").await;
        assert_eq!(handed_on.problem().0, 403, "{header}: a proxy on this machine is not this machine");
    }
    let rebound = [("host", "evil.example")];
    assert_eq!(world.send(Method::GET, "/v1/clients", &rebound, "").await.problem().0, 403);
    assert!(world.taken().is_empty());
}

#[actix_web::test]
async fn unknown_paths_and_methods_are_problems() {
    let world = World::start();
    assert_eq!(world.get("/").await.problem().0, 404);
    assert_eq!(world.get("/v1/nothing").await.problem().0, 404);
    assert_eq!(world.post("/status", "").await.problem(), (405, "allowed here: GET".into()));
    assert_eq!(world.get("/v1/events").await.problem(), (405, "allowed here: POST".into()));
}

fn named(name: &str, role: AccessRole) -> AccessToken {
    AccessToken::named(name, role, TokenHash::of(&format!("{name}-token"))).unwrap()
}

#[actix_web::test]
async fn a_caller_is_told_who_he_is() {
    let world =
        World::with_tokens(vec![named("wall", AccessRole::Viewer), named("ann", AccessRole::Operator)]);
    for (token, name, role) in [("wall-token", "wall", "viewer"), ("ann-token", "ann", "operator")] {
        let bearer = format!("Bearer {token}");
        let who = world.send(Method::GET, "/v1/session", &[("authorization", &bearer)], "").await.json();
        assert_eq!(who, json!({ "name": name, "role": role }));
    }
    assert_eq!(world.get("/v1/session").await.problem().0, 401);
    let open = World::start().get("/v1/session").await.json();
    assert_eq!(open, json!({ "name": "loopback", "role": "operator" }));
}

#[actix_web::test]
async fn a_viewer_acts_on_nothing_and_sees_no_payloads() {
    let world = World::with_tokens(vec![named("wall", AccessRole::Viewer)]);
    let viewer = [("authorization", "Bearer wall-token")];
    let mut acted = 0;
    for route in crate::web::routes::all().filter(|route| route.scope == "/v1" && route.method != "get") {
        let path = format!("/v1{}", route.path.replace(['{', '}'], ""));
        let method: Method = route.method.to_ascii_uppercase().parse().unwrap();
        let refused = world.send(method, &path, &viewer, "").await;
        assert_eq!((refused.problem().0, &refused.json()["needs"]), (403, &json!("operator")), "{path}");
        acted += 1;
    }
    assert!(acted > 20, "{acted}");
    assert!(world.tried.lock().unwrap().is_empty() && world.taken().is_empty());
    for path in ["/v1/dead-letters/a/evt_1?body=true", "/v1/clients/a/stash/evt_1?body=true"] {
        let refused = world.send(Method::GET, path, &viewer, "").await;
        assert_eq!((refused.problem().0, &refused.json()["needs"]), (403, &json!("operator")), "{path}");
    }
    for path in
        ["/v1/clients", "/v1/dead-letters", "/v1/audit", "/v1/queues", "/v1/dashboard", "/v1/schedules"]
    {
        assert_eq!(world.send(Method::GET, path, &viewer, "").await.status, 200, "{path}");
    }
}

#[actix_web::test]
async fn the_session_of_a_viewer_acts_on_nothing_either() {
    let world = World::with_tokens(vec![named("wall", AccessRole::Viewer)]);
    let request = awc::Client::default().put(format!("http://{}/dashboard/session", world.address));
    let request = request.insert_header(("x-dispatcher-action", "1"));
    let answer = request.send_body(json!({ "token": "wall-token" }).to_string()).await.unwrap();
    assert_eq!(answer.status(), 204);
    let cookie = answer.headers().get("set-cookie").unwrap().to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let own = [("cookie", cookie.as_str()), ("x-dispatcher-action", "1")];
    let session = world.send(Method::GET, "/dashboard/session", &own, "").await.json();
    let expected = json!({ "needs_token": true, "signed_in": true, "name": "wall", "role": "viewer" });
    assert_eq!(session, expected);
    let who = world.send(Method::GET, "/v1/session", &own, "").await.json();
    assert_eq!(who, json!({ "name": "wall", "role": "viewer" }));
    let refused = world.send(Method::POST, "/v1/clients/a/retry", &own, "").await;
    assert_eq!((refused.problem().0, &refused.json()["needs"]), (403, &json!("operator")));
    // Without the header of the page nobody asks who it is.
    let bare = world.send(Method::POST, "/v1/clients/a/retry", &own[..1], "").await;
    assert!(bare.problem().1.contains("x-dispatcher-action"), "{bare:?}");
}
