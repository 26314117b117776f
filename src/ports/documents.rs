//! The documents of the platform, where they are kept: what a resync reads.

use std::fmt;

use super::{BoxFuture, StoreResult};
use crate::domain::config::ClientId;

/// A collection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct CollectionName {
    /// Its database, with the platform's prefix.
    pub db: String,
    /// Its own name; may hold dots.
    pub collection: String,
}

impl fmt::Display for CollectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.db, self.collection)
    }
}

/// The `_id` of a document, as the store writes it for itself: for nobody else to read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct DocumentKey(pub String);

/// A document as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDocument {
    /// Its `_id`.
    pub key: DocumentKey,
    /// Its `_id` as Debezium writes it into the key of a record.
    pub id: String,
    /// All of it as Debezium writes it into `after`; `None`: it is damaged.
    pub text: Option<String>,
}

/// The documents of the platform. What is read is what stays: a majority has it.
pub trait Documents: Send + Sync {
    /// The collections of the platform's databases, but those that the store keeps for itself.
    fn collections(&self) -> BoxFuture<'_, StoreResult<Vec<CollectionName>>>;

    /// Documents whose `clients` hold this one, by `_id`, those behind `after`: at most `limit`, and not many more than `bytes`.
    fn page<'a>(
        &'a self,
        collection: &'a CollectionName,
        client: &'a ClientId,
        after: Option<&'a DocumentKey>,
        limit: usize,
        bytes: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<StoredDocument>>>;

    /// These documents as they are now, in no order, whosever they are. Those that are gone are left out.
    fn again<'a>(
        &'a self,
        collection: &'a CollectionName,
        keys: Vec<DocumentKey>,
    ) -> BoxFuture<'a, StoreResult<Vec<StoredDocument>>>;
}
