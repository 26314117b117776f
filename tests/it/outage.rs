//! A webhook that fails for a while: everything arrives afterwards, in order, and nobody else notices.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kit::api::Api;
use crate::kit::events::Document;
use crate::kit::long_run::outage_or;
use crate::kit::oracle::{Sent, assert_kept, assert_one_at_a_time};
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::service::Service;
use crate::kit::wait::{eventually, holds};

const LONG: Duration = Duration::from_secs(90);
/// How long the receiver is down, in a usual run.
const OUTAGE: Duration = Duration::from_secs(5);

#[actix_web::test]
async fn a_receiver_that_was_down_gets_everything_in_order() {
    let service = Service::shared().start().await;
    let receiver = Receiver::healthy();
    let neighbour = Receiver::healthy();
    let api = service.api();
    api.put_client("down", json!({ "webhook": receiver.hook("down") })).await;
    api.put_client("up", json!({ "webhook": neighbour.hook("up") })).await;
    let mut source = Source::new(20, &["down", "up"]);
    source.round(api).await;
    receiver.ledger().wait_for(20, LONG).await;

    receiver.pause();
    let down_since = Instant::now();
    while down_since.elapsed() < outage_or(OUTAGE) {
        source.round(api).await;
        neighbour.ledger().wait_for(source.sent.acknowledged.len() / 2, LONG).await;
    }
    // At least one retry has failed too.
    api.wait_for_metric("deliveries_total", &[("reason", "connect")], 2.0, LONG).await;
    receiver.resume();

    receiver.ledger().wait_for(source.sent.acknowledged.len() / 2, LONG).await;
    api.wait_until_idle(LONG).await;
    let mut arrivals = receiver.ledger().arrivals();
    assert_one_at_a_time(&arrivals);
    arrivals.extend(neighbour.ledger().arrivals());
    assert_kept(&source.sent, &arrivals, |_| 0);
}

#[actix_web::test]
async fn a_receiver_that_fails_now_and_then_gets_everything_in_order() {
    let service = Service::shared().start().await;
    let requests = AtomicUsize::new(0);
    let receiver = Receiver::start(move |_| match requests.fetch_add(1, Ordering::Relaxed) % 9 {
        2 => Answer::Status(500),
        5 => Answer::Status(404),
        7 => Answer::Reset,
        _ => Answer::Status(200),
    });
    let api = service.api();
    api.put_client("flaky", json!({ "webhook": receiver.hook("flaky") })).await;
    let mut source = Source::new(10, &["flaky"]);
    for _ in 0..6 {
        source.round(api).await;
    }

    receiver.ledger().wait_for(60, LONG).await;
    api.wait_until_idle(LONG).await;

    assert_kept(&source.sent, &receiver.ledger().arrivals(), |_| 0);
}

#[actix_web::test]
async fn what_waits_survives_a_restart() {
    let mut service = Service::shared().start().await;
    let receiver = Receiver::healthy();
    service.api().put_client("down", json!({ "webhook": receiver.hook("down") })).await;
    receiver.pause();
    let mut source = Source::new(30, &["down"]);
    for _ in 0..3 {
        source.round(service.api()).await;
    }
    service.api().wait_for_metric("stash_rows", &[("state", "pending")], 1.0, LONG).await;

    service.kill();
    service.start_again().await;
    // Changes that come now may not overtake those that wait.
    source.round(service.api()).await;
    receiver.resume();

    receiver.ledger().wait_for(120, LONG).await;
    service.api().wait_until_idle(LONG).await;
    assert_kept(&source.sent, &receiver.ledger().arrivals(), |_| 0);
}

#[actix_web::test]
async fn nothing_is_sent_before_the_time_that_retry_after_asks_for() {
    let service = Service::shared().start().await;
    let requests = AtomicUsize::new(0);
    let receiver = Receiver::start(move |_| match requests.fetch_add(1, Ordering::Relaxed) {
        0 => Answer::WithHeader(503, "retry-after", "2".into()),
        _ => Answer::Status(200),
    });
    let api = service.api();
    // One request at a time, so that the answer is known before the next could start.
    let value = json!({ "webhook": receiver.hook("busy"), "concurrency": 1 });
    api.put_client("busy", value).await;
    let mut source = Source::new(5, &["busy"]);
    source.round(api).await;

    receiver.ledger().wait_for(5, LONG).await;

    let arrivals = receiver.ledger().arrivals();
    let waited = arrivals[1].at - arrivals[0].at;
    assert!(waited >= Duration::from_secs(2), "{waited:?}");
    assert_kept(&source.sent, &arrivals, |_| 0);
}

#[actix_web::test]
async fn a_payload_that_is_always_refused_dies_visibly_and_lets_the_next_one_pass() {
    // Ten attempts, each wait twice the one before: a short first wait keeps this within seconds.
    let service = Service::shared().env("DISPATCHER_RETRY_BASE", "5ms").start().await;
    let receiver = Receiver::start(|arrival| {
        let version = arrival.change.as_ref().and_then(|change| change.version);
        Answer::Status(if version == Some(1) { 422 } else { 200 })
    });
    let api = service.api();
    api.put_client("picky", json!({ "webhook": receiver.hook("picky") })).await;
    let mut document = Document::new(1, &["picky"]);
    api.send(&[document.create()]).await;
    eventually("a dead row", LONG, async || {
        let dead = api.metrics().await.sum("stash_rows", &[("state", "dead")]);
        holds(dead == 1.0, || format!("{dead} dead rows"))
    })
    .await;
    assert_eq!(receiver.ledger().len(), 10, "ten refusals, as the design says");

    api.send(&[document.change()]).await;

    let arrivals = receiver.ledger().wait_for(2, LONG).await;
    assert_eq!(arrivals.last().unwrap().change.as_ref().unwrap().version, Some(2));
    // Superseded by it: no longer a letter that could be replayed.
    eventually("no dead row", LONG, async || {
        let dead = api.metrics().await.sum("stash_rows", &[("state", "dead")]);
        holds(dead == 0.0, || format!("{dead} dead rows"))
    })
    .await;
}

/// Documents that change in rounds, and what was sent of them.
struct Source {
    documents: Vec<Document>,
    sent: Sent,
}

impl Source {
    fn new(documents: u64, clients: &[&str]) -> Self {
        let documents = (0..documents).map(|number| Document::new(number, clients)).collect();
        Self { documents, sent: Sent::default() }
    }

    /// Changes every document once, in one request.
    async fn round(&mut self, api: &Api) {
        let records: Vec<Value> = self.documents.iter_mut().map(Document::change).collect();
        api.send(&records).await;
        self.sent.acknowledged.extend(self.documents.iter().flat_map(Document::pairs));
    }
}
