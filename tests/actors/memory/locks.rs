//! The leases.

use std::collections::HashMap;
use std::sync::Arc;

use dispatcher::ports::locks::{Lease, Locks};
use dispatcher::ports::{BoxFuture, StoreResult};

use super::Medium;

/// Token and deadline of each lease; deadline 0: nobody has it.
pub(crate) type Leases = HashMap<String, (i64, i64)>;

pub(crate) struct MemoryLocks(pub(crate) Arc<Medium<Leases>>);

impl Locks for MemoryLocks {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        now_ms: i64,
        ttl_ms: i64,
    ) -> BoxFuture<'a, StoreResult<Option<Lease>>> {
        let key = key.to_owned();
        Box::pin(self.0.write(move |leases| {
            let (token, deadline_ms) = leases.entry(key.clone()).or_default();
            if *deadline_ms > now_ms {
                return None;
            }
            (*token, *deadline_ms) = (*token + 1, now_ms + ttl_ms);
            Some(Lease { key, token: *token, deadline_ms: *deadline_ms })
        }))
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        now_ms: i64,
        ttl_ms: i64,
    ) -> BoxFuture<'a, StoreResult<Option<Lease>>> {
        let lease = lease.clone();
        Box::pin(self.0.write(move |leases| {
            let (_, deadline_ms) = leases.get_mut(&lease.key).filter(|(token, _)| *token == lease.token)?;
            *deadline_ms = now_ms + ttl_ms;
            Some(Lease { deadline_ms: now_ms + ttl_ms, ..lease })
        }))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, StoreResult<()>> {
        let lease = lease.clone();
        Box::pin(self.0.write(move |leases| {
            if let Some((_, deadline_ms)) =
                leases.get_mut(&lease.key).filter(|(token, _)| *token == lease.token)
            {
                *deadline_ms = 0;
            }
        }))
    }
}
