//! Leases with a fencing token, for work that only one replica does at a time. They last by the store's clock: those of replicas may jump.

use super::{BoxFuture, StoreResult};

/// A held lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// What is leased.
    pub key: String,
    /// Rises with each new holder: what leaves the store carries it.
    pub token: i64,
}

/// Leases.
pub trait Locks: Send + Sync {
    /// Takes a free or expired lease; `None` when another holds it. It expires `ttl_ms` after it was taken or renewed; should the store's clock be
    /// set back, `ttl_ms` after somebody asked for it in vain.
    fn acquire<'a>(&'a self, key: &'a str, ttl_ms: i64) -> BoxFuture<'a, StoreResult<Option<Lease>>>;

    /// Moves the deadline of a lease that is still ours; `false` when it is lost.
    fn renew<'a>(&'a self, lease: &'a Lease, ttl_ms: i64) -> BoxFuture<'a, StoreResult<bool>>;

    /// Gives a lease back. Not an error when it is another's by now.
    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, StoreResult<()>>;
}
