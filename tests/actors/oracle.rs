//! Judges a history that has come to rest.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use dispatcher::domain::stash::RowState;
use dispatcher::domain::transfer::EventId;
use dispatcher::ports::event_log::DeadLetter;

use crate::memory::stash::StashData;
use crate::receiver::{Book, Request};

/// A change that was put into the transfer log.
#[derive(Debug, Clone)]
pub(crate) struct Routed {
    pub(crate) client: String,
    pub(crate) document: String,
    pub(crate) offset: i64,
    pub(crate) version: u64,
    pub(crate) body: Bytes,
    /// Where forced replays of it stand.
    pub(crate) forced: Vec<i64>,
}

/// Everything that was put into the transfer log, by event id.
pub(crate) type Ledger = HashMap<String, Routed>;

/// What is wrong with a history, in words. Nothing: it is right.
pub(crate) fn judge(ledger: &Ledger, book: &Book, stash: &StashData, dead: &[DeadLetter]) -> Vec<String> {
    let mut wrong = book.violations.clone();
    wrong.extend(arrivals(book, stash));
    wrong.extend(replays(ledger, book, stash));
    wrong.extend(bodies(ledger, book));
    wrong.extend(lost(ledger, book, stash, dead));
    wrong.extend(dead_ends(ledger, book, stash));
    wrong.extend(coalesced(ledger, book, stash));
    wrong
}

/// First arrivals of a document rise, and its last arrival is its highest; but for changes that died when they were to be
/// repeated, too.
fn arrivals(book: &Book, stash: &StashData) -> Vec<String> {
    let died = |request: &Request| stash.row(&EventId::from_stored(&request.event)).is_some();
    let mut wrong = Vec::new();
    let mut seen: HashMap<(&str, &str), Vec<i64>> = HashMap::new();
    let mut arrived: HashMap<&str, &Request> = HashMap::new();
    for index in &book.arrivals {
        let request = &book.requests[*index];
        let seen = seen.entry((&request.client, &request.document)).or_default();
        let highest = seen.iter().max().copied();
        if !request.replayed
            && !seen.contains(&request.offset)
            && highest.is_some_and(|highest| highest > request.offset)
        {
            wrong.push(format!(
                "{}/{}: {} arrived first after {highest:?}",
                request.client, request.document, request.offset
            ));
        }
        seen.push(request.offset);
        arrived.insert(request.event.as_str(), request);
    }
    for ((client, document), seen) in seen {
        let newest = arrived
            .values()
            .filter(|request| request.client == client && request.document == document && !died(request));
        if seen.last() < newest.map(|request| &request.offset).max() {
            wrong.push(format!("{client}/{document}: the last arrival is not the newest: {seen:?}"));
        }
    }
    wrong
}

/// The body of an event is the same at every attempt.
fn bodies(ledger: &Ledger, book: &Book) -> Vec<String> {
    let differs = |request: &&Request| {
        ledger.get(&request.event).is_none_or(|routed| {
            routed.body != request.body
                || (routed.offset != request.offset && !routed.forced.contains(&request.offset))
                || routed.client != request.client
                || routed.document != request.document
        })
    };
    book.requests.iter().filter(differs).map(|request| format!("{request:?} was never routed so")).collect()
}

/// Every routed change was acknowledged, or is a row, or a dead letter of the log.
fn lost(ledger: &Ledger, book: &Book, stash: &StashData, dead: &[DeadLetter]) -> Vec<String> {
    let is_dead = |event: &str| {
        let headers =
            dead.iter().filter_map(|letter| letter.record.as_ref()).flat_map(|record| &record.headers);
        headers.into_iter().any(|(name, value)| name == "event" && value == event)
    };
    let acknowledged: std::collections::HashSet<_> = book
        .requests
        .iter()
        .filter(|request| request.acknowledged)
        .map(|request| request.event.as_str())
        .collect();
    ledger
        .iter()
        .filter(|(event, _)| {
            !acknowledged.contains(event.as_str())
                && !stash.coalesced.contains(&EventId::from_stored(event))
                && stash.row(&EventId::from_stored(event)).is_none()
                && !is_dead(event)
        })
        .map(|(_, routed)| format!("{}/{}: {} is lost", routed.client, routed.document, routed.offset))
        .collect()
}

/// Whatever a newer change stood for: that one arrived, or is a row that everybody sees.
fn coalesced(ledger: &Ledger, book: &Book, stash: &StashData) -> Vec<String> {
    let newer_arrived = |routed: &Routed| {
        book.requests.iter().any(|request| {
            request.acknowledged
                && request.client == routed.client
                && request.document == routed.document
                && request.offset > routed.offset
        }) || stash.rows().any(|row| {
            let newer = ledger.get(row.transfer.event_id.as_str());
            newer.is_some_and(|newer| {
                newer.client == routed.client
                    && newer.document == routed.document
                    && newer.offset > routed.offset
            })
        })
    };
    let gone = stash.coalesced.iter().filter_map(|event| ledger.get(event.as_str()));
    gone.filter(|routed| !newer_arrived(routed))
        .map(|routed| format!("{}/{}: {} went for nothing", routed.client, routed.document, routed.offset))
        .collect()
}

/// A dead row that is older than what its receiver got of its document is said to be superseded. (A repeat that died is
/// none: its change had arrived, and all newer ones with it.)
fn dead_ends(ledger: &Ledger, book: &Book, stash: &StashData) -> Vec<String> {
    let mut newest: HashMap<(&str, &str), i64> = HashMap::new();
    let mut arrived = HashSet::new();
    for request in book.requests.iter().filter(|request| request.acknowledged) {
        arrived.insert(request.event.as_str());
        // An answer that broke off on its way is unknown to the service, which has a row for the change still.
        if stash.row(&EventId::from_stored(&request.event)).is_some() {
            continue;
        }
        let newest = newest.entry((&request.client, &request.document)).or_insert(-1);
        *newest = (*newest).max(request.offset);
    }
    let mut wrong = Vec::new();
    for row in stash.rows().filter(|row| row.state == RowState::Dead) {
        let event = row.transfer.event_id.as_str();
        let Some(routed) = ledger.get(event).filter(|_| !arrived.contains(event)) else { continue };
        let key = (routed.client.as_str(), routed.document.as_str());
        let offset = row.transfer.sequence.offset;
        if let Some(newest) = newest.get(&key).filter(|newest| **newest > offset) {
            wrong.push(format!(
                "{}/{}: {} is dead, and not superseded by {newest}",
                routed.client, routed.document, offset
            ));
        }
    }
    wrong
}

/// A replay never starts after a newer change was delivered, unless it is forced; or unless both come again, as all does of which it was not
/// made durable that it was delivered. (What was given up itself at some time counts as not
/// delivered: the receiver may have acknowledged it, and nobody knew.)
fn replays(ledger: &Ledger, book: &Book, stash: &StashData) -> Vec<String> {
    let forced = |request: &Request| {
        ledger.get(&request.event).is_some_and(|routed| routed.forced.contains(&request.offset))
    };
    let mut wrong = Vec::new();
    for (index, replay) in book.requests.iter().enumerate() {
        if !replay.replayed || forced(replay) {
            continue;
        }
        let (before, after) = (&book.requests[..index], &book.requests[index + 1..]);
        let same = |one: &&Request, other: &Request| (&one.event, one.offset) == (&other.event, other.offset);
        let repeats = before.iter().any(|one| one.replayed && same(&one, replay));
        let newer = before.iter().find(|other| {
            other.acknowledged
                && other.ended_ms.is_some_and(|ended| ended <= replay.started_ms)
                && (&other.client, &other.document) == (&replay.client, &replay.document)
                && other.offset > replay.offset
                && !stash.given_up.contains(&EventId::from_stored(&other.event))
                && !(repeats && after.iter().any(|one| one.acknowledged && same(&one, other)))
        });
        if let Some(newer) = newer {
            let Request { client, document, offset, .. } = replay;
            wrong.push(format!("{client}/{document}: {offset} was replayed after {}", newer.offset));
        }
    }
    wrong
}
