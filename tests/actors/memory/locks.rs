//! The leases.

use std::collections::HashMap;
use std::sync::Arc;

use dispatcher::ports::locks::{Lease, Locks};
use dispatcher::ports::{BoxFuture, StoreResult};

use super::Medium;

/// Token and deadline of each lease, milliseconds since 1970 by the store's clock, which outlives a process; without a deadline nobody has it.
pub(crate) type Leases = HashMap<String, (i64, Option<i64>)>;

pub(crate) struct MemoryLocks(pub(crate) Arc<Medium<Leases>>);

impl Locks for MemoryLocks {
    fn acquire<'a>(&'a self, key: &'a str, ttl_ms: i64) -> BoxFuture<'a, StoreResult<Option<Lease>>> {
        let (key, clock) = (key.to_owned(), self.0.clock.clone());
        Box::pin(self.0.write(move |leases| {
            let (token, deadline) = leases.entry(key.clone()).or_default();
            if *deadline > Some(clock.now_ms()) {
                return None;
            }
            (*token, *deadline) = (*token + 1, Some(clock.now_ms() + ttl_ms));
            Some(Lease { key, token: *token })
        }))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, ttl_ms: i64) -> BoxFuture<'a, StoreResult<bool>> {
        let (lease, clock) = (lease.clone(), self.0.clock.clone());
        Box::pin(self.0.write(move |leases| {
            let held = leases.get_mut(&lease.key).filter(|(token, _)| *token == lease.token);
            held.map(|(_, deadline)| *deadline = Some(clock.now_ms() + ttl_ms)).is_some()
        }))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, StoreResult<()>> {
        let lease = lease.clone();
        Box::pin(self.0.write(move |leases| {
            if let Some((_, deadline)) = leases.get_mut(&lease.key).filter(|(token, _)| *token == lease.token)
            {
                *deadline = None;
            }
        }))
    }
}
