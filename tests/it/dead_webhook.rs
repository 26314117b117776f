//! A webhook that stays dead is switched off, and goes on where it stopped when it is switched on again; its jobs show it all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::kit::api::Api;
use crate::kit::events::Document;
use crate::kit::oracle::{Sent, assert_kept};
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::service::{Builder, Service};
use crate::kit::wait::{eventually, holds};

const LONG: Duration = Duration::from_secs(90);

/// A webhook is given up after 4 s here, and tried every 300 ms.
pub(crate) fn impatient(builder: Builder) -> Builder {
    builder
        .env("DISPATCHER_RETRY_TTL", "4s")
        .env("DISPATCHER_RETRY_BASE", "100ms")
        .env("DISPATCHER_CANARY_INTERVAL", "300ms")
}

async fn status_of(api: &Api, client: &str) -> Value {
    api.get(&format!("/v1/clients/{client}")).await.map_or(Value::Null, |reply| reply.json())
}

pub(crate) async fn until_status(api: &Api, client: &str, status: &str) {
    eventually(&format!("{client} to be {status}"), LONG, async || {
        let told = status_of(api, client).await;
        holds(told["config"]["status"] == status, || told.to_string())
    })
    .await;
}

/// What was told of a client, in order.
pub(crate) async fn happenings(api: &Api, client: &str) -> Vec<String> {
    let told = api.get(&format!("/v1/operational-events?client={client}")).await.unwrap().json();
    let events = told["events"].as_array().cloned().unwrap_or_default();
    events.iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn change(api: &Api, documents: &mut [Document], sent: &mut Sent) {
    let records: Vec<Value> = documents.iter_mut().map(Document::change).collect();
    api.send(&records).await;
    sent.acknowledged.extend(documents.iter().flat_map(Document::pairs));
}

#[actix_web::test]
async fn a_webhook_that_stays_dead_is_switched_off_and_goes_on_when_it_is_switched_on() {
    let service = impatient(Service::shared()).start().await;
    let receiver = Receiver::healthy();
    let neighbour = Receiver::healthy();
    let api = service.api();
    let hook = json!({ "webhook": receiver.hook("dead") });
    api.put_client("dead", hook.clone()).await;
    api.put_client("fine", json!({ "webhook": neighbour.hook("fine") })).await;
    let mut documents: Vec<_> = (0..10).map(|number| Document::new(number, &["dead", "fine"])).collect();
    let mut sent = Sent::default();
    change(api, &mut documents, &mut sent).await;
    receiver.ledger().wait_for(10, LONG).await;

    receiver.pause();
    change(api, &mut documents, &mut sent).await;
    change(api, &mut documents, &mut sent).await;
    until_status(api, "dead", "INACTIVE").await;

    // Silence: it lives again, and nobody asks it.
    receiver.resume();
    let refused = service.log().matches("client is disabled: no success").count();
    assert_eq!(refused, 1, "said once");
    // Nothing tells that nothing comes: this is longer than four canaries.
    tokio::time::sleep(Duration::from_millis(1_400)).await;
    assert_eq!(receiver.ledger().len(), 10, "no request while it is switched off");
    neighbour.ledger().wait_for(30, LONG).await;

    api.put_client("dead", hook).await;
    change(api, &mut documents, &mut sent).await;
    receiver.ledger().wait_for(40, LONG).await;
    api.wait_until_idle(LONG).await;
    let mut arrivals = receiver.ledger().arrivals();
    arrivals.extend(neighbour.ledger().arrivals());
    assert_kept(&sent, &arrivals, |_| 0);

    eventually("the story of the client", LONG, async || {
        let told = happenings(api, "dead").await;
        let story = ["degraded", "disable_warning", "disabled", "enabled"];
        let mut rest = told.iter();
        holds(story.iter().all(|step| rest.any(|told| told == step)), || format!("{told:?}"))
    })
    .await;
    assert_eq!(happenings(api, "fine").await, Vec::<String>::new());
}

#[actix_web::test]
async fn nobody_is_switched_off_while_most_webhooks_fail() {
    let service = impatient(Service::shared()).start().await;
    let receiver = Receiver::healthy();
    let api = service.api();
    let clients = ["a", "b", "c", "d"];
    for client in clients {
        api.put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    }
    receiver.pause();
    let mut documents = [Document::new(1, &clients)];
    let mut sent = Sent::default();
    change(api, &mut documents, &mut sent).await;
    eventually("it to be said that it is us", LONG, async || {
        holds(service.log().contains("most webhooks fail, nobody is switched off"), || service.log())
    })
    .await;
    for client in clients {
        assert_eq!(status_of(api, client).await["config"]["status"], "ACTIVE", "{client}");
    }
    receiver.resume();
    receiver.ledger().wait_for(4, LONG).await;
    api.wait_until_idle(LONG).await;
    assert_kept(&sent, &receiver.ledger().arrivals(), |_| 0);
}

#[actix_web::test]
async fn a_webhook_that_is_gone_is_switched_off_at_once() {
    let service = Service::shared().start().await;
    let receiver = Receiver::start(|_| Answer::Status(410));
    let api = service.api();
    api.put_client("gone", json!({ "webhook": receiver.hook("gone") })).await;
    let mut sent = Sent::default();
    change(api, &mut [Document::new(1, &["gone"])], &mut sent).await;
    until_status(api, "gone", "INACTIVE").await;
    assert_eq!(receiver.ledger().len(), 1);
    eventually("it to be told", LONG, async || {
        let told = happenings(api, "gone").await;
        holds(told.contains(&"disabled".to_owned()), || format!("{told:?}"))
    })
    .await;
}

#[actix_web::test]
async fn an_expired_token_kills_no_letter() {
    // Ten attempts, each wait twice the one before: a short first wait keeps this within seconds.
    let service = Service::shared().env("DISPATCHER_RETRY_BASE", "5ms").start().await;
    let receiver = Receiver::start(|arrival| {
        Answer::Status(if arrival.header("authorization") == "Bearer new" { 200 } else { 401 })
    });
    let api = service.api();
    let value = |token: &str| json!({ "webhook": receiver.hook("a"), "authorization": token });
    api.put_client("a", value("Bearer old")).await;
    let mut documents: Vec<_> = (0..2).map(|number| Document::new(number, &["a"])).collect();
    let mut sent = Sent::default();
    change(api, &mut documents, &mut sent).await;
    change(api, &mut documents, &mut sent).await;
    // As many as a payload has before it dies, each.
    api.wait_for_metric("deliveries_total", &[("reason", "status_401")], 20.0, LONG).await;
    api.put_client("a", value("Bearer new")).await;
    eventually("all to be taken", LONG, async || {
        let taken = receiver.ledger().arrivals();
        let taken = taken.iter().filter(|arrival| arrival.header("authorization") == "Bearer new").count();
        holds(taken >= 4, || format!("{taken} of 4"))
    })
    .await;
    api.wait_until_idle(LONG).await;
    assert_eq!(api.metrics().await.sum("stash_rows", &[("state", "dead")]), 0.0);
}

/// What a board shows of the job of a client's rows.
async fn retry_job(api: &Api, client: &str) -> Value {
    let job = api.get(&format!("/v1/queues/dispatcher/jobs/retry-{client}")).await.unwrap();
    if job.status == 200 { job.json() } else { Value::Null }
}

#[actix_web::test]
async fn the_job_of_a_failing_webhook_shows_its_attempts_and_can_be_promoted() {
    let service = Service::shared()
        .env("DISPATCHER_RETRY_TTL", "60s")
        .env("DISPATCHER_CANARY_INTERVAL", "2s")
        .start()
        .await;
    let patience = Arc::new(AtomicUsize::new(0));
    let asked = patience.clone();
    // It fails; then it asks for patience, once; then it is well.
    let receiver = Receiver::start(move |_| match asked.load(Ordering::Relaxed) {
        0 => Answer::Status(503),
        1 => {
            asked.store(2, Ordering::Relaxed);
            Answer::WithHeader(503, "retry-after", "3000".into())
        }
        _ => Answer::Status(200),
    });
    let api = service.api();
    api.put_client("a", json!({ "webhook": receiver.hook("a"), "concurrency": 1 })).await;
    let mut documents: Vec<_> = (0..5).map(|number| Document::new(number, &["a"])).collect();
    let mut sent = Sent::default();
    change(api, &mut documents, &mut sent).await;
    eventually("an attempt that the job tells of", LONG, async || {
        let job = retry_job(api, "a").await;
        let reason = job["reason"].as_str().unwrap_or_default().to_owned();
        holds(reason.starts_with("status_503") && job["attempts_made"].as_u64() >= Some(1), || {
            job.to_string()
        })
    })
    .await;
    patience.store(1, Ordering::Relaxed);
    eventually("the job to wait for long", LONG, async || {
        let job = retry_job(api, "a").await;
        let wait_ms = job["due_ms"].as_i64().unwrap_or(0) - chrono::Utc::now().timestamp_millis();
        holds(job["state"] == "delayed" && wait_ms > 600_000, || job.to_string())
    })
    .await;

    let promoted = api.post("/v1/queues/dispatcher/jobs/retry-a/promote", &Value::Null).await.unwrap();
    assert!(promoted.status < 300, "{}", promoted.text());
    receiver.ledger().wait_for(5, LONG).await;
    api.wait_until_idle(LONG).await;
    eventually("the job to be gone", LONG, async || {
        let job = retry_job(api, "a").await;
        holds(job.is_null(), || job.to_string())
    })
    .await;
    assert_kept(&sent, &receiver.ledger().arrivals(), |_| 0);
}
