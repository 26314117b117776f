//! The dashboard: its API, its stream, its log-in, its files.

use std::time::Duration;

use futures_util::StreamExt as _;

use super::*;
use crate::actors::config_cache::config_table;
use crate::actors::dashboard::{About, Gathered, Inputs, Memory, Others, Snapshot};
use crate::actors::meters::Meters;
use crate::domain::client_state::{ClientState, Phase};
use crate::domain::stash::Backlog;
use crate::runtime::Cell;

const TOKEN: &str = "sesame";
const ACTS: (&str, &str) = ("x-dispatcher-action", "1");

/// Makes snapshots of clients that have backlogs.
#[derive(Default)]
struct Looks {
    memory: Memory,
    gathered: Gathered,
}

impl Looks {
    fn put(&mut self, client: &str, pending: u64) {
        let mut backlogs = HashMap::clone(&self.gathered.backlogs);
        backlogs.insert(ClientId::new(client), Backlog { pending, ..Backlog::default() });
        self.gathered.backlogs = Arc::new(backlogs);
        let state = ClientState { phase: Phase::Degraded, ..ClientState::new(1) };
        self.gathered.states = Arc::new(HashMap::from([(ClientId::new(client), state)]));
    }

    fn remove(&mut self, client: &str) {
        let mut backlogs = HashMap::clone(&self.gathered.backlogs);
        backlogs.remove(&ClientId::new(client));
        self.gathered.backlogs = Arc::new(backlogs);
        self.gathered.states = Arc::default();
    }

    /// A snapshot that nobody is told of.
    fn look(&mut self, world: &World) -> Snapshot {
        let (_writer, configs) = config_table();
        self.memory.look(&Inputs {
            here: &here(),
            about: About::default(),
            others: &Others::default(),
            now_ms: 1000,
            seconds: 1.0,
            configs: &configs.snapshot(),
            meters: &Meters::default(),
            registry: &world.registry,
            gathered: &self.gathered,
            give_up: Duration::from_secs(60),
        })
    }

    fn publish(&mut self, world: &World) {
        world.snapshots.send_replace(Arc::new(self.look(world)));
    }
}

#[actix_web::test]
async fn clients_come_by_the_page() {
    let world = World::start();
    let mut looks = Looks::default();
    for number in 0..120 {
        looks.put(&format!("c{number:03}"), number);
    }
    looks.put("odd /id%", 5);
    looks.publish(&world);
    let first = world.get("/v1/dashboard?sort=waiting").await.json();
    assert_eq!(first["overview"]["clients"]["total"], 121);
    assert_eq!(first["clients"]["rows"].as_array().unwrap().len(), 50);
    assert_eq!(first["clients"]["rows"][0]["client"], "c119");
    assert_eq!((&first["clients"]["matched"], &first["clients"]["next"]), (&json!(121), &json!(50)));
    assert_eq!(first["hour"], Value::Null);
    let last = world
        .get("/v1/dashboard?sort=client&reverse=true&filter=C00&offset=8&limit=9&hour=true")
        .await
        .json();
    let ids: Vec<_> = last["clients"]["rows"].as_array().unwrap().iter().map(|row| &row["client"]).collect();
    assert_eq!(ids, ["c001", "c000"]);
    assert_eq!((&last["clients"]["matched"], &last["clients"]["next"]), (&json!(10), &Value::Null));
    assert_eq!(last["hour"], json!([]));
    let one = world.get("/v1/dashboard/odd%20%2Fid%25").await.json();
    assert_eq!(
        (&one["client"]["stashed"], &one["minutes"], &one["actor"]),
        (&json!(5), &json!([]), &Value::Null)
    );
    assert_eq!(world.get("/v1/dashboard/nobody").await.problem().0, 404);
    for refused in ["limit=x", "sort=size", "phase=ill", "more=1"] {
        assert_eq!(world.get(&format!("/v1/dashboard?{refused}")).await.problem().0, 400, "{refused}");
    }
}

#[actix_web::test]
async fn actors_come_by_the_page() {
    let world = World::start();
    for id in ["a", "b", "c"] {
        world.registry.insert(Cell::new("delivery", id));
    }
    world.registry.insert(Cell::new("stash", ""));
    let all = world.get("/v1/actors").await.json();
    assert_eq!((&all["matched"], &all["rows"][0]["kind"]), (&json!(4), &json!("stash")));
    let some = world.get("/v1/actors?kind=delivery&filter=B").await.json();
    assert_eq!((&some["matched"], &some["rows"][0]["id"]), (&json!(1), &json!("b")));
    let part = world.get("/v1/actors?kind=delivery&state=running&limit=2").await.json();
    assert_eq!((&part["matched"], &part["next"]), (&json!(3), &json!(2)));
    assert_eq!(world.get("/v1/actors?state=failed").await.json()["matched"], 0);
}

/// The events of a stream as they come.
struct Listener {
    body: futures_util::stream::LocalBoxStream<'static, Bytes>,
    text: String,
}

impl Listener {
    async fn start(world: &World, query: &str, headers: &[(&str, &str)]) -> Self {
        let address = format!("http://{}/v1/stream{query}", world.address);
        let mut request = awc::Client::default().get(address).timeout(Duration::from_secs(10));
        for header in headers {
            request = request.insert_header(*header);
        }
        let body = request.send().await.unwrap().map(Result::unwrap).boxed_local();
        Self { body, text: String::new() }
    }

    /// The next event: its name and data; `None`: the stream is over.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                if let (Some(name), Some(data)) = (field("event: "), field("data: ")) {
                    return Some((name.to_owned(), serde_json::from_str(data).unwrap()));
                }
                continue;
            }
            let more = tokio::time::timeout(Duration::from_secs(20), self.body.next()).await.unwrap()?;
            self.text.push_str(std::str::from_utf8(&more).unwrap());
        }
    }

    async fn expect(&mut self, name: &str) -> Value {
        let (is, data) = self.next().await.expect("the stream goes on");
        assert_eq!(is, name, "{data}");
        data
    }
}

#[actix_web::test]
async fn a_stream_tells_of_the_clients_that_it_was_asked_for_and_ends_when_the_service_stops() {
    let world = World::start();
    let mut looks = Looks::default();
    looks.put("a", 1);
    looks.put("other", 1);
    looks.publish(&world);
    let mut all = Listener::start(&world, "", &[]).await;
    let mut listener = Listener::start(&world, "?client=a&client=b%20%2F&client=never", &[]).await;
    let told = |clients: &Value| {
        let changed: Vec<_> =
            clients["changed"].as_array().unwrap().iter().map(|one| one["client"].clone()).collect();
        (Value::from(changed), clients["gone"].clone())
    };
    assert_eq!(listener.expect("snapshot").await["overview"]["stash"]["pending"], 2);
    assert_eq!(told(&listener.expect("clients").await), (json!(["a"]), json!([])), "as it is at first");

    // Of what did not change, and of others, nothing is told.
    looks.put("other", 7);
    looks.publish(&world);
    assert_eq!(listener.expect("snapshot").await["number"], 2);
    looks.put("b /", 4);
    looks.publish(&world);
    assert_eq!(listener.expect("snapshot").await["overview"]["stash"]["pending"], 12);
    assert_eq!(told(&listener.expect("clients").await), (json!(["b /"]), json!([])));

    // It misses one: what changed in it is told with the next.
    looks.put("a", 2);
    looks.look(&world);
    looks.publish(&world);
    listener.expect("snapshot").await;
    let clients = listener.expect("clients").await;
    assert!(told(&clients).0.as_array().unwrap().contains(&json!("a")), "{clients}");

    looks.remove("a");
    looks.publish(&world);
    listener.expect("snapshot").await;
    assert_eq!(listener.expect("clients").await["gone"], json!(["a"]));

    world.stopping.cancel();
    listener.expect("stopping").await;
    assert_eq!(listener.next().await, None);
    // One that asked for none is told of none.
    while let Some((name, _)) = all.next().await {
        assert_ne!(name, "clients");
    }
}

#[actix_web::test]
async fn a_stream_tells_of_so_many_clients_and_no_more() {
    let world = World::start();
    let names = |count: usize| vec!["client=a"; count].join("&");
    drop(Listener::start(&world, &format!("?{}", names(100)), &[]).await);
    for refused in [names(101), "clients=a".to_owned(), "client=a&x=1".to_owned()] {
        assert_eq!(world.get(&format!("/v1/stream?{refused}")).await.problem().0, 400, "{refused}");
    }
}

#[actix_web::test]
async fn no_more_streams_than_may_be() {
    let world = World::start();
    let mut listeners = Vec::new();
    for _ in 0..32 {
        let mut listener = Listener::start(&world, "", &[]).await;
        listener.expect("snapshot").await;
        listeners.push(listener);
    }
    let (status, detail) = world.get("/v1/stream").await.problem();
    assert_eq!(status, 503, "{detail}");
    drop(listeners);
    // Their places are free as soon as the service sees that they are gone: it finds out when it writes to them.
    let mut looks = Looks::default();
    let free = async {
        loop {
            looks.publish(&world);
            let response =
                awc::Client::default().get(format!("http://{}/v1/stream", world.address)).send().await;
            if response.unwrap().status().is_success() {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), free).await.expect("a place is free again");
}

/// The cookie of a log-in.
async fn log_in(world: &World) -> String {
    let answer = awc::Client::default()
        .put(format!("http://{}/dashboard/session", world.address))
        .insert_header(ACTS)
        .send_body(json!({ "token": TOKEN }).to_string())
        .await
        .unwrap();
    assert_eq!(answer.status(), 204);
    let cookie = answer.headers().get("set-cookie").unwrap().to_str().unwrap().to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    cookie.split(';').next().unwrap().to_owned()
}

#[actix_web::test]
async fn a_session_looks_and_acts_only_with_the_header_of_the_page() {
    let world = World::with_token(Some(TOKEN));
    assert_eq!(world.get("/v1/dashboard").await.problem().0, 401);
    let open = world.get("/dashboard/session").await.json();
    assert_eq!(open, json!({ "needs_token": true, "signed_in": false }));
    let cookie = log_in(&world).await;
    let own = ("cookie", cookie.as_str());
    assert_eq!(world.send(Method::GET, "/v1/dashboard", &[own], "").await.status, 200);
    assert_eq!(world.send(Method::GET, "/dashboard/session", &[own], "").await.json()["signed_in"], true);
    Listener::start(&world, "", &[own]).await.expect("snapshot").await;

    let config = json!({ "value": { "webhook": "http://a.test/" } }).to_string();
    let put = async |headers: &[(&str, &str)]| {
        world.send(Method::PUT, "/v1/clients/a", headers, config.clone()).await
    };
    let (status, detail) = put(&[own]).await.problem();
    assert!(status == 403 && detail.contains("x-dispatcher-action"), "{status} {detail}");
    assert_eq!(put(&[own, ACTS]).await.status, 201);
    assert_eq!(put(&[ACTS]).await.status, 401);
    let forged = format!("{cookie}0");
    assert_eq!(put(&[("cookie", &forged), ACTS]).await.status, 401);
    // A wrong token is wrong, whatever cookie comes with it.
    assert_eq!(put(&[own, ACTS, ("authorization", "Bearer no")]).await.status, 401);
}

#[actix_web::test]
async fn a_log_in_takes_the_token_and_the_header() {
    let world = World::with_token(Some(TOKEN));
    let put = async |headers: &[(&str, &str)], body: &str| {
        world.send(Method::PUT, "/dashboard/session", headers, body.to_owned()).await.status
    };
    let right = json!({ "token": TOKEN }).to_string();
    assert_eq!(put(&[], &right).await, 403);
    assert_eq!(put(&[ACTS], r#"{"token":"sesame1"}"#).await, 401);
    assert_eq!(put(&[ACTS], "sesame").await, 400);
    assert_eq!(put(&[ACTS], &"x".repeat(9 << 10)).await, 413);
    assert_eq!(put(&[ACTS], &right).await, 204);
    assert_eq!(world.send(Method::DELETE, "/dashboard/session", &[], "").await.status, 403);
    assert_eq!(world.send(Method::DELETE, "/dashboard/session", &[ACTS], "").await.status, 204);
}

#[actix_web::test]
async fn the_page_is_served_with_a_strict_policy() {
    let world = World::start();
    let get = async |path: &str, headers: &[(&str, &str)]| {
        let mut request = awc::Client::builder()
            .disable_redirects()
            .finish()
            .get(format!("http://{}{path}", world.address));
        for header in headers {
            request = request.insert_header(*header);
        }
        request.send().await.unwrap()
    };
    let page = get("/dashboard", &[]).await;
    assert_eq!(page.status(), 200);
    let header =
        |name: &str| page.headers().get(name).map(|value| value.to_str().unwrap()).unwrap_or_default();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    let policy = header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let again = get("/dashboard", &[("if-none-match", header("etag"))]).await;
    assert_eq!(again.status(), 304);
    assert_eq!(
        get("/dashboard/main.js", &[]).await.headers().get("content-type").unwrap(),
        "text/javascript; charset=utf-8"
    );
    for missing in ["/dashboard/", "/dashboard/none.js", "/dashboard/..%2fmod.rs"] {
        assert_eq!(get(missing, &[]).await.status(), 404, "{missing}");
    }
    let queues = get("/bullmq", &[]).await;
    assert_eq!(
        (queues.status().as_u16(), queues.headers().get("location").unwrap().to_str().unwrap()),
        (302, "/dashboard#/queues")
    );
    // Without a token: this machine only, and no page of another site.
    assert_eq!(get("/dashboard", &[("x-forwarded-for", "203.0.113.9")]).await.status(), 403);
    let with_token = World::with_token(Some(TOKEN));
    assert_eq!(
        with_token.send(Method::GET, "/dashboard", &[("x-forwarded-for", "203.0.113.9")], "").await.status,
        200
    );
}
