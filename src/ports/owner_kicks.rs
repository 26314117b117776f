//! Kicks to the owner of a client, whichever replica that is. A kick says "try now"; it carries no work, and a lost one costs a delay.

use super::BoxFuture;
use crate::domain::config::ClientId;

/// The way to the other replicas. The defaults are for a service that is one process: there are no others.
pub trait OwnerKicks: Send + Sync {
    /// Tells all replicas to try this client's webhook now. Nobody knows who heard it.
    fn send<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, ()> {
        let _ = client;
        Box::pin(async {})
    }

    /// The next kick of another replica. Cancel-safe; for one listener.
    fn next(&self) -> BoxFuture<'_, ClientId> {
        Box::pin(std::future::pending())
    }
}
