//! Webhooks that misbehave in every way we know, and a healthy one beside them that must not notice.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kit::api::Api;
use crate::kit::bad_tls::SelfSigned;
use crate::kit::events::Document;
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::service::Service;

const EVENTS: u64 = 300;
/// One event a tick.
const TICK: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(90);
const MEGABYTE: u64 = 1 << 20;

#[actix_web::test]
async fn a_healthy_client_does_not_notice_hostile_ones() {
    let service = Service::alone().start().await;
    let api = service.api();
    let healthy = Receiver::healthy();
    let fails = Receiver::start(|_| Answer::Status(500));
    let hangs = Receiver::start(|_| Answer::Hang);
    let resets = Receiver::start(|_| Answer::Reset);
    let target = Receiver::healthy();
    let elsewhere = target.hook("elsewhere");
    let redirects = Receiver::start(move |_| Answer::WithHeader(302, "location", elsewhere.clone()));
    let floods = Receiver::start(|_| Answer::Body(100 * MEGABYTE));
    let never_ends = Receiver::start(|_| Answer::EndlessHeaders);
    let late = Receiver::start(|_| Answer::Late(Duration::from_millis(900), 200));
    let untrusted = SelfSigned::start();
    let closed = Receiver::healthy();
    closed.pause();
    let hooks = [
        ("healthy", healthy.hook("healthy"), None),
        ("fails", fails.hook("fails"), Some("status_500")),
        ("hangs", hangs.hook("hangs"), Some("timeout")),
        ("resets", resets.hook("resets"), Some("closed")),
        ("redirects", redirects.hook("redirects"), Some("status_302")),
        ("floods", floods.hook("floods"), None),
        ("never-ends", never_ends.hook("never-ends"), Some("bad_answer")),
        ("late", late.hook("late"), None),
        ("untrusted", untrusted.hook(), Some("tls")),
        ("closed", closed.hook("closed"), Some("connect")),
        ("private", "http://10.1.2.3/hook".to_owned(), Some("egress_denied")),
        ("nameless", "http://no-such-host.invalid/hook".to_owned(), Some("dns")),
    ];
    for (client, hook, _) in &hooks {
        api.put_client(client, json!({ "webhook": hook, "timeout_ms": 1_000 })).await;
    }
    let clients: Vec<&str> = hooks.iter().map(|(client, _, _)| *client).collect();

    let sent_at = send_at_a_steady_rate(api, &clients).await;
    healthy.ledger().wait_for(sent_at.len(), LONG).await;

    let p99 = p99_of_delivery(&healthy, &sent_at);
    println!("p99 of the healthy client: {p99:?}");
    assert!(p99 < Duration::from_millis(100), "p99 of the healthy client: {p99:?}");
    for (client, _, reason) in &hooks {
        if let Some(reason) = reason {
            println!("{client}: {reason}");
            api.wait_for_metric("deliveries_total", &[("reason", reason)], 1.0, LONG).await;
        }
    }
    assert_eq!(target.ledger().len(), 0, "a redirect is never followed");
    assert_eq!(untrusted.handshakes(), 0, "a certificate that nobody signed is refused");
    floods.ledger().wait_for(10, LONG).await;
    let written = floods.answer_bytes() / floods.ledger().len() as u64;
    assert!(written < 16 * MEGABYTE, "{written} bytes of an answer were taken from the receiver");
}

#[actix_web::test]
async fn a_redirect_and_a_refused_address_keep_their_changes_waiting() {
    let service = Service::shared().start().await;
    let api = service.api();
    let redirects = Receiver::start(|_| Answer::WithHeader(307, "location", "http://127.0.0.1:1/".into()));
    api.put_client("redirects", json!({ "webhook": redirects.hook("redirects") })).await;
    // Private by another spelling: mapped into IPv6.
    api.put_client("private", json!({ "webhook": "http://[::ffff:10.0.0.1]/hook" })).await;

    api.send(&[Document::new(1, &["redirects", "private"]).create()]).await;

    api.wait_for_metric("deliveries_total", &[("reason", "status_307")], 1.0, LONG).await;
    api.wait_for_metric("deliveries_total", &[("reason", "egress_denied")], 1.0, LONG).await;
    api.wait_for_metric("stash_rows", &[("state", "pending")], 2.0, LONG).await;
}

#[actix_web::test]
async fn loopback_is_refused_unless_it_is_allowed() {
    let service = Service::shared().env("DISPATCHER_EGRESS_ALLOW", "").start().await;
    let receiver = Receiver::healthy();
    service.api().put_client("inside", json!({ "webhook": receiver.hook("inside") })).await;

    service.api().send(&[Document::new(1, &["inside"]).create()]).await;

    service.api().wait_for_metric("deliveries_total", &[("reason", "egress_denied")], 1.0, LONG).await;
    assert_eq!(receiver.ledger().len(), 0);
}

/// Sends an event a tick, each a new document for all clients. Returns when each was sent.
async fn send_at_a_steady_rate(api: &Api, clients: &[&str]) -> Vec<(String, Instant)> {
    let mut ticks = actix_web::rt::time::interval(TICK);
    let mut sent_at = Vec::new();
    for number in 0..EVENTS {
        ticks.tick().await;
        let mut document = Document::new(number, clients);
        let record: Value = document.create();
        sent_at.push((document.id(), Instant::now()));
        api.send(&[record]).await;
    }
    sent_at
}

/// From the start of the intake's request to the arrival at the webhook.
fn p99_of_delivery(receiver: &Receiver, sent_at: &[(String, Instant)]) -> Duration {
    let arrivals = receiver.ledger().arrivals();
    let mut times: Vec<Duration> = sent_at
        .iter()
        .map(|(id, sent)| {
            let is_it = |id_of: &str| id_of == id;
            let arrival =
                arrivals.iter().find(|arrival| arrival.change.as_ref().is_some_and(|c| is_it(&c.id)));
            arrival.expect("it arrived").at - *sent
        })
        .collect();
    times.sort();
    times[times.len() * 99 / 100]
}
