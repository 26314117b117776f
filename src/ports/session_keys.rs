//! The key that seals the sessions of browsers. It lies in the store, so that a session is good at every replica and after a restart, and that
//! whoever has read the settings cannot make one.

use super::{BoxFuture, StoreResult};

/// 32 bytes that nobody can guess.
pub type SessionKey = [u8; 32];

/// Keeps the key.
pub trait SessionKeys: Send + Sync {
    /// The key. While there is none, `fresh` becomes it.
    fn session_key(&self, fresh: SessionKey) -> BoxFuture<'_, StoreResult<SessionKey>>;
}
