//! Faults on request, in debug builds only: the whole-service tests see delivery actors break, and come back.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use actix::prelude::*;

use super::WebhookDeliveryActor;
use crate::domain::transfer::Transfer;

/// One of `DISPATCHER_FAULT`, which holds some, separated by spaces: `<how>=<client>:<when>`, where `how` is `panic`, `freeze`, `spin`, or
/// `spin8s` for a thread that comes back after 8 s; and `when` is the number of the client's request, counted from 1 over all lives of its
/// actor, or `#<id>`: always for this document.
struct Fault {
    how: String,
    client: String,
    when: String,
    requests: AtomicU64,
}

impl Fault {
    fn parse(text: &str) -> Option<Self> {
        let (how, rest) = text.split_once('=')?;
        let (client, when) = rest.rsplit_once(':')?;
        let requests = AtomicU64::new(0);
        Some(Self { how: how.to_owned(), client: client.to_owned(), when: when.to_owned(), requests })
    }

    fn is_due(&self, transfer: &Transfer) -> bool {
        if self.client != transfer.client.as_str() {
            return false;
        }
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        match self.when.strip_prefix('#') {
            Some(id) => transfer.document.rsplit_once(':').is_some_and(|(_, document)| document == id),
            None => self.when.parse() == Ok(number),
        }
    }
}

/// Breaks the actor that starts to send this transfer, if it is its turn.
pub(super) fn break_when_asked(transfer: &Transfer, ctx: &mut Context<WebhookDeliveryActor>) {
    static FAULTS: OnceLock<Vec<Fault>> = OnceLock::new();
    let faults = FAULTS.get_or_init(|| {
        let text = std::env::var("DISPATCHER_FAULT").unwrap_or_default();
        text.split_whitespace().filter_map(Fault::parse).collect()
    });
    for fault in faults.iter().filter(|fault| fault.is_due(transfer)) {
        log::warn!("fault asked for by DISPATCHER_FAULT how={} client={}", fault.how, fault.client);
        match fault.how.strip_prefix("spin") {
            Some(time) => {
                spin(humantime::parse_duration(time).ok());
                log::warn!("fault is over how={} client={}", fault.how, fault.client);
            }
            None if fault.how == "freeze" => {
                ctx.wait(actix::fut::wrap_future(std::future::pending()));
            }
            // As panics on data are: their text is not to be shown.
            None => panic!("asked to by DISPATCHER_FAULT for {}", transfer.event_id.as_str()),
        }
    }
}

/// Does not yield the thread. It sleeps, to spare the machine: what counts is that nothing else gets done on it.
fn spin(time: Option<Duration>) {
    let began = Instant::now();
    while time.is_none_or(|time| began.elapsed() < time) {
        std::thread::sleep(Duration::from_millis(5));
    }
}
