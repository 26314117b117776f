//! Changes for many clients, and what of them is still missing at the receiver.

use std::time::Duration;

use serde_json::Value;

use super::events::Document;
use super::ledger::{Arrival, Ledger};
use super::oracle::{Pair, Sent};
use super::wait::{eventually, holds};

/// Documents that change in turn; each belongs to two clients.
pub(crate) struct Load {
    pub(crate) clients: Vec<String>,
    documents: Vec<Document>,
    changes: usize,
}

impl Load {
    /// No document has changed yet.
    pub(crate) fn new(clients: usize, documents: usize) -> Self {
        let names: Vec<String> = (0..clients).map(|number| format!("client-{number}")).collect();
        let documents = (0..documents)
            .map(|number| {
                let (one, other) = (number % clients, (number * 7 + 3) % clients);
                let other = if one == other { (other + 1) % clients } else { other };
                Document::new(number as u64, &[&names[one], &names[other]])
            })
            .collect();
        Self { clients: names, documents, changes: 0 }
    }

    /// The next changes, and what they owe.
    pub(crate) fn next(&mut self, count: usize) -> (Vec<Value>, Vec<Pair>) {
        let mut records = Vec::new();
        let mut pairs = Vec::new();
        for _ in 0..count {
            // A document comes again after two of three others, often within one batch.
            let index = self.changes * 3 / 2 % self.documents.len();
            self.changes += 1;
            let document = &mut self.documents[index];
            records.push(document.change());
            pairs.extend(document.pairs());
        }
        (records, pairs)
    }
}

/// Waits until everything that was acknowledged is at the receiver.
pub(crate) async fn all_arrived(sent: &Sent, ledger: &Ledger, within: Duration) {
    eventually("all changes at the receiver", within, async || {
        let open = missing(sent, &ledger.arrivals());
        holds(open == 0, || format!("{open} of {} pairs are missing", sent.acknowledged.len()))
    })
    .await;
}

/// How many of the acknowledged pairs did not arrive yet.
pub(crate) fn missing(sent: &Sent, arrivals: &[Arrival]) -> usize {
    let mut open = sent.acknowledged.clone();
    for arrival in arrivals {
        if let Some(change) = arrival.change.clone()
            && let Some(version) = change.version
        {
            open.remove(&Pair {
                client: arrival.client.clone(),
                topic: change.topic,
                id: change.id,
                version,
            });
        }
    }
    open.len()
}
