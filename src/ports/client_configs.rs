//! The configs of all clients.

use std::sync::Arc;

use super::{BoxFuture, StoreResult};
use crate::domain::config::{ClientConfig, ClientId, Status};

/// A change event of a config document: a hint that there is something newer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigHint {
    /// The `_id` of the config document, as text.
    pub document_id: String,
    /// The document after the change in extended JSON as it came; `None` when it was deleted, or its image is not known.
    pub document: Option<String>,
    /// Whether it is a hard delete.
    pub removed: bool,
    /// The change's time, milliseconds since 1970.
    pub ts_ms: i64,
}

/// A config with the JSON text of its value, secrets in it.
#[derive(Debug, Clone)]
pub struct StoredConfig {
    /// Read and checked.
    pub config: Arc<ClientConfig>,
    /// The `value` as it was given.
    pub value: String,
}

/// What `put` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// There was none (or a deleted one).
    Created,
    /// It replaced one.
    Replaced,
}

/// The configs of all clients.
pub trait ClientConfigs: Send + Sync {
    /// All of them, deleted ones too.
    fn load(&self) -> BoxFuture<'_, StoreResult<Vec<StoredConfig>>>;

    /// One client's.
    fn get<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<StoredConfig>>>;

    /// Writes a client's status and value, with the next version. `owner` is kept.
    fn put<'a>(
        &'a self,
        client: &'a ClientId,
        status: Status,
        value: String,
        now_ms: i64,
    ) -> BoxFuture<'a, StoreResult<Put>>;

    /// Marks a client's config deleted. `false`: there was none.
    fn delete<'a>(&'a self, client: &'a ClientId, now_ms: i64) -> BoxFuture<'a, StoreResult<bool>>;

    /// A config document changed. Only a newer value replaces (old events come again). Returns the client whose config
    /// is to be read again; `None`: nothing newer, or not a CQRS config.
    fn changed(&self, hint: ConfigHint) -> BoxFuture<'_, StoreResult<Option<ClientId>>>;
}
