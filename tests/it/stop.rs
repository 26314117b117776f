//! SIGTERM: readiness off, intake closed, what is on the wire settled, exit 0.

use std::time::Duration;

use serde_json::json;

use crate::kit::events::Document;
use crate::kit::receiver::{Answer, Gate, Receiver};
use crate::kit::service::Service;
use crate::kit::wait::{eventually, holds};

const SOON: Duration = Duration::from_secs(20);

#[actix_web::test]
async fn a_stop_settles_what_is_on_the_wire_and_exits_0() {
    let mut service = Service::shared().start().await;
    let gate = Gate::shut();
    let held = gate.clone();
    let receiver = Receiver::start(move |_| Answer::Held(held.clone(), 200));
    service.api().put_client("slow", json!({ "webhook": receiver.hook("slow") })).await;
    service.api().send(&[Document::new(1, &["slow"]).create()]).await;
    receiver.ledger().wait_for(1, SOON).await;

    service.terminate();

    wait_until_not_ready(&service).await;
    let intake = service.api().offer(&[Document::new(2, &["slow"]).create()]).await;
    assert!(!matches!(intake, Ok(202)), "the intake is closed: {intake:?}");
    assert!(!service.has_ended(), "it waits for the answer");
    gate.open();
    let status = service.wait_for_exit(SOON).await;
    assert_eq!(status.code(), Some(0), "{status}");

    // The answer was counted: the change does not come again.
    service.start_again().await;
    service.api().send(&[Document::new(3, &["slow"]).create()]).await;
    receiver.ledger().wait_for(2, SOON).await;
    service.api().wait_until_idle(SOON).await;
    assert_eq!(receiver.ledger().len(), 2);
}

#[actix_web::test]
async fn a_second_signal_ends_it_at_once_and_loses_nothing() {
    let mut service = Service::shared().start().await;
    let gate = Gate::shut();
    let held = gate.clone();
    let receiver = Receiver::start(move |_| Answer::Held(held.clone(), 200));
    service.api().put_client("slow", json!({ "webhook": receiver.hook("slow") })).await;
    service.api().send(&[Document::new(1, &["slow"]).create()]).await;
    receiver.ledger().wait_for(1, SOON).await;
    service.terminate();
    wait_until_not_ready(&service).await;

    // Signals that follow within a moment are the same one: asked again until it hears.
    let status = eventually("the end of the process", Duration::from_secs(3), async || {
        service.terminate();
        service.ended().ok_or_else(|| "it still runs".to_owned())
    })
    .await;
    assert_ne!(status.code(), Some(0), "it was cut short");
    gate.open();
    service.start_again().await;
    let arrivals = receiver.ledger().wait_for_client("slow", 2, SOON).await;
    assert_eq!(arrivals[0].webhook_id(), arrivals[1].webhook_id(), "the same change again");
    service.api().wait_until_idle(SOON).await;
}

#[actix_web::test]
async fn an_idle_service_stops_within_a_second_or_two() {
    let mut service = Service::shared().start().await;
    service.terminate();
    let status = service.wait_for_exit(Duration::from_secs(5)).await;
    assert_eq!(status.code(), Some(0), "{status}");
}

async fn wait_until_not_ready(service: &Service) {
    eventually("readiness off", SOON, async || {
        let status = service.api().get("/readyz").await?.status;
        holds(status == 503, || format!("/readyz answers {status}"))
    })
    .await;
}
