//! What a receiver can know about duplicates and order: the oracle of the guarantees, in small.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::report::Webhook;
use super::signature::Signature;
use crate::domain::transfer::Sequence;

/// Everything that arrived. Grows with the number of events: it is for development.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    events: HashMap<String, Event>,
    documents: HashMap<Document, Order>,
    summary: Summary,
}

#[derive(Debug)]
struct Event {
    arrivals: u64,
    accepted: bool,
    body: u64,
}

/// Two clients may have their webhooks at one receiver: they are told apart by the path.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Document {
    path: String,
    topic: String,
    id: String,
}

#[derive(Debug)]
struct Order {
    highest: Sequence,
    last: Sequence,
}

/// What is to be said about one arrival.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Arrival {
    /// 1 for the first arrival of an event.
    pub(super) attempt: u64,
    /// The event was accepted before.
    pub(super) duplicate: bool,
    /// It arrives for the first time, after a newer event of its document did.
    pub(super) out_of_order: bool,
    /// An earlier arrival of the event had another body.
    pub(super) body_changed: bool,
}

/// What is to be said at the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Summary {
    /// Arrivals.
    pub(super) webhooks: u64,
    /// Different events.
    pub(super) events: u64,
    /// Events that were accepted.
    pub(super) accepted: u64,
    /// Documents.
    pub(super) documents: u64,
    /// Arrivals of events that had been accepted before.
    pub(super) duplicates: u64,
    /// First arrivals after a newer event of the same document.
    pub(super) out_of_order: u64,
    /// Documents whose last arrival is not their newest.
    pub(super) outdated: u64,
    /// Arrivals with another body than before.
    pub(super) bodies_changed: u64,
    /// Arrivals with a signature that does not fit.
    pub(super) bad_signatures: u64,
}

impl Ledger {
    /// Notes an arrival that is answered with `webhook.status`.
    pub(super) fn note(&mut self, webhook: &Webhook, body: &[u8]) -> Arrival {
        self.summary.webhooks += 1;
        self.summary.bad_signatures += u64::from(webhook.signature == Signature::Bad);
        let mut arrival = self.note_event(webhook, body);
        arrival.out_of_order = self.note_order(webhook, arrival.attempt == 1);
        self.summary.duplicates += u64::from(arrival.duplicate);
        self.summary.out_of_order += u64::from(arrival.out_of_order);
        self.summary.bodies_changed += u64::from(arrival.body_changed);
        arrival
    }

    fn note_event(&mut self, webhook: &Webhook, body: &[u8]) -> Arrival {
        let Some(id) = &webhook.webhook_id else { return Arrival { attempt: 1, ..Arrival::default() } };
        let body = hash(body);
        let event = self.events.entry(id.clone()).or_insert(Event { arrivals: 0, accepted: false, body });
        event.arrivals += 1;
        let arrival = Arrival {
            attempt: event.arrivals,
            duplicate: event.accepted,
            out_of_order: false,
            body_changed: event.body != body,
        };
        event.accepted |= (200..300).contains(&webhook.status);
        arrival
    }

    fn note_order(&mut self, webhook: &Webhook, first_arrival: bool) -> bool {
        let (Some(topic), Some(id)) = (&webhook.topic, &webhook.document_id) else { return false };
        let Some(sequence) = webhook.sequence.as_deref().and_then(|text| text.parse::<Sequence>().ok())
        else {
            return false;
        };
        let document = Document { path: webhook.path.clone(), topic: topic.clone(), id: id.clone() };
        let order = self.documents.entry(document).or_insert(Order { highest: sequence, last: sequence });
        let overtaken = sequence < order.highest;
        order.highest = order.highest.max(sequence);
        order.last = sequence;
        overtaken && first_arrival
    }

    pub(super) fn summary(&self) -> Summary {
        let count = |count: usize| count as u64;
        Summary {
            events: count(self.events.len()),
            accepted: count(self.events.values().filter(|event| event.accepted).count()),
            documents: count(self.documents.len()),
            outdated: count(self.documents.values().filter(|order| order.last < order.highest).count()),
            ..self.summary
        }
    }
}

fn hash(body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}
