//! What arrived at the receivers, in the order in which it did.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Deserialize;

use super::wait::{eventually, holds};

/// One request that came in whole.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    /// When its last byte was read.
    pub(crate) at: Instant,
    /// When its answer was written; `None` until then, and for ever when it gets none.
    pub(crate) answered: Option<Instant>,
    /// Which process sent it, where the receiver asks for that.
    pub(crate) sender: Option<u32>,
    /// Which client's webhook.
    pub(crate) client: String,
    /// All headers, names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    /// The body as it came.
    pub(crate) body: Bytes,
    /// What the body says, where it can be read.
    pub(crate) change: Option<Change>,
}

/// What the body of a webhook request says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Change {
    /// `<db>.<collection>`.
    pub(crate) topic: String,
    /// The document.
    pub(crate) id: String,
    /// c, u, d or r.
    pub(crate) op: String,
    /// The field `version` of the document, which the tests let rise with each change.
    pub(crate) version: Option<u64>,
}

/// A place in the transfer log: incarnation, partition, offset.
pub(crate) type Sequence = (u64, u64, u64);

impl Arrival {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn webhook_id(&self) -> &str {
        self.header("webhook-id")
    }

    /// The header `webhook-sequence`.
    pub(crate) fn sequence(&self) -> Option<Sequence> {
        let parts: Vec<u64> =
            self.header("webhook-sequence").split('-').map_while(|part| part.parse().ok()).collect();
        match parts[..] {
            [incarnation, partition, offset] => Some((incarnation, partition, offset)),
            _ => None,
        }
    }
}

impl Change {
    /// Reads a body. Nothing but what is needed: a document may be nested deeper than a JSON reader likes.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Body {
            id: String,
            topic: String,
            op: String,
            after: Option<Image>,
            before: Option<Image>,
        }
        #[derive(Deserialize)]
        struct Image {
            version: Option<serde_json::Value>,
        }
        let Body { id, topic, op, after, before } = serde_json::from_slice(body).ok()?;
        let version = after.or(before).and_then(|image| image.version?.as_u64());
        Some(Self { topic, id, op, version })
    }
}

/// The arrivals of one receiver. A clone is the same ledger.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    entries: Arc<Mutex<Entries>>,
    forgets: bool,
}

#[derive(Debug, Default)]
struct Entries {
    arrivals: Vec<Arrival>,
    /// Counted as they come: many wait for a number of them among tens of thousands.
    ids: HashSet<String>,
}

impl Ledger {
    /// One that keeps nothing.
    pub(crate) fn forgetful() -> Self {
        Self { forgets: true, ..Self::default() }
    }

    /// Enters an arrival; returns its number.
    pub(crate) fn enter(&self, arrival: Arrival) -> usize {
        if self.forgets {
            return 0;
        }
        let mut entries = self.entries();
        entries.ids.insert(arrival.webhook_id().to_owned());
        entries.arrivals.push(arrival);
        entries.arrivals.len() - 1
    }

    /// Notes that the answer was written.
    pub(crate) fn answered(&self, number: usize) {
        if let Some(arrival) = self.entries().arrivals.get_mut(number) {
            arrival.answered = Some(Instant::now());
        }
    }

    /// All so far.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.since(0)
    }

    /// Those so far from this number on.
    pub(crate) fn since(&self, number: usize) -> Vec<Arrival> {
        self.entries().arrivals[number..].to_vec()
    }

    /// Those of one client so far.
    pub(crate) fn of(&self, client: &str) -> Vec<Arrival> {
        self.entries().arrivals.iter().filter(|arrival| arrival.client == client).cloned().collect()
    }

    /// When those of this process came in, since `after`.
    pub(crate) fn sent_by(&self, process: u32, after: Instant) -> Vec<Instant> {
        let entries = self.entries();
        let of = entries.arrivals.iter().filter(|arrival| arrival.sender == Some(process));
        of.map(|arrival| arrival.at).filter(|at| *at > after).collect()
    }

    /// How many there are, repeats included.
    pub(crate) fn len(&self) -> usize {
        self.entries().arrivals.len()
    }

    /// How many different `webhook-id` there are.
    pub(crate) fn distinct(&self) -> usize {
        self.entries().ids.len()
    }

    /// Waits until `count` different changes are there, and returns all arrivals.
    pub(crate) async fn wait_for(&self, count: usize, within: Duration) -> Vec<Arrival> {
        eventually("changes at the receiver", within, async || {
            let distinct = self.distinct();
            holds(distinct >= count, || format!("{distinct} of {count} different changes"))
        })
        .await;
        self.arrivals()
    }

    /// Waits until a client has `count` requests, repeats included, and returns them.
    pub(crate) async fn wait_for_client(&self, client: &str, count: usize, within: Duration) -> Vec<Arrival> {
        eventually("requests at a client", within, async || {
            let arrivals = self.of(client);
            let len = arrivals.len();
            if len >= count { Ok(arrivals) } else { Err(format!("{len} of {count} requests at {client:?}")) }
        })
        .await
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[test]
fn reads_a_deep_body() {
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    let body = format!(
        r#"{{"id":"7","op":"u","topic":"wnx-a.b","after":{{"x":{deep},"version":3}},"before":{{"version":2}}}}"#
    );
    let change = Change::read(body.as_bytes()).unwrap();
    assert_eq!(change, Change { topic: "wnx-a.b".into(), id: "7".into(), op: "u".into(), version: Some(3) });
}
