//! Changes for many clients, and what of them is still missing at the receiver.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::events::Document;
use super::ledger::Ledger;
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

/// What of the acknowledged is not at the receivers yet.
pub(crate) struct Missing {
    open: BTreeSet<Pair>,
    /// Each arrival is looked at once: of these, so many were.
    receivers: Vec<(Ledger, usize)>,
}

impl Missing {
    pub(crate) fn new(sent: &Sent, receivers: &[&Ledger]) -> Self {
        let receivers = receivers.iter().map(|ledger| ((*ledger).clone(), 0)).collect();
        Self { open: sent.acknowledged.clone(), receivers }
    }

    /// How many there are now.
    pub(crate) fn count(&mut self) -> usize {
        for (ledger, seen) in &mut self.receivers {
            let arrivals = ledger.since(*seen);
            *seen += arrivals.len();
            for pair in arrivals.iter().filter_map(Pair::of) {
                self.open.remove(&pair);
            }
        }
        self.open.len()
    }

    /// Waits until there are none.
    pub(crate) async fn until_none(mut self, within: Duration) {
        let owed = self.open.len();
        eventually("all changes at the receivers", within, async || {
            let open = self.count();
            holds(open == 0, || format!("{open} of {owed} pairs are missing"))
        })
        .await;
    }
}

/// Waits until everything that was acknowledged is at the receiver.
pub(crate) async fn all_arrived(sent: &Sent, ledger: &Ledger, within: Duration) {
    Missing::new(sent, &[ledger]).until_none(within).await;
}
