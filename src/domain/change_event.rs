//! What a source record says: a change of a document, with all that routing and delivery need of it.

mod config_document;
mod document_id;
mod form;
mod image;
mod read;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::config::ClientId;
use super::extended_json::{self, Value};

pub use config_document::ConfigDocument;
pub(in crate::domain) use form::{Form, unwrap_schema};
pub use read::read;

/// A record of the source stream, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRecord {
    /// Where it stands.
    pub position: super::transfer::SourcePosition,
    /// The record's timestamp, milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The key bytes.
    pub key: Option<Bytes>,
    /// The value bytes; `None` is a tombstone.
    pub value: Option<Bytes>,
    /// The headers, in order; of a name that comes twice the last counts.
    pub headers: Vec<(String, Bytes)>,
}

impl SourceRecord {
    /// The text of a header; of a name that comes twice the last. `None` also when it is not UTF-8.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().rev().find(|(other, _)| other == name)?;
        std::str::from_utf8(value).ok()
    }
}

/// The operation of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Insert.
    Create,
    /// Update or replace.
    Update,
    /// Delete.
    Delete,
    /// Snapshot read.
    Read,
}

impl Op {
    /// The letter in the body.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "c",
            Self::Update => "u",
            Self::Delete => "d",
            Self::Read => "r",
        }
    }
}

/// What the reader needs to know of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceNames {
    /// The topic prefix, `mongo`.
    pub prefix: Arc<str>,
    /// Collections (or `db.collection`) that carry Debezium's signals: skipped.
    pub signal_collections: Vec<String>,
}

/// What a source record is.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceEvent {
    /// A change of a document.
    Change(Box<ChangeEvent>),
    /// The null record that follows a delete: nothing to do.
    Tombstone(Subject),
    /// Something that Debezium writes for itself: nothing to do.
    Skip(Subject, SkipReason),
    /// It cannot be read: a dead letter.
    Invalid(Subject, String),
}

/// What a record is about, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    /// The database.
    pub db: Option<String>,
    /// The collection.
    pub collection: Option<String>,
    /// The document's id as text.
    pub id: Option<String>,
}

impl Subject {
    /// Whether the record may be one of a client config, and so hold secrets: it is, or nobody can tell.
    /// `platform` is `MONGO_PREFIX`.
    pub fn may_hold_secrets(&self, platform: &str) -> bool {
        match (&self.db, &self.collection) {
            (Some(db), Some(collection)) => is_config_collection(platform, db, collection),
            _ => true,
        }
    }
}

/// Why a record is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SkipReason {
    /// Heartbeats, transaction records, notifications, schema changes: told by the topic.
    SideTopic,
    /// A document of the signal collection.
    Signal,
    /// The operation `t`, which MongoDB does not have.
    Truncate,
    /// The operation `m`, which MongoDB does not have.
    Message,
}

impl SkipReason {
    /// The label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SideTopic => "side_topic",
            Self::Signal => "signal",
            Self::Truncate => "truncate",
            Self::Message => "message",
        }
    }

    /// The letter of the operation, where that is the reason.
    pub fn op(self) -> Option<&'static str> {
        match self {
            Self::Truncate => Some("t"),
            Self::Message => Some("m"),
            Self::SideTopic | Self::Signal => None,
        }
    }
}

/// A change of a document.
///
/// Which images there are: a create or read has `after` and no `before`; a delete has no `after`, and `before`
/// when pre-images are on; an update may have both, either or none (then only its changed fields are known).
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeEvent {
    /// What was done.
    pub op: Op,
    /// The database.
    pub db: String,
    /// The collection.
    pub collection: String,
    /// The document's id as text: the hex of an ObjectId, a string as it is, digits as written, a hyphenated
    /// UUID, else compact JSON. May hold U+0000 and be kilobytes long.
    pub id: String,
    /// When, milliseconds since 1970: Debezium's time, else MongoDB's, else the record's timestamp.
    pub ts_ms: i64,
    /// The connector's name, else the topic prefix.
    pub source_name: String,
    /// The document before the change.
    pub before: Option<Image>,
    /// The document after the change.
    pub after: Option<Image>,
    /// The clients of the effective document: `after`, else `before`, else the changed fields.
    pub clients: Vec<ClientId>,
    /// The clients of `before`.
    pub before_clients: Vec<ClientId>,
    /// The clients of `before` that are not in `after`, for an update with both images: they lost access.
    pub removed_clients: Vec<ClientId>,
    /// A delete, or a document that is soft-deleted.
    pub deleted: bool,
    /// The W3C trace context of the record, when it is well-formed.
    pub traceparent: Option<String>,
    /// No image says that this is, or was, a CQRS config: each names another `key`.
    other_key: bool,
}

impl ChangeEvent {
    /// Whether this is a client config, which holds secrets and is routed to nobody. A document of the config
    /// collection counts as one unless every image says that its key is another. `platform` is `MONGO_PREFIX`.
    pub fn is_client_config(&self, platform: &str) -> bool {
        is_config_collection(platform, &self.db, &self.collection) && !self.other_key
    }

    /// The config that the document is after the change, or was when it was deleted.
    pub fn config_document(&self) -> Option<ConfigDocument> {
        ConfigDocument::read(self.after.as_ref().or(self.before.as_ref())?.text())
    }
}

fn is_config_collection(platform: &str, db: &str, collection: &str) -> bool {
    collection == "configs" && db.strip_prefix(platform) == Some("-context")
}

/// A document in extended JSON as it came: an object, checked.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    text: String,
}

impl Image {
    /// The extended JSON. May hold the bare tokens `NaN` and `Infinity`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The members of the document.
    pub(in crate::domain) fn members(&self) -> extended_json::Members<'_> {
        match extended_json::parse_image(&self.text) {
            Ok(Value::Object(members)) => members,
            // An image is made only of text that was read as an object before.
            Ok(_) | Err(_) => unreachable!("an image that is no object"),
        }
    }
}

impl fmt::Debug for Image {
    /// Its size only: documents stay out of the log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({} bytes)", self.text.len())
    }
}
