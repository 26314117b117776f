//! Leases with a fencing token, for work that only one replica does at a time.

use super::{BoxFuture, StoreResult};

/// A held lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// What is leased.
    pub key: String,
    /// Rises with each new holder: what leaves the store carries it.
    pub token: i64,
    /// Milliseconds since 1970.
    pub deadline_ms: i64,
}

/// Leases.
pub trait Locks: Send + Sync {
    /// Takes a free or expired lease; `None` when another holds it.
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        now_ms: i64,
        ttl_ms: i64,
    ) -> BoxFuture<'a, StoreResult<Option<Lease>>>;

    /// Moves the deadline of a lease that is still ours; `None` when it is lost.
    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        now_ms: i64,
        ttl_ms: i64,
    ) -> BoxFuture<'a, StoreResult<Option<Lease>>>;

    /// Gives a lease back. Not an error when it is another's by now.
    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, StoreResult<()>>;
}
