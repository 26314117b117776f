//! The leases.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use dispatcher::ports::locks::{Lease, Locks};
use dispatcher::ports::{BoxFuture, StoreResult};
use tokio::time::Instant;

use super::Medium;

/// Token and deadline of each lease; without a deadline nobody has it.
pub(crate) type Leases = HashMap<String, (i64, Option<Instant>)>;

pub(crate) struct MemoryLocks(pub(crate) Arc<Medium<Leases>>);

fn after(ttl_ms: i64) -> Option<Instant> {
    Some(Instant::now() + Duration::from_millis(u64::try_from(ttl_ms).unwrap()))
}

impl Locks for MemoryLocks {
    fn acquire<'a>(&'a self, key: &'a str, ttl_ms: i64) -> BoxFuture<'a, StoreResult<Option<Lease>>> {
        let key = key.to_owned();
        Box::pin(self.0.write(move |leases| {
            let (token, deadline) = leases.entry(key.clone()).or_default();
            if *deadline > Some(Instant::now()) {
                return None;
            }
            (*token, *deadline) = (*token + 1, after(ttl_ms));
            Some(Lease { key, token: *token })
        }))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, ttl_ms: i64) -> BoxFuture<'a, StoreResult<bool>> {
        let lease = lease.clone();
        Box::pin(self.0.write(move |leases| {
            let held = leases.get_mut(&lease.key).filter(|(token, _)| *token == lease.token);
            held.map(|(_, deadline)| *deadline = after(ttl_ms)).is_some()
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
