//! A change on its way: who gets it, and what exactly arrives.

use std::time::Duration;

use serde_json::json;
use standardwebhooks::{Webhook, WebhookError};

use crate::kit::events::Document;
use crate::kit::ledger::Arrival;
use crate::kit::oracle::assert_one_at_a_time;
use crate::kit::receiver::{Answer, Gate, Receiver};
use crate::kit::service::Service;

const SOON: Duration = Duration::from_secs(20);
const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const OLD_SECRET: &str = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=";

#[actix_web::test]
async fn create_update_and_delete_arrive_byte_for_byte() {
    let service = Service::shared().start().await;
    let receiver = Receiver::healthy();
    service.api().put_client("acme", json!({ "webhook": receiver.hook("acme") })).await;
    let mut document = Document::new(7, &["acme"]);
    service.api().send(&[document.create(), document.change(), document.delete()]).await;

    let arrivals = receiver.ledger().wait_for(3, SOON).await;

    let image = |version: u32| {
        format!(
            r#"{{"id":"65d100000000000000000007","owner":"64e0c0de00000000000000a1","clients":["acme"],"created_at":"2025-11-29T17:00:00.000Z","deleted_at":null,"version":{version},"name":"Mina Example","score":4.50,"logins":9007199254740993,"address":{{"city":"Lund","geo":[55.7047,13.191]}}}}"#
        )
    };
    let body = |op: &str, images: String| {
        format!(
            r#"{{"id":"65d100000000000000000007","ts_ms":1764435600000,"op":"{op}","topic":"wnx-identity.users","source":{{"name":"mongo","db":"wnx-identity","collection":"users"}},{images}}}"#
        )
    };
    let bodies: Vec<String> =
        arrivals.iter().map(|arrival| String::from_utf8(arrival.body.to_vec()).unwrap()).collect();
    assert_eq!(
        bodies,
        [
            body("c", format!(r#""after":{}"#, image(1))),
            body("u", format!(r#""after":{},"before":{}"#, image(2), image(1))),
            body("d", format!(r#""before":{}"#, image(2))),
        ]
    );
    assert_one_at_a_time(&arrivals);
}

#[actix_web::test]
async fn headers_say_who_what_and_where_in_the_order() {
    let service = Service::shared().start().await;
    let receiver = Receiver::healthy();
    let value = json!({
        "webhook": receiver.hook("acme"),
        "authorization": "Bearer of good news",
        "headers": { "x-tenant": "north" },
    });
    service.api().put_client("acme", value).await;
    let mut document = Document::new(1, &["acme"]);
    service.api().send(&[document.create(), document.change()]).await;

    let arrivals = receiver.ledger().wait_for(2, SOON).await;

    for arrival in &arrivals {
        assert_eq!(arrival.header("content-type"), "application/json");
        assert_eq!(arrival.header("authorization"), "Bearer of good news");
        assert_eq!(arrival.header("x-tenant"), "north");
        assert_eq!(arrival.header("webhook-signature"), "", "there is no secret to sign with");
        let user_agent = concat!("dispatcher/", env!("CARGO_PKG_VERSION"));
        assert_eq!(arrival.header("user-agent"), user_agent);
        let id = arrival.webhook_id();
        assert!(id.starts_with("evt_") && id.len() == 30, "{id}");
        assert_seconds_of_today(arrival.header("webhook-timestamp"));
    }
    assert!(arrivals[0].sequence() < arrivals[1].sequence());
    assert_ne!(arrivals[0].webhook_id(), arrivals[1].webhook_id());
}

#[actix_web::test]
async fn the_standard_verifier_accepts_each_secret_and_no_other() {
    let service = Service::shared().start().await;
    let receiver = Receiver::healthy();
    let value = json!({ "webhook": receiver.hook("acme"), "secrets": [SECRET, OLD_SECRET] });
    service.api().put_client("acme", value).await;
    service.api().send(&[Document::new(1, &["acme"]).create()]).await;

    let arrivals = receiver.ledger().wait_for(1, SOON).await;

    verify(SECRET, &arrivals[0]).unwrap();
    verify(OLD_SECRET, &arrivals[0]).unwrap();
    let other = "whsec_b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcm90aGVyb3Q=";
    assert!(matches!(verify(other, &arrivals[0]), Err(WebhookError::InvalidSignature)));
    let mut tampered = arrivals[0].clone();
    tampered.body = [&tampered.body[..], b" "].concat().into();
    assert!(matches!(verify(SECRET, &tampered), Err(WebhookError::InvalidSignature)));
}

#[actix_web::test]
async fn who_loses_a_document_gets_a_delete_and_who_gains_it_no_image_from_before() {
    let service = Service::shared().start().await;
    let receiver = Receiver::healthy();
    for client in ["stays", "leaves", "comes"] {
        service.api().put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    }
    let mut document = Document::new(1, &["stays", "leaves"]);
    service.api().send(&[document.create(), document.share_with(&["stays", "comes"])]).await;

    receiver.ledger().wait_for(5, SOON).await;

    let last = |client: &str| {
        let arrivals = receiver.ledger().of(client);
        let last = arrivals.last().unwrap();
        let body: serde_json::Value = serde_json::from_slice(&last.body).unwrap();
        (body["op"].as_str().unwrap().to_owned(), body.get("after").is_some(), body.get("before").is_some())
    };
    assert_eq!(last("stays"), ("u".into(), true, true));
    assert_eq!(last("leaves"), ("d".into(), false, true));
    assert_eq!(last("comes"), ("u".into(), true, false));
}

#[actix_web::test]
async fn the_next_change_follows_a_new_config() {
    let service = Service::shared().start().await;
    let (old, new) = (Receiver::healthy(), Receiver::healthy());
    let mut document = Document::new(1, &["acme"]);
    service.api().put_client("acme", json!({ "webhook": old.hook("acme") })).await;
    service.api().send(&[document.create()]).await;
    old.ledger().wait_for(1, SOON).await;

    service.api().put_client("acme", json!({ "webhook": new.hook("acme"), "authorization": "new" })).await;
    service.api().send(&[document.change()]).await;

    let arrivals = new.ledger().wait_for(1, SOON).await;
    assert_eq!(arrivals[0].header("authorization"), "new");
    assert_eq!(old.ledger().len(), 1);
}

#[actix_web::test]
async fn inactive_deleted_and_unknown_clients_are_skipped_and_counted() {
    let service = Service::shared().start().await;
    let receiver = Receiver::healthy();
    let api = service.api();
    for client in ["inactive", "deleted", "active"] {
        api.put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    }
    api.put_client_as("inactive", "INACTIVE", json!({ "webhook": receiver.hook("inactive") })).await;
    let gone = api.request(awc::http::Method::DELETE, "/v1/clients/deleted", None).await.unwrap();
    assert_eq!(gone.status, 204, "{}", gone.text());

    api.send(&[Document::new(1, &["inactive", "deleted", "unknown", "active"]).create()]).await;

    receiver.ledger().wait_for(1, SOON).await;
    api.wait_until_idle(SOON).await;
    assert_eq!(receiver.ledger().of("active").len(), 1);
    assert_eq!(receiver.ledger().len(), 1);
    let metrics = api.metrics().await;
    assert_eq!(metrics.sum("routed_total", &[]), 1.0);
    for reason in ["inactive", "deleted", "no_config"] {
        assert_eq!(metrics.sum("skipped_total", &[("reason", reason)]), 1.0, "{reason}");
    }

    // What was skipped stays skipped; what comes after the client is back arrives.
    api.put_client("inactive", json!({ "webhook": receiver.hook("inactive") })).await;
    api.send(&[Document::new(2, &["inactive"]).create()]).await;
    receiver.ledger().wait_for_client("inactive", 1, SOON).await;
    api.wait_until_idle(SOON).await;
    assert_eq!(receiver.ledger().of("inactive").len(), 1);
}

#[actix_web::test]
async fn a_filter_leaves_out_what_the_client_does_not_want() {
    let service = Service::shared().start().await;
    let receiver = Receiver::healthy();
    let filter = json!({ "include": ["identity.*"], "ops": ["c"] });
    let value = json!({ "webhook": receiver.hook("acme"), "filter": filter });
    service.api().put_client("acme", value).await;
    let mut document = Document::new(1, &["acme"]);

    let records =
        [document.create(), document.change(), document.delete(), Document::new(2, &["acme"]).create()];
    service.api().send(&records).await;

    let arrivals = receiver.ledger().wait_for(2, SOON).await;
    service.api().wait_until_idle(SOON).await;
    let ops: Vec<&str> =
        arrivals.iter().map(|arrival| arrival.change.as_ref().unwrap().op.as_str()).collect();
    assert_eq!(ops, ["c", "c"]);
    assert_eq!(receiver.ledger().len(), 2);
}

#[actix_web::test]
async fn a_document_that_waits_for_its_answer_holds_no_other() {
    let service = Service::shared().start().await;
    let gate = Gate::shut();
    let held = gate.clone();
    let slow_id = Document::new(1, &[]).id();
    let receiver = Receiver::start(move |arrival| match &arrival.change {
        Some(change) if change.id == slow_id => Answer::Held(held.clone(), 200),
        _ => Answer::Status(200),
    });
    service.api().put_client("acme", json!({ "webhook": receiver.hook("acme") })).await;
    let mut slow = Document::new(1, &["acme"]);
    let mut records = vec![slow.create(), slow.change()];
    records.extend((2..12).map(|number| Document::new(number, &["acme"]).create()));
    service.api().send(&records).await;

    // The first change of the slow document, and all others; not its second change.
    let arrivals = receiver.ledger().wait_for(11, SOON).await;
    assert!(arrivals.iter().all(|arrival| arrival.change.as_ref().unwrap().op == "c"));

    gate.open();
    let arrivals = receiver.ledger().wait_for(12, SOON).await;
    assert_one_at_a_time(&arrivals);
}

#[actix_web::test]
async fn a_broken_request_is_refused_whole_with_the_index() {
    let service = Service::shared().start().await;
    let receiver = Receiver::healthy();
    service.api().put_client("acme", json!({ "webhook": receiver.hook("acme") })).await;
    let good = Document::new(1, &["acme"]).create();
    let broken = json!({ "topic": "mongo.wnx-identity.users", "key": null, "value": 7 });

    let reply = service.api().post("/v1/events", &json!([good, broken])).await.unwrap();

    assert_eq!(reply.status, 400, "{}", reply.text());
    assert!(reply.text().contains('1'), "the index is said: {}", reply.text());
    // What comes next is the first that there is.
    service.api().send(&[Document::new(2, &["acme"]).create()]).await;
    let arrivals = receiver.ledger().wait_for(1, SOON).await;
    assert_eq!(arrivals[0].change.as_ref().unwrap().id, Document::new(2, &[]).id());
    assert_eq!(service.api().metrics().await.sum("events_total", &[]), 1.0);
}

/// The verifier of the Standard Webhooks authors, on what arrived.
fn verify(secret: &str, arrival: &Arrival) -> Result<(), WebhookError> {
    // The verifier's header map is of another version of the crate `http` than ours: it is named by inference.
    fn empty<H: Default>(_verify: fn(&Webhook, &[u8], &H) -> Result<(), WebhookError>) -> H {
        H::default()
    }
    let mut headers = empty(Webhook::verify);
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        headers.insert(name, arrival.header(name).parse().unwrap());
    }
    Webhook::new(secret)?.verify(&arrival.body, &headers)
}

fn assert_seconds_of_today(text: &str) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let seconds: u64 = text.parse().unwrap_or_else(|_| panic!("seconds since 1970: {text:?}"));
    assert!(now.abs_diff(seconds) < 60, "{seconds} is not now, {now}");
}
