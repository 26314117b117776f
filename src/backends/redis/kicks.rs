//! Kicks to the owners of clients, by the channel of notices.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::{Redis, notices};
use crate::domain::config::ClientId;
use crate::ports::BoxFuture;
use crate::ports::owner_kicks::OwnerKicks;

/// More clients than this do not wait to be tried: a kick may be lost.
const MAX_WAITING: usize = 1_000;

/// Clients that are to be tried, each once.
#[derive(Default)]
pub(super) struct KickQueue {
    waiting: Mutex<BTreeSet<ClientId>>,
    arrived: Notify,
}

impl KickQueue {
    pub(super) fn push(&self, client: ClientId) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MAX_WAITING {
            waiting.insert(client);
        }
        self.arrived.notify_one();
    }

    async fn next(&self) -> ClientId {
        loop {
            let first = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_first();
            match first {
                Some(client) => return client,
                None => self.arrived.notified().await,
            }
        }
    }
}

/// The way to the owners on other replicas. While Redis is away nobody is reached: each owner goes on by its own timers.
pub struct Kicks(Arc<Redis>);

impl Kicks {
    /// By this Redis.
    pub fn new(redis: Arc<Redis>) -> Self {
        Self(redis)
    }
}

impl OwnerKicks for Kicks {
    fn send<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, ()> {
        self.0.publish(notices::try_now(client));
        Box::pin(async {})
    }

    fn next(&self) -> BoxFuture<'_, ClientId> {
        Box::pin(self.0.notices.kicks.next())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_client_waits_once_and_not_too_many_wait() {
        let queue = KickQueue::default();
        for client in ["b", "a", "b"] {
            queue.push(ClientId::new(client));
        }
        assert_eq!(queue.next().now_or_never(), Some(ClientId::new("a")));
        assert_eq!(queue.next().now_or_never(), Some(ClientId::new("b")));
        assert_eq!(queue.next().now_or_never(), None);
        for client in 0..MAX_WAITING + 5 {
            queue.push(ClientId::new(&client.to_string()));
        }
        assert_eq!(std::iter::from_fn(|| queue.next().now_or_never()).count(), MAX_WAITING);
    }
}
