//! What the operator is told, and what is remembered of attempts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use standardwebhooks::Webhook;

use crate::kit::api::Api;
use crate::kit::events::Document;
use crate::kit::ledger::Arrival;
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::service::{self, Service};
use crate::kit::wait::{eventually, holds};

const SOON: Duration = Duration::from_secs(30);
const OPERATOR_SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
/// What the client's receiver is sent, and echoes.
const TOKEN: &str = "tok3n-of-acme";
const KEY: &str = "k3y-of-acme";

/// A webhook whose status is set, whatever comes; but a document that is poisoned is refused.
fn moody(status: &Arc<AtomicU16>, poisoned: &Document) -> Receiver {
    let (status, poisoned) = (status.clone(), poisoned.id());
    Receiver::start(move |arrival| {
        let is_poisoned = arrival.change.as_ref().is_some_and(|change| change.id == poisoned);
        match status.load(Ordering::SeqCst) {
            200 if is_poisoned => Answer::Text(422, "no such tenant\u{1b}[2J".to_owned()),
            status => Answer::Text(
                status,
                format!("you sent {} and {}", arrival.header("authorization"), arrival.header("x-key")),
            ),
        }
    })
}

async fn events(api: &Api) -> Vec<Value> {
    let page = api.get("/v1/operational-events").await.unwrap().json();
    page["events"].as_array().unwrap().clone()
}

/// Waits until the operator can read of so many events, and returns what each is.
async fn wait_for_events(api: &Api, expected: &[&str]) -> Vec<Value> {
    eventually(&format!("events {expected:?}"), SOON, async || {
        let events = events(api).await;
        let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert!(expected.starts_with(&types) || types.len() < expected.len(), "{types:?} {events:#?}");
        holds(types == expected, || format!("{types:?}")).map(|()| events.clone())
    })
    .await
}

/// What the operator's webhook was told, repeats left out, each checked by the real verifier.
fn told(arrivals: &[Arrival]) -> Vec<(String, Value)> {
    let verifier = Webhook::new(OPERATOR_SECRET).unwrap();
    let mut told: Vec<(String, Value)> = Vec::new();
    for arrival in arrivals {
        let headers: HashMap<String, String> =
            arrival.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        verifier.verify(&arrival.body, &(&headers).try_into().unwrap()).expect("the signature fits");
        let event = (arrival.webhook_id().to_owned(), serde_json::from_slice(&arrival.body).unwrap());
        if told.last() != Some(&event) {
            told.push(event);
        }
    }
    told
}

#[actix_web::test]
async fn the_operator_is_told_in_order_and_attempts_say_why() {
    // The operator's own webhook fails at first: nobody but its events waits for that.
    let fails = AtomicUsize::new(2);
    let operator = Receiver::start(move |_| {
        let failed = fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        Answer::Status(if failed.is_ok() { 500 } else { 200 })
    });
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("dispatcher.toml");
    std::fs::write(&settings, "[retry]\npayload_attempts = 3\n").unwrap();
    let mut service = Service::shared()
        .env("DISPATCHER_CONFIG", settings.to_str().unwrap())
        .env("DISPATCHER_OPERATOR_WEBHOOK", &format!("{}?key=0perat0r", operator.hook("operator")))
        .env("DISPATCHER_OPERATOR_SECRET", OPERATOR_SECRET)
        .start()
        .await;
    let api = service.api().clone();
    let (status, mut poisoned) = (Arc::new(AtomicU16::new(503)), Document::new(9, &["acme"]));
    let receiver = moody(&status, &poisoned);
    let value = json!({
        "webhook": receiver.hook("acme"), "authorization": format!("Bearer {TOKEN}"), "headers": { "x-key": KEY },
    });
    api.put_client("acme", value).await;

    let failing: Vec<Value> = (1..=4).map(|number| Document::new(number, &["acme"]).create()).collect();
    api.send(&failing).await;
    wait_for_events(&api, &["degraded"]).await;
    status.store(200, Ordering::SeqCst);
    wait_for_events(&api, &["degraded", "recovered"]).await;
    api.wait_until_idle(SOON).await;
    api.send(&[Document::new(5, &["acme"]).create()]).await;
    api.wait_until_idle(SOON).await;
    api.send(&[poisoned.create()]).await;
    wait_for_events(&api, &["degraded", "recovered", "dead_letter"]).await;
    // Attempts are written a moment after the events.
    eventually("the attempts", SOON, async || {
        let page = api.get("/v1/clients/acme/attempts").await?.json();
        let refused = page["attempts"].as_array().unwrap().iter().filter(|attempt| attempt["status"] == 422);
        holds(refused.count() == 3, || page.to_string())
    })
    .await;
    service.kill();
    service.start_again().await;
    status.store(410, Ordering::SeqCst);
    api.send(&[Document::new(6, &["acme"]).create()]).await;
    wait_for_events(&api, &["degraded", "recovered", "dead_letter", "disabled"]).await;
    status.store(200, Ordering::SeqCst);
    let reply = api
        .request(
            awc::http::Method::PUT,
            "/v1/clients/acme",
            Some(json!({ "status": "ACTIVE" }).to_string().into()),
        )
        .await
        .unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
    let all = ["degraded", "recovered", "dead_letter", "disabled", "enabled"];
    let events = wait_for_events(&api, &all).await;
    api.wait_until_idle(SOON).await;

    assert!(events.iter().all(|event| event["client"] == "acme"), "{events:#?}");
    let reasons: Vec<&str> = events.iter().map(|event| event["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["status_503", "status_503", "status_422", "status_410", "config is not active"]);
    assert_eq!(events[2]["details"]["attempts"], 3);

    // The operator's webhook has the same, in the same order, each under an id of its own.
    let arrivals = eventually("all events at the operator's webhook", SOON, async || {
        let arrivals = operator.ledger().arrivals();
        let count = told(&arrivals).len();
        holds(count >= all.len(), || format!("{count}")).map(|()| arrivals)
    })
    .await;
    let expected: Vec<(String, Value)> =
        events.iter().map(|event| (format!("op_{}", event["id"]), event.clone())).collect();
    assert_eq!(told(&arrivals), expected);
    assert_eq!(arrivals[0].webhook_id(), arrivals[2].webhook_id(), "tried again under the same id");

    let page = api.get("/v1/clients/acme/attempts").await.unwrap().json();
    let attempts = page["attempts"].as_array().unwrap();
    let of = |document: u64| {
        let id = Document::new(document, &[]).id();
        let of = attempts.iter().filter(|attempt| attempt["document"].as_str().unwrap().ends_with(&id));
        of.rev()
            .map(|attempt| (attempt["attempt"].as_u64().unwrap(), attempt["outcome"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(9), [1, 2, 3].map(|number| (number, json!("failed"))));
    let first = of(1);
    assert_eq!((&first[0].1, &first.last().unwrap().1), (&json!("failed"), &json!("delivered")), "{first:?}");
    assert_eq!(of(5), [], "an ordinary delivery is not written");
    let answer = |reason: &str| {
        let found = attempts.iter().find(|attempt| attempt["reason"] == reason);
        found.unwrap_or_else(|| panic!("{reason}: {attempts:#?}"))["answer"].as_str().unwrap()
    };
    assert_eq!(answer("status_503"), "you sent [redacted] and [redacted]");
    assert_eq!(answer("status_422"), "no such tenant\u{fffd}[2J");

    // The last ordinary deliveries are remembered by the delivery actor, as long as there is one.
    let mut another = Document::new(7, &["acme"]);
    api.send(&[another.create()]).await;
    let recent = eventually("a recent delivery", SOON, async || {
        let page = api.get("/v1/clients/acme/attempts").await?.json();
        let recent = page["recent"].as_array().unwrap().clone();
        holds(!recent.is_empty(), || page.to_string()).map(|()| recent)
    })
    .await;
    assert!(recent[0]["document"].as_str().unwrap().ends_with(&another.id()), "{recent:?}");
    assert_eq!(recent[0]["answer"], "you sent [redacted] and [redacted]");

    let printed = |arguments: &[&str]| {
        let output = service::run(&[arguments, &["--url", api.url()]].concat(), None);
        assert!(output.status.success(), "{}", service::text(&output.stderr));
        service::text(&output.stdout)
    };
    let lines = printed(&["operational-events", "--client", "acme"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, events);
    let lines = printed(&["clients", "attempts", "acme"]);
    assert!(lines.lines().count() >= attempts.len(), "{lines}");

    let everything = format!(
        "{events:?} {page} {recent:?} {lines} {} {}",
        service.log(),
        arrivals.iter().map(|arrival| String::from_utf8_lossy(&arrival.body)).collect::<String>()
    );
    for secret in [TOKEN, KEY, "0perat0r", &OPERATOR_SECRET[6..]] {
        assert!(!everything.contains(secret), "{secret} in {everything}");
    }
}

#[cfg(feature = "cluster")]
#[actix_web::test]
async fn two_replicas_write_each_event_to_the_topic_once_and_in_order() {
    use crate::kit::cluster::Cluster;
    use crate::kit::turn::Turn;

    let turn = Turn::shared();
    let cluster = Cluster::shared("events");
    let first = cluster.replica_in(&turn).start().await;
    let second = cluster.replica_in(&turn).start().await;
    let status = Arc::new(AtomicU16::new(503));
    let receiver = moody(&status, &Document::new(99, &[]));
    let clients: Vec<String> = (0..6).map(|number| format!("client-{number}")).collect();
    for client in &clients {
        first.api().put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    }
    // Both replicas own some of them.
    let records: Vec<Value> = (0..24_u64)
        .map(|number| Document::new(number, &[&clients[number as usize % clients.len()]]).create())
        .collect();
    cluster.produce(&records).await;
    let count =
        |events: &[Value], wanted: &str| events.iter().filter(|event| event["type"] == wanted).count();
    for (wanted, answer) in [("degraded", 200), ("recovered", 200)] {
        eventually(&format!("all clients {wanted}"), SOON, async || {
            let events = events(first.api()).await;
            holds(count(&events, wanted) == clients.len(), || format!("{events:?}"))
        })
        .await;
        status.store(answer, Ordering::SeqCst);
    }

    let expected = events(second.api()).await;
    let from_topic = read_topic(&cluster, expected.len()).await;
    let keys: Vec<Option<&str>> = expected.iter().map(|event| event["client"].as_str()).collect();
    assert_eq!(from_topic.iter().map(|(key, _)| key.as_deref()).collect::<Vec<_>>(), keys);
    assert_eq!(from_topic.into_iter().map(|(_, event)| event).collect::<Vec<_>>(), expected);
}

/// Reads the topic of the events: `count` records, and that there are no more.
#[cfg(feature = "cluster")]
pub(crate) async fn read_topic(
    cluster: &crate::kit::cluster::Cluster,
    count: usize,
) -> Vec<(Option<String>, Value)> {
    use futures_util::StreamExt as _;
    use rdkafka::ClientConfig;
    use rdkafka::consumer::{Consumer as _, StreamConsumer};
    use rdkafka::message::Message as _;

    let topic = cluster.events_topic();
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", format!("{}:{}", cluster.kafka.host(), cluster.kafka.port()))
        .set("group.id", format!("{topic}-test"))
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true")
        .set("topic.metadata.refresh.interval.ms", "500")
        .create()
        .unwrap();
    consumer.subscribe(&[&topic]).unwrap();
    let mut found = Vec::new();
    let mut stream = consumer.stream();
    let read = async {
        loop {
            match stream.next().await.unwrap() {
                Ok(message) => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let event = serde_json::from_slice(message.payload().unwrap()).unwrap();
                    found.push((message.key().map(text), event));
                }
                Err(rdkafka::error::KafkaError::PartitionEOF(_)) if found.len() >= count => return,
                // Not all is written yet, or the topic is not there yet.
                Err(_) => {}
            }
        }
    };
    tokio::time::timeout(SOON, read).await.expect("the topic has all events");
    drop(stream);
    found
}
