//! A fault on request, in debug builds only: the whole-service tests see a delivery actor panic and come back.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::domain::config::ClientId;

/// `DISPATCHER_FAULT_PANIC=<client>:<n>`: the actor of this client panics when it starts its n-th request.
pub(super) fn panic_when_asked(client: &ClientId) {
    static ASKED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let asked = ASKED.get_or_init(|| {
        let text = std::env::var("DISPATCHER_FAULT_PANIC").ok()?;
        let (client, nth) = text.rsplit_once(':')?;
        Some((client.to_owned(), nth.parse().ok()?))
    });
    if let Some((asked, nth)) = asked
        && asked == client.as_str()
        && STARTED.fetch_add(1, Ordering::Relaxed) + 1 == *nth
    {
        panic!("asked to by DISPATCHER_FAULT_PANIC");
    }
}
