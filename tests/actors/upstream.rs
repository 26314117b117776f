//! What happens in the platform's database: documents change, for some clients each, and the source tells of it as Debezium does. And
//! the judge of what ingest made of that, by rules of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use dispatcher::domain::config::ClientId;
use dispatcher::domain::transfer::{SourcePosition, Transfer, TransferKind};
use fastrand::Rng;
use serde_json::{Value, json};

use crate::memory::configs::ConfigStep;
use crate::memory::log::LogData;
use crate::memory::source::TOPICS;

/// What the source told so far, and how the documents are now.
#[derive(Default)]
pub(crate) struct Upstream {
    told: Vec<Told>,
    documents: HashMap<String, Document>,
    version: u64,
}

#[derive(Clone)]
struct Document {
    version: u64,
    clients: Vec<String>,
}

/// A record of the source.
struct Told {
    position: SourcePosition,
    at_ms: i64,
    what: What,
}

enum What {
    Change(Change),
    /// Nobody can read it.
    Garbage,
}

/// A change of a document: its images as far as they are known.
struct Change {
    id: String,
    op: &'static str,
    before: Option<Document>,
    after: Option<Document>,
}

impl Change {
    /// What a client is to get: the operation, and the versions after and before. `None`: nothing.
    fn of(&self, client: &str) -> Option<(&'static str, Option<u64>, Option<u64>)> {
        let has = |image: &Option<Document>| {
            image
                .as_ref()
                .filter(|image| image.clients.iter().any(|one| one == client))
                .map(|image| image.version)
        };
        let (before, after) = (has(&self.before), has(&self.after));
        match (self.op, before, after) {
            ("d", before, _) => before.map(|_| ("d", None, before)),
            (op, _, after @ Some(_)) => Some((op, after, before)),
            // It had the document, and may not see it any more.
            (_, before @ Some(_), None) => self.after.as_ref().map(|_| ("d", None, before)),
            (_, None, None) => None,
        }
    }

    fn concerned(&self) -> impl Iterator<Item = &String> {
        let images = self.before.iter().chain(&self.after);
        let mut clients: Vec<_> = images.flat_map(|image| &image.clients).collect();
        clients.sort();
        clients.dedup();
        clients.into_iter()
    }
}

/// Every document has its collection and its partition.
fn place(id: &str) -> (&'static str, &'static str, i32) {
    let (db, collection, partitions) = TOPICS[usize::from(id >= "3")];
    (db, collection, id.bytes().map(i32::from).sum::<i32>() % partitions)
}

impl Upstream {
    /// A document changes: it is for these clients now.
    pub(crate) fn change(
        &mut self,
        log: &mut LogData,
        id: &str,
        clients: Vec<String>,
        rng: &mut Rng,
        now_ms: i64,
    ) {
        self.version += 1;
        let before = self.documents.remove(id);
        let now = Document { version: self.version, clients };
        let (op, after) = match &before {
            None => ("c", Some(now)),
            Some(_) if rng.u8(0..6) == 0 => ("d", None),
            Some(_) if rng.u8(0..8) == 0 => ("r", Some(now)),
            Some(_) => ("u", Some(now)),
        };
        if let Some(after) = &after {
            self.documents.insert(id.to_owned(), after.clone());
        }
        // Of snapshots there is none, and not every collection keeps them.
        let before = before.filter(|_| op != "r" && rng.u8(0..5) > 0);
        let image =
            |image: &Document| json!({ "_id": id, "clients": image.clients, "v": image.version }).to_string();
        let (db, collection, partition) = place(id);
        let value = json!({
            "op": op, "ts_ms": now_ms, "source": { "db": db, "collection": collection },
            "before": before.as_ref().map(image), "after": after.as_ref().map(image),
        });
        let key = json!({ "id": json!(id).to_string() });
        let change = Change { id: id.to_owned(), op, before, after };
        self.push(
            log,
            (db, collection, partition),
            Some(key),
            Some(value.to_string()),
            now_ms,
            Some(What::Change(change)),
        );
        if op == "d" && rng.bool() {
            let key = json!({ "id": json!(id).to_string() });
            self.push(log, (db, collection, partition), Some(key), None, now_ms, None);
        }
    }

    /// A client's config document changed: a hint, and old ones come again.
    pub(crate) fn config(&mut self, log: &mut LogData, client: &str, now_ms: i64) {
        let (db, collection, _) = TOPICS[2];
        let after = json!({ "_id": client, "key": "CQRS", "eid": client }).to_string();
        let source = json!({ "db": db, "collection": collection });
        let value = json!({ "op": "u", "ts_ms": now_ms, "after": after, "source": source });
        self.push(log, (db, collection, 0), None, Some(value.to_string()), now_ms, None);
    }

    /// A record that nobody can read.
    pub(crate) fn garbage(&mut self, log: &mut LogData, now_ms: i64) {
        let (db, collection, _) = TOPICS[0];
        let value = "{\"op\":\"u\",\"after\":\"{".to_owned();
        self.push(log, (db, collection, 1), None, Some(value), now_ms, Some(What::Garbage));
    }

    fn push(
        &mut self,
        log: &mut LogData,
        (db, collection, partition): (&str, &str, i32),
        key: Option<Value>,
        value: Option<String>,
        at_ms: i64,
        what: Option<What>,
    ) {
        let topic = format!("mongo.{db}.{collection}");
        let key = key.map(|key| Bytes::from(key.to_string()));
        let position = log.source.push(&topic, partition, at_ms, key, value.map(Bytes::from));
        self.told.extend(what.map(|what| Told { position, at_ms, what }));
    }

    /// What is wrong with what ingest made of it.
    pub(crate) fn judge(&self, log: &LogData, steps: &[ConfigStep]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut routed: BTreeMap<(&str, i32, i64), Vec<&Transfer>> = BTreeMap::new();
        for transfer in routed_here(log) {
            let SourcePosition { topic, partition, offset } = &transfer.source;
            routed.entry((topic, *partition, *offset)).or_default().push(transfer);
        }
        for told in &self.told {
            let SourcePosition { topic, partition, offset } = &told.position;
            let place = (&**topic, *partition, *offset);
            let Some(committed_ms) = log.source.committed_ms(&told.position) else {
                wrong.push(format!("{place:?} was never read"));
                continue;
            };
            let transfers = routed.remove(&place).unwrap_or_default();
            match &told.what {
                What::Garbage => {
                    let letters = log.dead.iter().filter(|letter| letter.position == told.position).count();
                    if letters != 1 || !transfers.is_empty() {
                        wrong.push(format!("{place:?} cannot be read, and is {letters} dead letters"));
                    }
                }
                What::Change(change) => {
                    let when = (told.at_ms, committed_ms);
                    let faults = change.judge(&transfers, when, steps);
                    wrong.extend(
                        faults.into_iter().map(|fault| format!("{place:?} of {}: {fault}", change.id)),
                    );
                }
            }
        }
        wrong.extend(routed.keys().map(|place| format!("{place:?} never was, and is routed")));
        wrong.extend(order(log));
        wrong
    }
}

/// Where changes come from that were put into the transfer log by a test itself.
pub(crate) const ELSEWHERE: &str = "elsewhere";

fn routed_here(log: &LogData) -> impl Iterator<Item = &Arc<Transfer>> {
    let live = log.transfers().filter(|transfer| transfer.kind == TransferKind::Live);
    live.filter(|transfer| &*transfer.source.topic != ELSEWHERE)
}

/// The transfers of a client and document stand as their changes did.
fn order(log: &LogData) -> Vec<String> {
    let mut last: HashMap<(&str, &str), &SourcePosition> = HashMap::new();
    let mut wrong = Vec::new();
    for transfer in routed_here(log) {
        let before = last.insert((transfer.client.as_str(), &transfer.document), &transfer.source);
        if let Some(before) = before.filter(|before| before.offset >= transfer.source.offset) {
            wrong.push(format!("{} of {} stands behind {before:?}", transfer.source.offset, transfer.client));
        }
    }
    wrong
}

impl Change {
    fn judge(&self, transfers: &[&Transfer], when: (i64, i64), steps: &[ConfigStep]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut left = transfers.to_vec();
        for client in self.concerned() {
            let (its, others): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|one| one.client.as_str() == client);
            left = others;
            let wanted = self.of(client);
            match (its.len(), wanted) {
                (0, Some(_)) if is_active_throughout(client, when, steps) => {
                    wrong.push(format!("lost for {client}, who was active from {} to {}", when.0, when.1));
                }
                (0, _) => {}
                (1, Some(wanted)) if !was_ever_active(client, when.1, steps) => {
                    wrong.push(format!("{client} was never active, and gets {wanted:?}"));
                }
                (1, Some((op, after, before))) => {
                    let body: Value = serde_json::from_slice(&its[0].body).unwrap();
                    let version = |image: &str| body[image]["v"].as_u64();
                    let got = (body["id"].as_str(), body["op"].as_str(), version("after"), version("before"));
                    if got != (Some(&self.id), Some(op), after, before) {
                        wrong.push(format!("{client} gets {body}"));
                    }
                }
                (count, wanted) => wrong.push(format!("{client} gets {count} of {wanted:?}")),
            }
        }
        wrong.extend(left.iter().map(|transfer| format!("it is not for {}", transfer.client)));
        wrong
    }
}

/// Whether a client's config was active all the time from the change to the moment when it was routed at the latest.
fn is_active_throughout(client: &str, (from_ms, to_ms): (i64, i64), steps: &[ConfigStep]) -> bool {
    let own = || steps.iter().filter(|step| step.client == ClientId::new(client) && step.at_ms <= to_ms);
    let at_first = own().rfind(|step| step.at_ms < from_ms).is_some_and(|step| step.active);
    at_first && own().filter(|step| step.at_ms >= from_ms).all(|step| step.active)
}

fn was_ever_active(client: &str, to_ms: i64, steps: &[ConfigStep]) -> bool {
    steps.iter().any(|step| step.client == ClientId::new(client) && step.active && step.at_ms <= to_ms)
}
