//! Owners whose work is not done.

use super::{BoxFuture, StoreResult};
use crate::domain::config::ClientId;

/// The list of blocked owners, and who owns what.
pub trait BlockedOwners: Send + Sync {
    /// The owner of a piece of work, if he is blocked. `owner` is him when it is known, else it is the owner of the client's config.
    /// `None` when he is not blocked, and when nobody is known to own it: such work is done.
    fn blocked<'a>(
        &'a self,
        owner: Option<&'a str>,
        client: &'a ClientId,
    ) -> BoxFuture<'a, StoreResult<Option<String>>>;
}
