//! What a client gets of a document that was read from MongoDB: what it would have got of the same document by Debezium. The document is made
//! into the record that Debezium would have written, and goes the way of all records.

use std::sync::Arc;

use serde_json::json;

use crate::domain::change_event::{self, ChangeEvent, Op, SourceEvent, SourceNames, SourceRecord};
use crate::domain::config::ClientId;
use crate::domain::document::{Bodies, BodyShape};
use crate::domain::guard::{Subscriber, WhenBlocked};
use crate::domain::routing::{self, RoutingInput, RoutingSettings, SkipReason, Verdict};
use crate::domain::transfer::{DocumentHash, EventId, NewTransfer, SourcePosition, TransferKind};
use crate::ports::documents::CollectionName;

/// No place in the source stream: a document that was read has none.
const NOWHERE: i64 = -1;

/// Knows the clients.
pub type LookUpClient = Arc<dyn Fn(&ClientId) -> Option<Subscriber> + Send + Sync>;

/// How documents come to clients.
#[derive(Clone)]
pub struct DocumentRoutes {
    /// How topics and signal collections are named.
    pub names: SourceNames,
    /// The platform's prefix of db names.
    pub mongo_prefix: Arc<str>,
    /// Whether a client that lost access is told by a delete.
    pub revoke: bool,
    /// What becomes of changes for clients whose owner is blocked.
    pub blocked: WhenBlocked,
    /// The clients.
    pub client: LookUpClient,
}

/// A document of a collection, as somebody saw it.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// Where it is.
    pub collection: &'a CollectionName,
    /// Its `_id` as Debezium writes it into a key.
    pub id: &'a str,
    /// All of it as Debezium writes it into `after`; `None`: it is gone.
    pub text: Option<&'a str>,
    /// When, milliseconds since 1970.
    pub ts_ms: i64,
}

/// Why a document is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsent {
    /// As for any change.
    Skip(SkipReason),
    /// No reader takes it.
    Unreadable,
}

impl DocumentRoutes {
    /// Whether a collection is for this client.
    ///
    /// # Errors
    /// Nothing is for it: says why.
    pub fn admits(&self, client: &ClientId, collection: &CollectionName) -> Result<bool, SkipReason> {
        let subscriber = (self.client)(client).ok_or(SkipReason::NoConfig)?;
        let (db, name) = (&collection.db, &collection.collection);
        Ok(subscriber.config().filter.admits(db, name, Op::Read, &self.mongo_prefix))
    }

    /// Whether the document is, now, one of the client's.
    pub fn is_of(&self, client: &ClientId, sight: Sight<'_>) -> bool {
        sight.text.is_some() && self.read(sight).is_some_and(|event| event.clients.contains(client))
    }

    /// What the client gets of it: the document, or that it is gone. `run` names the run of the resync.
    ///
    /// # Errors
    /// It gets nothing.
    pub fn transfer(&self, run: &str, client: &ClientId, sight: Sight<'_>) -> Result<NewTransfer, Unsent> {
        let event = self.read(sight).ok_or(Unsent::Unreadable)?;
        let clients = [client.clone()];
        let input = RoutingInput {
            has_after: event.after.is_some(),
            // Who is told that a document is gone has seen it: that is why he is told.
            has_before: event.op == Op::Delete,
            clients: &clients,
            before_clients: &[],
            removed_clients: &[],
            ..RoutingInput::of(&event, &self.mongo_prefix)
        };
        let settings =
            RoutingSettings { revoke: self.revoke, mongo_prefix: &self.mongo_prefix, blocked: self.blocked };
        let decisions = routing::route(&input, |client| (self.client)(client), &settings);
        let format = match decisions.map_err(Unsent::Skip)?.pop().map(|decision| decision.verdict) {
            Some(Verdict::Send { format, .. }) => format,
            Some(Verdict::Skip(reason)) => return Err(Unsent::Skip(reason)),
            None => return Err(Unsent::Skip(SkipReason::NoClients)),
        };
        let body = Bodies::new(&event).body(BodyShape { format, before: false, revocation: false });
        let document = format!("{}.{}:{}", event.db, event.collection, event.id);
        Ok(NewTransfer {
            event_id: EventId::of_resync(run, &document, &body),
            client: client.clone(),
            document_hash: DocumentHash::of(&event.db, &event.collection, &event.id),
            document: document.into(),
            kind: TransferKind::Resync,
            source: self.nowhere(sight.collection),
            traceparent: None,
            ts_ms: event.ts_ms,
            body,
        })
    }

    /// The topic of a collection, as Debezium names it.
    pub fn topic(&self, collection: &CollectionName) -> String {
        let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let name = format!("{}.{collection}", self.names.prefix);
        name.chars().map(|c| if is_legal(c) { c } else { '_' }).collect()
    }

    fn nowhere(&self, collection: &CollectionName) -> SourcePosition {
        let topic = format!("{}.{collection}", self.names.prefix).into();
        SourcePosition { topic, partition: NOWHERE as i32, offset: NOWHERE }
    }

    fn read(&self, sight: Sight<'_>) -> Option<Box<ChangeEvent>> {
        let Sight { collection: CollectionName { db, collection }, id, text, ts_ms } = sight;
        let name = &self.names.prefix;
        let source = json!({ "name": name, "db": db, "collection": collection, "ts_ms": ts_ms });
        let op = if text.is_some() { Op::Read } else { Op::Delete };
        let value = json!({ "op": op.as_str(), "ts_ms": ts_ms, "after": text, "source": source });
        let record = SourceRecord {
            position: self.nowhere(sight.collection),
            timestamp_ms: ts_ms,
            key: Some(json!({ "id": id }).to_string().into()),
            value: Some(value.to_string().into()),
            headers: Vec::new(),
        };
        match change_event::read(&record, &self.names) {
            SourceEvent::Change(event) => Some(event),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
