//! Owners that are blocked: through the command line, the API and the whole flow.

use std::time::Duration;

use serde_json::{Value, json};

use crate::kit::events::{Document, EVENT_MS};
use crate::kit::receiver::Receiver;
use crate::kit::service::{Service, run, text};

const SOON: Duration = Duration::from_secs(20);
const OWNER: &str = "64e0c0de00000000000000a1";

/// The change that makes the config of a client, with its owner.
fn config(client: &str, webhook: &str) -> Value {
    let document = json!({
        "_id": format!("config-of-{client}"), "owner": OWNER, "key": "CQRS", "eid": client, "status": "ACTIVE",
        "version": 1, "updated_at": { "$date": EVENT_MS }, "deleted_at": null, "value": { "webhook": webhook },
    });
    let value = json!({
        "op": "c", "ts_ms": EVENT_MS, "after": document.to_string(),
        "source": { "name": "mongo", "db": "wnx-context", "collection": "configs" },
    });
    json!({ "topic": "mongo.wnx-context.configs", "key": null, "value": value.to_string() })
}

fn owners(service: &Service, arguments: &[&str]) -> String {
    let url = service.api().url();
    let output = run(&[&["owners"], arguments, &["--url", url]].concat(), None);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[actix_web::test]
async fn a_blocked_owner_gets_nothing_and_what_was_skipped_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::shared().data(folder.path()).start().await;
    let receiver = Receiver::healthy();
    let api = service.api();
    api.send(&[config("acme", &receiver.hook("acme"))]).await;
    let mut document = Document::new(1, &["acme"]);
    api.send(&[document.create()]).await;
    receiver.ledger().wait_for(1, SOON).await;

    owners(&service, &["block", OWNER, "--reason", "unpaid", "--by", "ann"]);
    let listed = owners(&service, &["list"]);
    assert!(listed.contains(OWNER) && listed.contains("ann") && listed.contains("unpaid"), "{listed}");
    let client = api.get("/v1/clients/acme").await.unwrap().json();
    assert_eq!((&client["blocked"]["by"], &client["blocked"]["owner"]), (&json!("ann"), &json!(OWNER)));
    let change = document.change();
    let explained = run(&["explain", "-", "--url", api.url()], Some(&change.to_string()));
    let explained: Value = serde_json::from_str(text(&explained.stdout).trim()).unwrap();
    assert_eq!(explained["routes"][0]["reason"], "owner_blocked", "{explained}");
    api.send(&[change]).await;
    api.wait_for_metric("skipped_total", &[("reason", "owner_blocked")], 1.0, SOON).await;

    // The block outlives the process.
    drop(service);
    let service = Service::shared().data(folder.path()).start().await;
    service.api().send(&[document.change()]).await;
    service.api().wait_for_metric("skipped_total", &[("reason", "owner_blocked")], 1.0, SOON).await;
    assert_eq!(service.api().metrics().await.sum("blocked_owners", &[]), 1.0);
    assert_eq!(receiver.ledger().arrivals().len(), 1);

    owners(&service, &["unblock", OWNER]);
    service.api().send(&[document.change()]).await;
    let arrivals = receiver.ledger().wait_for(2, SOON).await;
    assert_eq!(arrivals[1].change.as_ref().unwrap().version, Some(4));
    let again = run(&["owners", "unblock", OWNER, "--url", service.api().url()], None);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("is not blocked"), "{}", text(&again.stderr));
}

#[actix_web::test]
async fn held_changes_of_a_blocked_owner_wait_over_a_restart_and_go_out_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let hold = || Service::shared().env("DISPATCHER_GUARD_BLOCKED", "hold").data(folder.path());
    let service = hold().start().await;
    let receiver = Receiver::healthy();
    service.api().send(&[config("acme", &receiver.hook("acme"))]).await;
    let mut document = Document::new(1, &["acme"]);
    owners(&service, &["block", OWNER]);
    service.api().send(&[document.create(), document.change()]).await;
    service.api().wait_for_metric("stashed_total", &[("reason", "owner_blocked")], 2.0, SOON).await;
    let client = service.api().get("/v1/clients/acme").await.unwrap().json();
    assert_eq!(client["state"]["phase"], "disabled", "{client}");
    assert!(client["state"]["reason"].as_str().unwrap().contains("its owner is blocked"), "{client}");

    drop(service);
    let service = hold().start().await;
    service.api().send(&[document.change()]).await;
    service.api().wait_for_metric("stashed_total", &[("reason", "owner_blocked")], 1.0, SOON).await;
    assert!(receiver.ledger().arrivals().is_empty());

    owners(&service, &["unblock", OWNER]);
    let arrivals = receiver.ledger().wait_for(3, SOON).await;
    let versions: Vec<_> = arrivals.iter().map(|arrival| arrival.change.as_ref().unwrap().version).collect();
    assert_eq!(versions, [Some(1), Some(2), Some(3)]);
}
