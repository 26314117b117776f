//! The sample events of Debezium through the whole service: what is readable arrives, what is not is kept and said,
//! and nothing stops the stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::kit::api::Api;
use crate::kit::events::Document;
use crate::kit::fixtures::Fixture;
use crate::kit::ledger::Arrival;
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::service::{Service, run, text};
use crate::kit::wait::{eventually, holds};

const SOON: Duration = Duration::from_secs(60);

#[actix_web::test]
async fn every_sample_passes_and_the_unreadable_are_dead_letters() {
    let service = Service::shared().start().await;
    let receiver = Receiver::healthy();
    let api = service.api();
    api.put_client("last", json!({ "webhook": receiver.hook("last") })).await;
    let fixtures = Fixture::all();

    for fixture in &fixtures {
        let status = api.offer(std::slice::from_ref(&fixture.record)).await.unwrap();
        assert_eq!(status, 202, "{}", fixture.name);
    }
    api.send(&[Document::new(1, &["last"]).create()]).await;

    // The stream went on behind them.
    receiver.ledger().wait_for(1, SOON).await;

    let mut unreadable = BTreeMap::<&str, usize>::new();
    let mut perhaps = BTreeMap::<&str, usize>::new();
    for fixture in &fixtures {
        let topic = fixture.record["topic"].as_str().unwrap();
        let kinds = fixture.kinds();
        let counted = if kinds == ["invalid"] { &mut unreadable } else { &mut perhaps };
        if kinds.contains(&"invalid") {
            *counted.entry(topic).or_default() += 1;
        }
    }
    let letters = dead_letters(api).await;
    let mut kept = BTreeMap::<&str, usize>::new();
    for letter in &letters {
        *kept.entry(letter.topic.as_str()).or_default() += 1;
        assert!(!letter.reason.is_empty(), "{letter:?} says why");
    }
    let positions: BTreeSet<_> =
        letters.iter().map(|letter| (&letter.topic, letter.partition, letter.offset)).collect();
    assert_eq!(positions.len(), letters.len(), "each letter has a place of its own");
    let topics: BTreeSet<&str> =
        unreadable.keys().chain(perhaps.keys()).chain(kept.keys()).copied().collect();
    for topic in topics {
        let count = |map: &BTreeMap<&str, usize>| map.get(topic).copied().unwrap_or_default();
        let range = count(&unreadable)..=count(&unreadable) + count(&perhaps);
        assert!(range.contains(&count(&kept)), "{topic}: {} letters, expected {range:?}", count(&kept));
    }
    let invalid = api.metrics().await.sum("events_total", &[("kind", "invalid")]);
    assert_eq!(invalid, letters.len() as f64);

    // What is kept can be read again, and says the same.
    let records = Value::from_iter(letters.iter().filter_map(|letter| letter.record.clone()));
    let explained = run(&["explain", "-"], Some(&records.to_string()));
    assert!(explained.status.success(), "{}", text(&explained.stderr));
    let explained = text(&explained.stdout);
    assert_eq!(explained.lines().count(), records.as_array().unwrap().len());
    for line in explained.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["kind"], "invalid", "{line}");
    }
}

#[actix_web::test]
async fn what_a_sample_names_is_what_arrives() {
    let service = Service::shared().start().await;
    let receiver = Receiver::healthy();
    let api = service.api();
    // Odd document ids and client ids, revocations; one record a request, so that each stands for itself.
    let mut fixtures = Fixture::named("h");
    fixtures.extend(Fixture::named("f"));
    fixtures.retain(|fixture| fixture.kinds() == ["change"]);
    let mut expected = BTreeSet::new();
    for fixture in &fixtures {
        let id = fixture.expect["id"].as_str().unwrap_or_default();
        let op = fixture.expect["op"].as_str().unwrap_or_default();
        for client in fixture.texts("clients") {
            expected.insert((client.to_owned(), id.to_owned(), op.to_owned()));
        }
        for client in fixture.texts("removed_clients") {
            expected.insert((client.to_owned(), id.to_owned(), "d".to_owned()));
        }
    }
    let clients: BTreeSet<&String> = expected.iter().map(|(client, _, _)| client).collect();
    assert!(clients.iter().any(|client| client.len() != 24), "odd client ids are among them: {clients:?}");
    for client in clients {
        api.put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    }

    for fixture in &fixtures {
        api.send(std::slice::from_ref(&fixture.record)).await;
    }

    eventually("everything that the samples name", SOON, async || {
        let arrived: BTreeSet<_> = receiver.ledger().arrivals().into_iter().filter_map(named).collect();
        let missing: Vec<_> = expected.difference(&arrived).collect();
        holds(missing.is_empty(), || format!("{missing:?}"))
    })
    .await;
    api.wait_until_idle(SOON).await;
    let arrived: BTreeSet<_> = receiver.ledger().arrivals().into_iter().filter_map(named).collect();
    assert_eq!(arrived, expected);
}

#[actix_web::test]
async fn the_services_own_configs_are_routed_to_nobody() {
    let service = Service::shared().start().await;
    let receiver = Receiver::healthy();
    let api = service.api();
    let client = "64c0a1e0f1a2b3c4d5e60001";
    api.put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    let mut configs = Fixture::named("p");
    // A config document of another kind is a document like any other.
    configs.retain(|fixture| fixture.name != "p12_config_other_key");

    for fixture in &configs {
        api.send(std::slice::from_ref(&fixture.record)).await;
    }

    api.wait_for_metric("events_total", &[], configs.len() as f64, SOON).await;
    api.wait_until_idle(SOON).await;
    let metrics = api.metrics().await;
    assert_eq!(metrics.sum("routed_total", &[]), 0.0);
    assert_eq!(receiver.ledger().len(), 0);
    let log = service.log();
    assert!(!log.contains("test-token-0001"), "no secret in the log:\n{log}");
}

#[actix_web::test]
async fn ids_with_a_nul_and_of_three_kilobytes_are_delivered_and_stashed() {
    let service = Service::shared().start().await;
    let failing = AtomicUsize::new(2);
    let receiver = Receiver::start(move |_| {
        let fails =
            failing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        Answer::Status(if fails { 500 } else { 200 })
    });
    let api = service.api();
    let odd_client = "ünïcode client/with spaces?and#signs";
    api.put_client(odd_client, json!({ "webhook": receiver.hook(odd_client) })).await;
    let ids = ["nul \u{0} inside".to_owned(), "long ".repeat(600)];

    let records: Vec<Value> = ids.iter().map(|id| with_string_id(id, odd_client)).collect();
    api.send(&records).await;

    receiver.ledger().wait_for_client(odd_client, 4, SOON).await;
    api.wait_until_idle(SOON).await;
    let arrived: BTreeSet<String> =
        receiver.ledger().of(odd_client).into_iter().map(|arrival| arrival.change.unwrap().id).collect();
    assert_eq!(arrived, BTreeSet::from(ids));
    assert_eq!(receiver.ledger().len(), 4, "two failures, two successes");
}

/// A dead letter as the API lists it.
#[derive(Debug, serde::Deserialize)]
struct Letter {
    id: i64,
    topic: String,
    partition: i32,
    offset: i64,
    reason: String,
    /// Not kept where it may hold secrets.
    record: Option<Value>,
}

/// All pages of `/v1/dead-letters/source`.
async fn dead_letters(api: &Api) -> Vec<Letter> {
    #[derive(serde::Deserialize)]
    struct Page {
        dead_letters: Vec<Letter>,
    }
    let mut letters = Vec::<Letter>::new();
    loop {
        let after = letters.last().map_or(0, |letter| letter.id);
        let reply = api.get(&format!("/v1/dead-letters/source?after={after}&limit=10")).await.unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text());
        let page: Page =
            serde_json::from_slice(&reply.body).unwrap_or_else(|err| panic!("{err}: {}", reply.text()));
        if page.dead_letters.is_empty() {
            return letters;
        }
        letters.extend(page.dead_letters);
    }
}

fn named(arrival: Arrival) -> Option<(String, String, String)> {
    let change = arrival.change?;
    Some((arrival.client, change.id, change.op))
}

fn with_string_id(id: &str, client: &str) -> Value {
    let image = json!({ "_id": id, "clients": [client], "version": 1 }).to_string();
    let source = json!({ "name": "mongo", "db": "wnx-identity", "collection": "users", "ts_ms": 1 });
    let value = json!({ "before": null, "after": image, "source": source, "op": "c", "ts_ms": 2 });
    let key = json!({ "id": json!(id).to_string() });
    json!({ "topic": "mongo.wnx-identity.users", "key": key.to_string(), "value": value.to_string() })
}
