//! The API over a real socket, the ports in memory.

mod fakes;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::http::Method;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::ready;
use serde_json::{Value, json};

use self::fakes::{FakeConfigs, FakeLog, FakeStash, FakeStates, FixedClock};
use super::*;
use crate::domain::client_state::{ClientState, Phase};
use crate::domain::config::Status;
use crate::domain::stash::Backlog;
use crate::domain::transfer::SourcePosition;
use crate::ports::StoreError;
use crate::ports::event_log::{DeadLetter, NewRecord};

/// A served API, and the fakes behind it.
struct World {
    address: SocketAddr,
    log: Arc<FakeLog>,
    configs: Arc<FakeConfigs>,
    stash: Arc<FakeStash>,
    states: Arc<FakeStates>,
    readiness: Arc<Readiness>,
    metrics: Metrics,
    refreshed: Arc<std::sync::Mutex<Vec<ClientId>>>,
    store_is_up: Arc<AtomicBool>,
    actor_state: Arc<std::sync::Mutex<&'static str>>,
    server: actix_web::dev::ServerHandle,
}

impl Drop for World {
    fn drop(&mut self) {
        // The order to stop is given when the future is made.
        drop(self.server.stop(false));
    }
}

impl World {
    fn start() -> Self {
        Self::with_token(None)
    }

    fn with_token(token: Option<&str>) -> Self {
        let log = Arc::new(FakeLog::default());
        let configs = Arc::new(FakeConfigs::default());
        let stash = Arc::new(FakeStash::default());
        let states = Arc::new(FakeStates::default());
        let readiness = Arc::new(Readiness::default());
        let metrics = Metrics::new();
        let refreshed = Arc::new(std::sync::Mutex::new(Vec::new()));
        let store_is_up = Arc::new(AtomicBool::new(true));
        let actor_state = Arc::new(std::sync::Mutex::new("running"));
        readiness.log_is_open();
        readiness.configs_are_loaded();
        readiness.is_started();
        let probe = store_is_up.clone();
        let state = WebState {
            mode: "embedded",
            source_prefix: "mongo".into(),
            admin_token: token.map(Secret::new),
            configs: configs.clone(),
            refresh_config: {
                let refreshed = refreshed.clone();
                Arc::new(move |client: ClientId| {
                    let result = if client.as_str() == "late" { Err("away".to_owned()) } else { Ok(()) };
                    refreshed.lock().unwrap().push(client);
                    ready(result).boxed()
                })
            },
            log: log.clone(),
            stash: stash.clone(),
            states: states.clone(),
            clock: Arc::new(FixedClock),
            metrics: metrics.clone(),
            before_scrape: {
                let metrics = metrics.clone();
                Arc::new(move |()| {
                    metrics.lag.with_label_values(&["source"]).set(7);
                    ready(()).boxed()
                })
            },
            actors: {
                let state = actor_state.clone();
                Arc::new(move || vec![json!({ "kind": "ingest", "state": *state.lock().unwrap() })])
            },
            stores: vec![StoreProbe {
                name: "sqlite".into(),
                check: Arc::new(move |()| {
                    let up = probe.load(Ordering::Relaxed);
                    ready(if up { Ok(()) } else { Err("disk I/O error".to_owned()) }).boxed()
                }),
            }],
            readiness: readiness.clone(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let running = start(state, listener).unwrap();
        let server = running.handle();
        actix_rt::spawn(running);
        Self {
            address,
            log,
            configs,
            stash,
            states,
            readiness,
            metrics,
            refreshed,
            store_is_up,
            actor_state,
            server,
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = awc::Client::default().request(method, format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.insert_header((*name, *value));
        }
        let mut response = request.send_body(body.into()).await.unwrap();
        let body = response.body().limit(64 << 20).await.unwrap();
        let header = |name: &str| {
            response.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
        };
        Answer {
            status: response.status().as_u16(),
            content_type: header("content-type"),
            retry_after: header("retry-after"),
            text: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], "").await
    }

    async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, &[], body.to_string()).await
    }

    async fn post(&self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.send(Method::POST, path, &[], body).await
    }

    fn taken(&self) -> Vec<NewRecord> {
        self.log.records.lock().unwrap().clone()
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    content_type: String,
    retry_after: String,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    /// The status and the detail of a problem document.
    fn problem(&self) -> (u16, String) {
        assert_eq!(self.content_type, "application/problem+json", "{self:?}");
        let document = self.json();
        assert_eq!(document["status"], self.status);
        (self.status, document["detail"].as_str().unwrap().to_owned())
    }
}

const RECORD: &str =
    r#"{"topic":"mongo.a.b","key":"{\"id\":\"1\"}","value":"{}","headers":{"h":"v"},"note":"x"}"#;

#[actix_web::test]
async fn events_are_taken_one_or_many_and_in_order() {
    let world = World::start();
    for (content_type, query, body, count) in [
        ("application/json", "", RECORD.to_owned(), 1),
        ("application/json; charset=utf-8", "", format!("[{RECORD},{RECORD}]"), 2),
        ("application/x-ndjson", "", format!("{RECORD}\n{RECORD}\n{RECORD}\n"), 3),
        ("application/json", "?topic=mongo.c.d", r#"{"_id":1,"__op":"c"}"#.to_owned(), 1),
        ("application/json", "", r#"[{"topic":"mongo.a.b","key":null,"value":"not json"}]"#.to_owned(), 1),
        ("application/json", "", "[]".to_owned(), 0),
    ] {
        world.log.records.lock().unwrap().clear();
        let path = format!("/v1/events{query}");
        let answer = world.send(Method::POST, &path, &[("content-type", content_type)], body.clone()).await;
        assert_eq!((answer.status, answer.json()), (202, json!({ "accepted": count })), "{body}");
        assert_eq!(world.taken().len(), count, "{body}");
    }
    world.log.records.lock().unwrap().clear();
    world.post("/v1/events", RECORD).await;
    let record = &world.taken()[0];
    assert_eq!(&*record.topic, "mongo.a.b");
    assert_eq!(record.key.as_deref(), Some(&br#"{"id":"1"}"#[..]));
    assert_eq!(record.headers, [("h".to_owned(), Bytes::from_static(b"v"))]);
}

#[actix_web::test]
async fn a_broken_request_is_refused_whole_with_its_index() {
    let world = World::start();
    let broken = r#"{"topic":"mongo.a.b","value":"{}","key":5}"#;
    let answer = world.post("/v1/events", format!("[{RECORD},{broken},{RECORD}]")).await;
    assert_eq!(answer.problem().0, 400);
    assert_eq!(answer.json()["index"], 1);
    let lines = [("content-type", "application/x-ndjson")];
    let answer = world.send(Method::POST, "/v1/events", &lines, format!("{RECORD}\n{{\n")).await;
    assert_eq!((answer.problem().0, &answer.json()["index"]), (400, &json!(1)));
    for (headers, body, status) in [
        (&[][..], "", 400),
        (&[], "{", 400),
        (&[], "7", 400),
        (&[("content-type", "text/plain")], RECORD, 415),
        (&[("content-encoding", "gzip")], RECORD, 415),
    ] {
        let answer = world.send(Method::POST, "/v1/events", headers, body).await;
        assert_eq!(answer.problem().0, status, "{headers:?} {body}");
    }
    assert_eq!(world.post("/v1/events?tpoic=x", RECORD).await.problem().0, 400);
    assert!(world.taken().is_empty());
}

#[actix_web::test]
async fn sizes_are_bounded_at_32_mib_a_request_and_16_mib_a_record() {
    let world = World::start();
    let record = |bytes: usize| format!(r#"{{"topic":"mongo.a.b","value":"{}"}}"#, "x".repeat(bytes));
    assert_eq!(world.post("/v1/events", record(16 << 20)).await.status, 202);
    let answer = world.post("/v1/events", record((16 << 20) + 1)).await;
    assert_eq!((answer.problem().0, &answer.json()["index"]), (400, &json!(0)));
    // Announced as too large: refused before the body is sent.
    let mut socket = std::net::TcpStream::connect(world.address).unwrap();
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\r\n",
        world.address,
        REQUEST_BYTES + 1
    );
    let answer = actix_rt::task::spawn_blocking(move || {
        use std::io::{Read, Write};
        socket.write_all(head.as_bytes()).unwrap();
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).unwrap();
        answer
    });
    assert_eq!(&answer.await.unwrap(), b"HTTP/1.1 413");
    // Not announced: refused as soon as it is too large.
    let chunks = (0..33).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1 << 20])));
    let sent = awc::Client::default()
        .post(format!("http://{}/v1/events", world.address))
        .send_stream(futures_util::stream::iter(chunks))
        .await;
    // The connection may break while the rest is still being sent.
    if let Ok(response) = sent {
        assert_eq!(response.status(), 413);
    }
    assert_eq!(world.taken().len(), 1);
}

#[actix_web::test]
async fn an_unavailable_log_or_a_stop_is_503_with_retry_after() {
    let world = World::start();
    *world.log.failure.lock().unwrap() = Some(StoreError::Unavailable("database or disk is full".into()));
    let answer = world.post("/v1/events", RECORD).await;
    assert_eq!(answer.problem(), (503, "store unavailable: database or disk is full".into()));
    assert_eq!(answer.retry_after, "5");
    *world.log.failure.lock().unwrap() = None;
    assert_eq!(world.post("/v1/events", RECORD).await.status, 202);
    world.readiness.close_intake();
    let answer = world.post("/v1/events", RECORD).await;
    assert_eq!((answer.problem().0, answer.retry_after.as_str()), (503, "5"));
    assert_eq!(world.taken().len(), 1);
}

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
    assert_eq!(page["clients"][1]["backlog"]["pending"], 3);
    assert_eq!(page["clients"][2]["config"]["fault"]["key"], "webhook");
    let page = world.get("/v1/clients?limit=3&after=bad").await.json();
    assert_eq!((ids(&page), &page["next"]), (vec!["c".into(), "gone-with-rows".into()], &Value::Null));
    assert_eq!(page["clients"][1]["config"]["deleted"], true);
    assert_eq!(world.get("/v1/clients?limit=x").await.problem().0, 400);
}

#[actix_web::test]
async fn dead_letters_come_by_page_in_the_form_that_events_are_taken_in() {
    let world = World::start();
    let letter = |offset, record| DeadLetter {
        position: SourcePosition { topic: "mongo.a.b".into(), partition: 0, offset },
        timestamp_ms: 5,
        reason: "broken".into(),
        record,
    };
    let record = |value: &'static [u8]| NewRecord {
        topic: "mongo.a.b".into(),
        key: Some(Bytes::from_static(b"k")),
        value: Some(Bytes::from_static(value)),
        headers: vec![("h".into(), Bytes::from_static(b"v"))],
    };
    *world.log.letters.lock().unwrap() = vec![
        (1, letter(0, Some(record(b"not json")))),
        (3, letter(7, Some(record(b"\xff\x00")))),
        (9, letter(8, None)),
    ];
    let page = world.get("/v1/dead-letters?limit=2").await.json();
    assert_eq!(page["next"], 3);
    let letters = page["dead_letters"].as_array().unwrap();
    assert_eq!(letters[0]["reason"], "broken");
    assert_eq!(letters[1]["record"]["value_base64"], "/wA=");
    let rest = world.get("/v1/dead-letters?after=3&limit=2").await.json();
    assert_eq!((&rest["dead_letters"][0]["record"], &rest["next"]), (&Value::Null, &Value::Null));
    assert_eq!(rest["dead_letters"][0]["offset"], 8);

    let again = Value::Array(letters.iter().map(|letter| letter["record"].clone()).collect());
    assert_eq!(world.post("/v1/events", again.to_string()).await.status, 202);
    assert_eq!(world.taken(), [record(b"not json"), record(b"\xff\x00")]);
}

#[actix_web::test]
async fn a_page_of_dead_letters_is_bounded_in_bytes() {
    let world = World::start();
    let value = Bytes::from(vec![b'x'; 3 << 20]);
    let record = NewRecord { topic: "t".into(), key: None, value: Some(value), headers: vec![] };
    let letter = DeadLetter {
        position: SourcePosition { topic: "t".into(), partition: 0, offset: 0 },
        timestamp_ms: 0,
        reason: String::new(),
        record: Some(record),
    };
    *world.log.letters.lock().unwrap() = (1..=20).map(|id| (id, letter.clone())).collect();
    let page = world.get("/v1/dead-letters").await.json();
    assert!(page["dead_letters"].as_array().unwrap().len() < 8);
    assert!(page["next"].is_i64());
}

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
