//! A panic in a delivery actor is an incident of that actor: it comes back and goes on.

use std::time::Duration;

use serde_json::{Value, json};

use crate::kit::events::Document;
use crate::kit::oracle::{Sent, assert_kept};
use crate::kit::receiver::Receiver;
use crate::kit::service::Service;

const LONG: Duration = Duration::from_secs(60);

#[actix_web::test]
async fn a_delivery_actor_that_panics_comes_back_and_delivers_what_it_had() {
    // Debug builds of the service obey this: the actor of that client panics when it starts its fifth delivery.
    let service = Service::shared().env("DISPATCHER_FAULT", "panic=acme:5").start().await;
    let receiver = Receiver::healthy();
    let api = service.api();
    for client in ["acme", "other"] {
        api.put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    }
    let mut documents: Vec<Document> =
        (0..20).map(|number| Document::new(number, &["acme", "other"])).collect();
    let mut sent = Sent::default();
    let mut records = Vec::new();
    for _ in 0..3 {
        for document in &mut documents {
            records.push(document.change());
            sent.acknowledged.extend(document.pairs());
        }
    }

    api.send(&records).await;

    receiver.ledger().wait_for(sent.acknowledged.len(), LONG).await;
    api.wait_until_idle(LONG).await;
    assert_kept(&sent, &receiver.ledger().arrivals(), |_| 0);
    assert!(api.metrics().await.sum("actor_restarts_total", &[]) >= 1.0);
    let (_, status) = api.status().await;
    assert!(shows_restart(&status, "acme"), "no restart of acme's actor in {status:#}");
    assert!(!shows_restart(&status, "other"), "other's actor was not to restart: {status:#}");
}

/// Whether somewhere in `/status` an object names the client and counts a restart.
fn shows_restart(status: &Value, client: &str) -> bool {
    match status {
        Value::Object(members) => {
            let named =
                members.values().any(|value| value.as_str().is_some_and(|text| text.contains(client)));
            let restarts = members.get("restarts").and_then(Value::as_u64).unwrap_or(0);
            (named && restarts > 0)
                || members.iter().any(|(key, value)| {
                    let inside = value.get("restarts").and_then(Value::as_u64).unwrap_or(0);
                    (key.contains(client) && inside > 0) || shows_restart(value, client)
                })
        }
        Value::Array(items) => items.iter().any(|item| shows_restart(item, client)),
        _ => false,
    }
}
