//! The key of browsers' sessions: what the store has, or else a new one.

use super::stores::{NotOpen, Stores, until_there};
use crate::ports::StoreError;
use crate::ports::session_keys::SessionKey;
use crate::web::Startup;

/// Reads it; a store that is away is waited for.
pub(super) async fn session_key(stores: &Stores, startup: &Startup) -> anyhow::Result<SessionKey> {
    let mut fresh = SessionKey::default();
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut fresh).map_err(|_| anyhow::anyhow!("the machine gives no random bytes"))?;
    until_there("session key", startup, async || match stores.session_keys.session_key(fresh).await {
        Ok(key) => Ok(key),
        Err(err @ StoreError::Unavailable(_)) => Err(NotOpen::Away(err.to_string())),
        Err(err) => Err(NotOpen::Wrong(err.into())),
    })
    .await
}
