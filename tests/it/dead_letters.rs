//! Dead letters: seen, sent again, deleted; and source records that could not be read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::kit::api::Api;
use crate::kit::events::Document;
use crate::kit::ledger::Arrival;
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::service::{self, Service};
use crate::kit::wait::{eventually, holds};

const SOON: Duration = Duration::from_secs(30);

/// A webhook that refuses some documents until it is mended.
fn broken(poisoned: &[String]) -> (Receiver, Arc<AtomicBool>) {
    let (mended, poisoned) = (Arc::new(AtomicBool::new(false)), poisoned.to_vec());
    let is_mended = mended.clone();
    let receiver = Receiver::start(move |arrival| {
        let id = arrival.change.as_ref().map(|change| &change.id);
        let refused = id.is_some_and(|id| poisoned.contains(id)) && !is_mended.load(Ordering::SeqCst);
        Answer::Status(if refused { 422 } else { 200 })
    });
    (receiver, mended)
}

fn of(arrivals: &[Arrival], document: &Document) -> Vec<Arrival> {
    let id = document.id();
    let mine = |arrival: &&Arrival| arrival.change.as_ref().is_some_and(|change| change.id == id);
    arrivals.iter().filter(mine).cloned().collect()
}

fn version(arrival: &Arrival) -> u64 {
    arrival.change.as_ref().unwrap().version.unwrap()
}

async fn letters(api: &Api, query: &str) -> Vec<Value> {
    let page = api.get(&format!("/v1/dead-letters?{query}")).await.unwrap();
    assert_eq!(page.status, 200, "{}", page.text());
    page.json()["dead_letters"].as_array().unwrap().clone()
}

/// Waits until there are so many letters of a state.
async fn wait_for_letters(api: &Api, state: &str, count: usize) -> Vec<Value> {
    eventually(&format!("{count} {state} letters"), SOON, async || {
        let found = letters(api, &format!("client=acme&state={state}")).await;
        holds(found.len() == count, || format!("{found:?}")).map(|()| found)
    })
    .await
}

fn replay_of(letter: &Value) -> String {
    format!("/v1/dead-letters/acme/{}/replay", letter["event_id"].as_str().unwrap())
}

#[actix_web::test]
async fn a_dead_letter_is_seen_and_replayed_when_the_receiver_is_mended() {
    let service = Service::shared().env("DISPATCHER_RETRY_BASE", "5ms").start().await;
    let api = service.api();
    let mut poisoned = Document::new(9, &["acme"]);
    let (receiver, mended) = broken(&[poisoned.id()]);
    api.put_client("acme", json!({ "webhook": receiver.hook("acme") })).await;
    let mut healthy: Vec<Document> = (1..=5).map(|number| Document::new(number, &["acme"])).collect();

    // Among healthy documents: none of them waits for it.
    api.send(&[poisoned.create()]).await;
    for _ in 0..20 {
        let changes: Vec<Value> = healthy.iter_mut().map(Document::change).collect();
        api.send(&changes).await;
    }
    let dead = wait_for_letters(api, "dead", 1).await;
    api.wait_until_idle(SOON).await;
    let arrivals = receiver.ledger().arrivals();
    for document in &healthy {
        assert_eq!(of(&arrivals, document).len(), 20, "each once");
    }
    let refused = of(&arrivals, &poisoned);
    assert_eq!((refused.len(), dead[0]["attempts"].as_u64()), (10, Some(10)));
    assert_eq!((&dead[0]["reason"], &dead[0]["status"]), (&json!("status_422"), &json!(422)));
    let path = format!("/v1/dead-letters/acme/{}", dead[0]["event_id"].as_str().unwrap());
    let shown = api.get(&format!("{path}?body=true")).await.unwrap().json();
    assert_eq!(shown["body"].as_str().unwrap().as_bytes(), &refused[0].body[..]);

    // It is still refused: dead again, with one attempt more.
    assert_eq!(api.post(&replay_of(&dead[0]), &json!({})).await.unwrap().status, 202);
    eventually("one attempt more", SOON, async || {
        let letter = api.get(&path).await.unwrap().json();
        holds(letter["attempts"] == 11, || letter.to_string())
    })
    .await;

    mended.store(true, Ordering::SeqCst);
    assert_eq!(api.post(&replay_of(&dead[0]), &json!({})).await.unwrap().status, 202);
    wait_for_letters(api, "dead", 0).await;
    api.wait_until_idle(SOON).await;
    let arrivals = of(&receiver.ledger().arrivals(), &poisoned);
    let last = arrivals.last().unwrap();
    assert_eq!((arrivals.len(), last.header("webhook-replay")), (12, "true"));
    assert_eq!(refused[0].header("webhook-replay"), "");
    assert_eq!((last.webhook_id(), &last.body), (refused[0].webhook_id(), &refused[0].body));
    assert_eq!(api.get(&path).await.unwrap().status, 404);
    assert_eq!(api.post(&replay_of(&dead[0]), &json!({})).await.unwrap().status, 404);
}

#[actix_web::test]
async fn a_superseded_letter_goes_only_by_force_and_a_clients_letters_go_together() {
    let mut service = Service::shared().env("DISPATCHER_RETRY_BASE", "5ms").start().await;
    let api = service.api().clone();
    let mut documents: Vec<Document> = (1..=3).map(|number| Document::new(number, &["acme"])).collect();
    let ids: Vec<String> = documents.iter().map(Document::id).collect();
    let (receiver, mended) = broken(&ids);
    api.put_client("acme", json!({ "webhook": receiver.hook("acme") })).await;
    let creates: Vec<Value> = documents.iter_mut().map(Document::create).collect();
    api.send(&creates).await;
    wait_for_letters(&api, "dead", 3).await;
    mended.store(true, Ordering::SeqCst);
    api.send(&[documents[0].change()]).await;
    let superseded = wait_for_letters(&api, "superseded", 1).await.remove(0);

    let refused = api.post(&replay_of(&superseded), &json!({})).await.unwrap();
    assert_eq!((refused.status, &refused.json()["reason"]), (409, &json!("superseded")));
    let forced = api.post(&format!("{}?force=true", replay_of(&superseded)), &json!({})).await.unwrap();
    assert_eq!(forced.status, 202);
    wait_for_letters(&api, "superseded", 0).await;
    api.wait_until_idle(SOON).await;
    let arrivals = of(&receiver.ledger().arrivals(), &documents[0]);
    let mended: Vec<_> = arrivals.iter().skip(10).map(version).collect();
    assert_eq!(mended, [2, 1], "it went back");
    let sequences: Vec<_> = arrivals.iter().skip(10).map(Arrival::sequence).collect();
    assert!(sequences[0] < sequences[1], "by a place of its own in the order");

    // What is dead outlives a crash, and is replayed together.
    service.kill();
    service.start_again().await;
    let late = json!({ "from_ms": 4_000_000_000_000_i64 });
    let none = api.post("/v1/clients/acme/dead-letters/replay", &late).await.unwrap();
    assert_eq!((none.status, none.json()), (202, json!({ "replayed": 0, "refused": {}, "next": null })));
    let all = api.post("/v1/clients/acme/dead-letters/replay", &json!({})).await.unwrap();
    assert_eq!(all.json()["replayed"], 2);
    wait_for_letters(&api, "dead", 0).await;
    api.wait_until_idle(SOON).await;
    for document in &documents[1..] {
        let arrivals = of(&receiver.ledger().arrivals(), document);
        assert_eq!((arrivals.len(), arrivals[10].header("webhook-replay")), (11, "true"));
    }
}

#[actix_web::test]
async fn the_command_line_lists_replays_and_deletes() {
    let service = Service::shared().env("DISPATCHER_RETRY_BASE", "5ms").start().await;
    let api = service.api();
    let mut documents: Vec<Document> = (1..=2).map(|number| Document::new(number, &["acme"])).collect();
    let (receiver, mended) = broken(&documents.iter().map(Document::id).collect::<Vec<_>>());
    api.put_client("acme", json!({ "webhook": receiver.hook("acme") })).await;
    let creates: Vec<Value> = documents.iter_mut().map(Document::create).collect();
    api.send(&creates).await;
    let dead = wait_for_letters(api, "dead", 2).await;
    let url = api.url();
    let run = async |arguments: &[&str]| {
        let arguments: Vec<String> = ["dead-letters"]
            .iter()
            .chain(arguments)
            .chain(&["--url", url])
            .map(|text| (*text).into())
            .collect();
        let run = move || service::run(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), None);
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        (output.status.code(), service::text(&output.stdout), service::text(&output.stderr))
    };
    let event = |index: usize| dead[index]["event_id"].as_str().unwrap();

    let (code, listed, _) = run(&["list", "--client", "acme"]).await;
    assert_eq!((code, listed.lines().count()), (Some(0), 3), "{listed}");
    assert!(listed.contains(event(0)) && listed.contains("status_422"), "{listed}");
    let (_, shown, _) = run(&["show", "acme", event(0), "--body"]).await;
    assert!(shown.contains("\"body\"") && shown.contains("Mina Example"), "{shown}");
    assert_eq!(run(&["purge", "acme", event(0)]).await.0, Some(0));
    assert_eq!(run(&["purge", "acme", event(0)]).await.0, Some(1));
    mended.store(true, Ordering::SeqCst);
    let (code, _, said) = run(&["replay", "acme"]).await;
    assert_eq!((code, said.trim()), (Some(0), "1 dead letter will be sent again"));
    wait_for_letters(api, "dead", 0).await;
    api.wait_until_idle(SOON).await;
    let (code, _, said) = run(&["replay", "acme", event(1)]).await;
    assert!(code == Some(1) && said.contains("no such dead letter"), "{said}");
}

#[actix_web::test]
async fn a_source_record_is_read_again_only_when_it_can_be_read() {
    let service = Service::shared().start().await;
    let api = service.api();
    let topic = "mongo.wnx-identity.users";
    api.send(&[json!({ "topic": topic, "key": null, "value": "no change" })]).await;
    let letter = eventually("the letter", SOON, async || {
        let page = api.get("/v1/dead-letters/source").await.unwrap().json();
        page["dead_letters"].get(0).cloned().ok_or_else(|| page.to_string())
    })
    .await;
    assert_eq!(letter["record"]["value"], "no change");
    for query in ["", "?force=true"] {
        let path = format!("/v1/dead-letters/source/{}/redrive{query}", letter["id"]);
        let refused = api.post(&path, &json!({})).await.unwrap();
        assert_eq!((refused.status, &refused.json()["reason"]), (409, &json!("invalid")), "{query}");
    }
    assert!(letters(api, "").await.is_empty(), "it is no payload");
    let wrong = api.request(Method::PUT, "/v1/dead-letters", None).await.unwrap();
    assert_eq!(wrong.status, 405);
}
