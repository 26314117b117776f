//! A client's CQRS config: where its changes go, and how.

mod document;
mod filter;
mod members;
mod signing_key;
mod value;

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::document::read_document;
pub use self::filter::{Filter, Pattern};
pub use self::signing_key::SigningKey;
pub use self::value::read_value;

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

/// It hashes and compares as its text does.
impl Borrow<str> for ClientId {
    fn borrow(&self) -> &str {
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
    /// The form of documents in the body. Read even where the rest of the value is faulty: bodies are
    /// written when a change is routed, and held changes are routed too.
    pub format: BodyFormat,
    /// Which changes are wanted. Read even where the rest of the value is faulty.
    pub filter: Filter,
    /// How to deliver; a fault in the value holds this client's delivery, and only that.
    pub delivery: Result<Arc<DeliverySettings>, ConfigFault>,
}

impl ClientConfig {
    /// Whether changes are routed to this client: ACTIVE and not deleted. An active config may be unusable.
    pub fn is_active(&self) -> bool {
        self.status == Status::Active && !self.deleted
    }

    /// Whether changes can be delivered: active, and its value has no fault.
    pub fn is_usable(&self) -> bool {
        self.is_active() && self.delivery.is_ok()
    }

    /// Whether this is the config that was tried: active, of the same version, with the same webhook.
    pub fn is_still(&self, tried: &Self) -> bool {
        let webhook = |config: &Self| config.delivery.as_ref().ok().map(|settings| settings.webhook.clone());
        self.is_active() && self.version == tried.version && webhook(self) == webhook(tried)
    }

    /// Whether this config replaces `other` of the same client: old change events come again, and only a
    /// newer value may replace.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        (self.updated_at_ms, self.version) > (other.updated_at_ms, other.version)
    }
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
    /// Standard Webhooks secrets; all of them sign, the first first.
    pub secrets: Vec<SigningKey>,
    /// Custom headers, names in lower case, none of the reserved ones.
    pub headers: Vec<(String, Secret)>,
    /// The whole request, 1 to 60 s.
    pub timeout: Duration,
    /// Requests at a time, 1 to 256.
    pub concurrency: usize,
    /// At most `max` requests per `per`.
    pub rate_limit: Option<RateLimit>,
    /// What is kept in order.
    pub ordering: Ordering,
    /// Whether waiting changes of a document may be replaced by its newest.
    pub coalesce: bool,
}

impl DeliverySettings {
    /// Whether these lead to the same receiver as others, and say the same of who sends: what one answers holds for both.
    pub fn is_same_receiver(&self, other: &Self) -> bool {
        (&self.webhook, &self.authorization) == (&other.webhook, &other.authorization)
            && (&self.secrets, &self.headers) == (&other.secrets, &other.headers)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn config(updated_at_ms: i64, version: i64) -> ClientConfig {
        read_value(&ClientId::new("a"), Status::Active, false, version, updated_at_ms, None, "{}")
    }

    #[test]
    fn only_a_newer_config_replaces() {
        assert!(config(2, 1).is_newer_than(&config(1, 9)));
        assert!(config(1, 2).is_newer_than(&config(1, 1)));
        assert!(!config(1, 1).is_newer_than(&config(1, 1)));
        assert!(!config(1, 9).is_newer_than(&config(2, 1)));
    }

    #[test]
    fn a_secret_shows_nothing_of_itself() {
        assert!(!format!("{:?}", Secret::new("hunter2")).contains("hunter2"));
    }
}
