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

/// What a replica is told of the configs by the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigNotice {
    /// This client's is another one: read it again.
    Changed(ClientId),
    /// Notices may have been missed: read all again.
    Missed,
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

    /// Makes a client INACTIVE, if its config is still the one that was tried: ACTIVE, of this version, with this webhook.
    /// `false`: it is another by now.
    fn deactivate<'a>(&'a self, tried: &'a ClientConfig, now_ms: i64) -> BoxFuture<'a, StoreResult<bool>>;

    /// Configs of these clients as they are at `as_of_ms` or later: asked before a client is skipped that may have been
    /// made, or switched on, since the table was read. Those that there are none of are left out. The default is for a store whose every
    /// change is in the table at once: nothing is newer.
    fn recheck(
        &self,
        clients: Vec<ClientId>,
        as_of_ms: i64,
    ) -> BoxFuture<'_, StoreResult<Vec<StoredConfig>>> {
        let _ = (clients, as_of_ms);
        Box::pin(async { Ok(Vec::new()) })
    }

    /// The next notice of another replica. Cancel-safe. The default is for a store that has one process: none ever comes.
    fn next_notice(&self) -> BoxFuture<'_, ConfigNotice> {
        Box::pin(std::future::pending())
    }

    /// A config document changed. Only a newer value replaces (old events come again). Returns the client whose config
    /// is to be read again; `None`: nothing newer, or not a CQRS config.
    fn changed(&self, hint: ConfigHint) -> BoxFuture<'_, StoreResult<Option<ClientId>>>;
}
