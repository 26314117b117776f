//! Delivery actors that break in every way: each comes back, says why, and nobody else is hurt.

mod unhurt;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dispatcher::domain::config::ClientId;
use dispatcher::domain::transfer::partition_of;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::events::Document;
use crate::kit::ledger::Arrival;
use crate::kit::oracle::{Sent, assert_kept};
use crate::kit::receiver::Receiver;
use crate::kit::service::{Builder, Service};
use crate::kit::wait::{eventually, holds};

const LONG: Duration = Duration::from_secs(60);

/// `acme`'s actor breaks. One client shares its thread, the other does not.
struct World {
    service: Service,
    receiver: Receiver,
    near: String,
    far: String,
    documents: Vec<Document>,
    sent: Sent,
    _settings: TempDir,
}

impl World {
    async fn start(fault: &str) -> Self {
        Self::start_as(Service::shared(), fault, "").await
    }

    async fn start_as(builder: Builder, fault: &str, delivery: &str) -> Self {
        let (folder, settings) = settings(delivery);
        let service = builder
            .env("DISPATCHER_FAULT", fault)
            .env("DISPATCHER_CONFIG", settings.to_str().unwrap())
            .start()
            .await;
        let receiver = Receiver::healthy();
        let (near, far) = (neighbour(true), neighbour(false));
        for client in ["acme", &near, &far] {
            service.api().put_client(client, json!({ "webhook": receiver.hook(client) })).await;
        }
        let documents = (0..10).map(|number| Document::new(number, &["acme", &near, &far])).collect();
        Self { service, receiver, near, far, documents, sent: Sent::default(), _settings: folder }
    }

    /// Sends a change of each document.
    async fn change(&mut self) {
        let records: Vec<Value> = self.documents.iter_mut().map(Document::change).collect();
        self.sent.acknowledged.extend(self.documents.iter().flat_map(Document::pairs));
        self.service.api().send(&records).await;
    }

    /// Waits until everything has arrived but so many dead letters of `acme`, and judges it.
    async fn judge(&self, dead: usize) {
        self.receiver.ledger().wait_for(self.sent.acknowledged.len() - dead, LONG).await;
        self.service.api().wait_until_idle(LONG).await;
        let rows = |client: &str| if client == "acme" { dead } else { 0 };
        assert_kept(&self.sent, &self.receiver.ledger().arrivals(), rows);
    }

    /// When requests of a client came.
    fn arrivals(&self, client: &str) -> Vec<Arrival> {
        let arrivals = self.receiver.ledger().arrivals();
        arrivals.into_iter().filter(|arrival| arrival.client == client).collect()
    }

    /// Changes go to everybody, twice a second or so, while something is waited for.
    async fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let mut next = Instant::now();
        eventually(what, LONG, async || {
            if next <= Instant::now() {
                next = Instant::now() + Duration::from_millis(500);
                self.change().await;
            }
            holds(is_so(self), || "not yet".to_owned())
        })
        .await;
    }

    async fn actor(&self, client: &str) -> Value {
        let (_, status) = self.service.api().status().await;
        let actors = status["actors"].as_array().unwrap();
        let found = actors.iter().find(|actor| actor["kind"] == "delivery" && actor["id"] == *client);
        found.unwrap_or_else(|| panic!("no actor of {client} in {status:#}")).clone()
    }

    /// The longest time in which a client got nothing, though something was sent twice a second.
    fn longest_pause(&self, client: &str) -> Duration {
        let arrivals = self.arrivals(client);
        arrivals.windows(2).map(|pair| pair[1].at - pair[0].at).max().unwrap_or_default()
    }
}

/// Two threads deliver.
/// Two threads, and what else is said of the deliveries.
fn settings(delivery: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings.toml");
    std::fs::write(&file, format!("[delivery]\nthreads = 2\n{delivery}\n")).unwrap();
    (folder, file)
}

/// A client whose actor is on the same thread as that of `acme`, or on the other.
fn neighbour(same: bool) -> String {
    let thread = |client: &str| partition_of(&ClientId::new(client), 12) % 2;
    let mut names = (0..).map(|number| format!("client{number}"));
    names.find(|name| (thread(name) == thread("acme")) == same).unwrap()
}

#[actix_web::test]
async fn a_frozen_actor_is_back_within_five_seconds_and_nobody_else_is_hurt() {
    let mut world = World::start("freeze=acme:15").await;
    world.until("acme is back", |world| world.arrivals("acme").len() > 25).await;
    world.change().await;
    world.judge(0).await;
    let actor = world.actor("acme").await;
    assert_eq!(
        (&actor["exits"], &actor["last_cause"]["reason"]),
        (&json!({ "frozen": 1 }), &json!("frozen"))
    );
    assert!(world.longest_pause("acme") > Duration::from_secs(2), "it was not frozen");
    assert!(world.longest_pause("acme") < Duration::from_millis(5_500), "{:?}", world.longest_pause("acme"));
    for other in [&world.near, &world.far] {
        assert_eq!(world.actor(other).await["restarts"], 0);
        assert!(world.longest_pause(other) < Duration::from_secs(2), "{:?}", world.longest_pause(other));
    }
}

#[actix_web::test]
async fn a_thread_that_makes_no_progress_is_lost_and_counts_for_nothing_when_it_goes_on() {
    let mut world = World::start("spin8s=acme:15").await;
    world.until("the thread goes on", |world| world.service.log().contains("fault is over")).await;
    world.until("more of all", |world| world.arrivals("acme").len() > 40).await;
    world.judge(0).await;
    let (actor, near, far) =
        (world.actor("acme").await, world.actor(&world.near).await, world.actor(&world.far).await);
    assert_eq!(actor["exits"], json!({ "lost_arbiter": 1 }), "{actor:#}");
    assert_eq!(actor["last_cause"]["message"], "did not yield its thread", "{actor:#}");
    assert_eq!(near["last_cause"]["message"], "its thread was lost to another", "{near:#}");
    assert_eq!((&actor["state"], &far["restarts"]), (&json!("running"), &json!(0)));
    assert_eq!(world.service.api().metrics().await.sum("arbiters_lost_total", &[]), 1.0);
    for client in ["acme", &world.near] {
        let pause = world.longest_pause(client);
        assert!(
            pause > Duration::from_secs(3) && pause < Duration::from_millis(7_500),
            "{client}: {pause:?}"
        );
    }
    assert!(
        world.longest_pause(&world.far) < Duration::from_secs(2),
        "{:?}",
        world.longest_pause(&world.far)
    );
}

#[actix_web::test]
async fn the_third_lost_thread_ends_the_process_for_its_service_manager() {
    let (_folder, settings) = settings("");
    let data = tempfile::tempdir().unwrap();
    let receiver = Receiver::healthy();
    let mut documents: Vec<Document> = (0..10).map(|number| Document::new(number, &["acme"])).collect();
    let mut sent = Sent::default();
    let builder = || {
        let builder = Service::shared().env("DISPATCHER_CONFIG", settings.to_str().unwrap());
        builder.data(data.path())
    };
    {
        let mut service =
            builder().env("DISPATCHER_FAULT", "spin=acme:2 spin=acme:4 spin=acme:6").start().await;
        service.api().put_client("acme", json!({ "webhook": receiver.hook("acme") })).await;
        let records: Vec<Value> = documents.iter_mut().map(Document::change).collect();
        sent.acknowledged.extend(documents.iter().flat_map(Document::pairs));
        service.api().send(&records).await;
        assert_eq!(service.wait_for_exit(LONG).await.code(), Some(70));
    }
    let service = builder().start().await;
    service.api().wait_until_idle(LONG).await;
    assert_kept(&sent, &receiver.ledger().arrivals(), |_| 0);
}

#[actix_web::test]
async fn what_kills_its_actor_twice_is_a_dead_letter() {
    let killer = Document::new(3, &[]).id();
    let mut world = World::start(&format!("panic=acme:#{killer}")).await;
    world.change().await;
    world.judge(1).await;
    let actor = world.actor("acme").await;
    assert_eq!(actor["exits"], json!({ "panicked": 2 }), "{actor:#}");
    assert!(!actor.to_string().contains("asked to by"), "the text of a panic is shown: {actor:#}");
    eventually("the dashboard shows it", LONG, async || {
        let board = world.service.api().get("/v1/dashboard/acme").await?.json();
        let shown = board["actor"]["exits"] == actor["exits"] && board["actor"]["mailbox"] == 0;
        holds(shown, || board.to_string())
    })
    .await;
    let metrics = world.service.api().metrics().await;
    assert_eq!(metrics.sum("stash_rows", &[("state", "dead")]), 1.0);
    let ids: Vec<String> =
        world.arrivals("acme").iter().map(|arrival| arrival.change.clone().unwrap().id).collect();
    assert!(!ids.contains(&killer) && ids.len() >= 9, "{ids:?}");
}

#[actix_web::test]
async fn why_an_actor_broke_is_shown_while_its_client_has_nothing_to_do() {
    let mut world = World::start_as(Service::shared(), "panic=acme:1", "idle_after = \"300ms\"").await;
    world.change().await;
    world.judge(0).await;
    let api = world.service.api();
    let board = eventually("the actor rests", LONG, async || {
        let board = api.get("/v1/dashboard/acme").await?.json();
        holds(board["client"]["actor"].is_null() && board["client"]["restarts"] == 1, || board.to_string())?;
        Ok(board)
    })
    .await;
    let actor = &board["actor"];
    assert_eq!(
        (&actor["state"], &actor["last_cause"]["reason"]),
        (&json!("stopped"), &json!("panicked")),
        "{board:#}"
    );
    assert_eq!(board["client"]["broke_lately"], true);
}

#[actix_web::test]
async fn an_operator_restarts_actors() {
    let mut world = World::start("").await;
    world.change().await;
    world.judge(0).await;
    for (path, status) in
        [("delivery/acme", 202), ("stash/-", 202), ("fleet/-", 202), ("delivery/nobody", 404)]
    {
        let path = format!("/v1/actors/{path}/restart");
        assert_eq!(world.service.api().post(&path, &json!({})).await.unwrap().status, status, "{path}");
    }
    world.change().await;
    world.judge(0).await;
    let actor = world.actor("acme").await;
    assert_eq!((&actor["exits"], &actor["last_cause"]["reason"]), (&json!({ "asked": 1 }), &json!("asked")));
}
