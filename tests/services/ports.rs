//! Ports for servers that are told where to listen.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// A port that stays free until it is listened on, and while its server is away: below those that systems give to outgoing
/// connections, another one at each call, and in another region for another process of these tests.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(97);
    loop {
        let number = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 10_000 + (number % 10_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
