//! Judges a run: guarantees 1 to 3, by comparing what was sent with what arrived.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::ledger::{Arrival, Sequence};

/// One change for one client.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pair {
    /// For whom.
    pub(crate) client: String,
    /// `<db>.<collection>`.
    pub(crate) topic: String,
    /// The document.
    pub(crate) id: String,
    /// Its version after the change; rises in the order of the source.
    pub(crate) version: u64,
}

impl Pair {
    /// What has arrived, where it can be read.
    pub(crate) fn of(arrival: &Arrival) -> Option<Self> {
        let change = arrival.change.clone()?;
        let version = change.version?;
        Some(Self { client: arrival.client.clone(), topic: change.topic, id: change.id, version })
    }
}

/// What was sent.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Acknowledged by the intake: each must arrive.
    pub(crate) acknowledged: BTreeSet<Pair>,
    /// Requests that were cut off before their answer: of each, everything arrives or nothing.
    pub(crate) in_doubt: Vec<Vec<Pair>>,
}

/// What is wrong with a run; empty when every promise was kept.
///
/// `rows` tells how many rows of a client are visible in the stash: as many changes may be missing.
pub(crate) fn violations(sent: &Sent, arrivals: &[Arrival], rows: impl Fn(&str) -> usize) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(missing(sent, arrivals, rows));
    found.extend(torn_requests(sent, arrivals));
    found.extend(changed_repeats(arrivals));
    for ((client, topic, id), history) in by_document(arrivals) {
        let document = format!("{client} {topic} {id}");
        found.extend(order_of_first_arrivals(&document, &history));
        found.extend(last_arrival(&document, &history));
    }
    found
}

/// Fails the test with the first violations, if there are any.
pub(crate) fn assert_kept(sent: &Sent, arrivals: &[Arrival], rows: impl Fn(&str) -> usize) {
    let found = violations(sent, arrivals, rows);
    let shown = found.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n  ");
    assert!(found.is_empty(), "{} violations:\n  {shown}", found.len());
}

/// Fails the test when a document had two requests at a client at once. Only for runs in which no process is
/// killed and no request times out: what such a request left at the receiver cannot be known.
pub(crate) fn assert_one_at_a_time(arrivals: &[Arrival]) {
    for ((client, _, id), history) in by_document(arrivals) {
        for pair in history.windows(2) {
            let before = pair[0].answered;
            assert!(
                before.is_some_and(|answered| answered <= pair[1].at),
                "{client} {id}: {} came before {} was answered",
                pair[1].webhook_id(),
                pair[0].webhook_id()
            );
        }
    }
}

type Document = (String, String, String);

fn by_document(arrivals: &[Arrival]) -> BTreeMap<Document, Vec<&Arrival>> {
    let mut documents = BTreeMap::<Document, Vec<&Arrival>>::new();
    for arrival in arrivals {
        if let Some(change) = &arrival.change {
            let document = (arrival.client.clone(), change.topic.clone(), change.id.clone());
            documents.entry(document).or_default().push(arrival);
        }
    }
    documents
}

fn missing(sent: &Sent, arrivals: &[Arrival], rows: impl Fn(&str) -> usize) -> Vec<String> {
    let arrived: BTreeSet<Pair> = arrivals.iter().filter_map(Pair::of).collect();
    let mut by_client = BTreeMap::<&str, Vec<&Pair>>::new();
    for pair in sent.acknowledged.difference(&arrived) {
        by_client.entry(&pair.client).or_default().push(pair);
    }
    let mut found = Vec::new();
    for (client, pairs) in by_client {
        let visible = rows(client);
        if pairs.len() > visible {
            let first = pairs[0];
            found.push(format!(
                "{client}: {} changes did not arrive and {visible} rows are visible; one is {} v{}",
                pairs.len(),
                first.id,
                first.version
            ));
        }
    }
    found
}

fn torn_requests(sent: &Sent, arrivals: &[Arrival]) -> Vec<String> {
    let arrived: BTreeSet<Pair> = arrivals.iter().filter_map(Pair::of).collect();
    let mut found = Vec::new();
    for (number, request) in sent.in_doubt.iter().enumerate() {
        let there = request.iter().filter(|pair| arrived.contains(pair)).count();
        if there != 0 && there != request.len() {
            found.push(format!("request in doubt {number}: {there} of {} changes arrived", request.len()));
        }
    }
    found
}

fn changed_repeats(arrivals: &[Arrival]) -> Vec<String> {
    let mut first = HashMap::<&str, &Arrival>::new();
    let mut found = Vec::new();
    for arrival in arrivals {
        let earlier = first.entry(arrival.webhook_id()).or_insert(arrival);
        if earlier.body != arrival.body {
            found.push(format!("{}: another body when repeated", arrival.webhook_id()));
        }
        if earlier.sequence() != arrival.sequence() {
            found.push(format!("{}: another sequence when repeated", arrival.webhook_id()));
        }
        if earlier.client != arrival.client {
            found.push(format!("{}: the same id for two clients", arrival.webhook_id()));
        }
    }
    found
}

fn order_of_first_arrivals(document: &str, history: &[&Arrival]) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut highest: Option<(Sequence, Option<u64>)> = None;
    for arrival in history {
        let Some(sequence) = arrival.sequence() else {
            found.push(format!("{document}: no webhook-sequence in {}", arrival.webhook_id()));
            continue;
        };
        if !seen.insert(arrival.webhook_id()) {
            continue;
        }
        let version = arrival.change.as_ref().and_then(|change| change.version);
        if let Some((before, version_before)) = highest {
            if sequence <= before {
                found.push(format!("{document}: first arrival of {sequence:?} after {before:?}"));
            } else if version < version_before {
                found.push(format!("{document}: version {version:?} after {version_before:?} in the log"));
            }
        }
        highest = highest.max(Some((sequence, version)));
    }
    found
}

fn last_arrival(document: &str, history: &[&Arrival]) -> Option<String> {
    let last = history.last()?.sequence();
    let newest = history.iter().filter_map(|arrival| arrival.sequence()).max();
    (last != newest).then(|| format!("{document}: ends on {last:?}, the newest is {newest:?}"))
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
