//! Who is answered, and what is not there.

use actix_web::http::Method;

use super::{RECORD, World};

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
