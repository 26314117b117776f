//! A client's CQRS config: where its changes go, and how.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::change_event::Op;

/// The id of a client: the hex string of its ObjectId, or whatever text stands in `clients[]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct ClientId(Arc<str>);

impl ClientId {
    /// A client id of this text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a client wants its changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    /// Changes are routed and delivered.
    Active,
    /// Changes are skipped when they are routed; what is in the log already waits in the stash.
    Inactive,
}

/// A value that must not be seen: its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself: for the wire only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The config of one client, read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    /// Whose it is.
    pub client: ClientId,
    /// Wanted or not.
    pub status: Status,
    /// Soft-deleted.
    pub deleted: bool,
    /// Rises with each change.
    pub version: i64,
    /// When it was changed, milliseconds since 1970.
    pub updated_at_ms: i64,
    /// Who owns the config document.
    pub owner: Option<String>,
    /// How to deliver; a fault in the value holds this client's delivery, and only that.
    pub delivery: Result<Arc<DeliverySettings>, ConfigFault>,
}

/// Why the value of a config cannot be used. Names the key, never the value of a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct ConfigFault {
    /// The key within `value`, `webhook` or `filter.ops[1]`.
    pub key: String,
    /// What is wrong with it.
    pub problem: String,
}

/// The `value` of a usable config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliverySettings {
    /// Where changes are POSTed: http or https, with a host.
    pub webhook: url::Url,
    /// Sent verbatim as `authorization`.
    pub authorization: Option<Secret>,
    /// Standard Webhooks secrets, decoded; all of them sign, the first first.
    pub secrets: Vec<Secret>,
    /// Custom headers, none of the reserved names.
    pub headers: Vec<(String, Secret)>,
    /// The whole request, 1 to 60 s.
    pub timeout: Duration,
    /// Requests at a time, 1 to 256.
    pub concurrency: usize,
    /// At most `max` requests per `per`.
    pub rate_limit: Option<RateLimit>,
    /// What is kept in order.
    pub ordering: Ordering,
    /// The form of documents in the body.
    pub format: BodyFormat,
    /// Which changes are wanted.
    pub filter: Filter,
    /// Whether waiting changes of a document may be replaced by its newest.
    pub coalesce: bool,
}

/// At most `max` requests per `per`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Requests.
    pub max: u32,
    /// Within this time.
    pub per: Duration,
}

/// What is kept in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ordering {
    /// The changes of each document.
    #[default]
    Document,
    /// All changes of the client.
    Client,
}

/// The form of documents in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BodyFormat {
    /// Plain JSON.
    #[default]
    Plain,
    /// The extended JSON as it came.
    Extended,
}

/// Which changes a client wants: patterns `<db>.<collection>` with `*`, the db without the platform's prefix.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Empty: everything.
    pub include: Vec<String>,
    /// Wins over `include`.
    pub exclude: Vec<String>,
    /// Empty: all operations. Judged after a revocation became a delete.
    pub ops: Vec<Op>,
}
