//! While one delivery actor breaks again and again, the others deliver as they did before. To be measured on a machine that does nothing else:
//! `cargo test --test it -- --ignored --nocapture unhurt::`.

use std::collections::HashMap;

use super::*;
use crate::kit::oracle::Pair;

/// Between two changes, of which each goes to all three clients.
const PACE: Duration = Duration::from_millis(50);
const WINDOW: Duration = Duration::from_secs(1);
/// How long is looked before the first fault, and from it on.
const LOOKED: Duration = Duration::from_secs(9);
/// The service is a debug build on a machine that does other things: what is smaller than this tells nothing. A thread that is held up
/// costs hundreds.
const NOISE: Duration = Duration::from_millis(10);

/// A steady stream of changes, and how long each took.
struct Steady {
    world: World,
    sent: HashMap<Pair, Instant>,
    broke: Option<Instant>,
}

impl Steady {
    /// `acme`'s actor breaks after about as many changes as are sent before.
    async fn run(how: &str, times: u64) -> Self {
        let first = LOOKED.as_millis() as u64 / PACE.as_millis() as u64;
        let faults: Vec<_> = (0..times).map(|number| format!("{how}=acme:{}", first + number * 20)).collect();
        let world = World::start_as(Service::alone(), &faults.join(" "), "").await;
        let mut steady = Self { world, sent: HashMap::new(), broke: None };
        let mut pace = tokio::time::interval(PACE);
        let mut number = 0;
        while steady.broke.is_none_or(|broke| broke.elapsed() < LOOKED) {
            pace.tick().await;
            number += 1;
            steady.change(number).await;
            if steady.broke.is_none() && steady.world.service.log().contains("fault asked for") {
                steady.broke = Some(Instant::now());
            }
            assert!((number as u64) < 10 * first, "no fault");
        }
        steady.world.judge(0).await;
        steady
    }

    async fn change(&mut self, number: usize) {
        let count = self.world.documents.len();
        let document = &mut self.world.documents[number % count];
        let record = document.change();
        let pairs: Vec<Pair> = document.pairs().collect();
        self.sent.extend(pairs.iter().cloned().map(|pair| (pair, Instant::now())));
        self.world.sent.acknowledged.extend(pairs);
        self.world.service.api().send(&[record]).await;
    }

    /// The median of the 99th percentiles of a client's windows: before the first fault, and from it on.
    fn p99(&self, client: &str) -> [Duration; 2] {
        let broke = self.broke.unwrap();
        let mut windows: [HashMap<u128, Vec<Duration>>; 2] = Default::default();
        for arrival in self.world.arrivals(client) {
            let change = arrival.change.unwrap();
            let (client, version) = (client.to_owned(), change.version.unwrap());
            let pair = Pair { client, topic: change.topic, id: change.id, version };
            let sent = self.sent[&pair];
            let (phase, since) = match broke.checked_duration_since(sent) {
                Some(before) => (0, before),
                None => (1, sent - broke),
            };
            let window = since.as_millis() / WINDOW.as_millis();
            windows[phase].entry(window).or_default().push(arrival.at - sent);
        }
        windows.map(|windows| {
            let of_windows = windows.into_values().filter(|took| took.len() >= 10);
            let mut worst: Vec<_> = of_windows.map(|took| took.into_iter().max().unwrap()).collect();
            assert!(worst.len() >= 5, "too few windows: {worst:?}");
            worst.sort();
            worst[worst.len() / 2]
        })
    }

    fn is_unhurt(&self, client: &str) {
        let [before, during] = self.p99(client);
        println!("{client}: p99 {before:?} before, {during:?} meanwhile");
        assert!(during < before.mul_f64(1.3) + NOISE, "{client}: {before:?} before, {during:?} meanwhile");
    }

    /// What is shown of `acme` when its actor was restarted so often, or oftener: how often, and why the last time.
    async fn cause(&self, restarts: u64) -> (u64, Value) {
        let api = self.world.service.api();
        let actors = api.get("/v1/actors?kind=delivery&filter=acme&state=problem").await.unwrap().json();
        let restarts = eventually("the dashboard shows the restarts", LONG, async || {
            let shown = api.get("/v1/dashboard?filter=acme").await?.json();
            let found = shown["clients"]["rows"][0]["restarts"].as_u64().unwrap_or_default();
            holds(found >= restarts, || shown.to_string())?;
            Ok(found)
        })
        .await;
        (restarts, actors["rows"][0]["last_cause"]["reason"].clone())
    }
}

#[actix_web::test]
#[ignore = "measures latencies, alone on its machine"]
async fn by_panics() {
    let steady = Steady::run("panic", 6).await;
    assert_eq!(steady.cause(6).await, (6, json!("panicked")));
    for client in [&steady.world.near, &steady.world.far] {
        steady.is_unhurt(client);
    }
}

#[actix_web::test]
#[ignore = "measures latencies, alone on its machine"]
async fn by_freezes() {
    let steady = Steady::run("freeze", 3).await;
    let (restarts, cause) = steady.cause(2).await;
    assert!(restarts >= 2 && cause == "frozen", "{restarts} {cause}");
    for client in [&steady.world.near, &steady.world.far] {
        steady.is_unhurt(client);
    }
}

/// Those on its thread wait until it is found out that it is lost: see the other tests.
#[actix_web::test]
#[ignore = "measures latencies, alone on its machine"]
async fn by_a_spin() {
    let steady = Steady::run("spin8s", 1).await;
    assert_eq!(steady.cause(1).await, (1, json!("lost_arbiter")));
    steady.is_unhurt(&steady.world.far);
}
