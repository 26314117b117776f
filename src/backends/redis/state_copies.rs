//! Client states: written to the store that has the truth, and then copied for others to see.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::Pipeline;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::{Keys, Redis};
use crate::domain::client_state::ClientState;
use crate::domain::config::ClientId;
use crate::ports::client_states::ClientStates;
use crate::ports::{BoxFuture, StoreResult};

const KEPT_SECONDS: u64 = 30 * 24 * 3600;
/// Copies that wait while Redis is away, a client's newest; more are dropped.
const MAX_WAITING: usize = 10_000;
const PAGE: usize = 100;
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The states of another store, with a copy of each change in Redis. Reads are the other store's.
pub struct StateCopies {
    truth: Arc<dyn ClientStates>,
    redis: Arc<Redis>,
    waiting: Arc<Waiting>,
    writer: JoinHandle<()>,
}

#[derive(Default)]
struct Waiting {
    states: Mutex<HashMap<ClientId, ClientState>>,
    arrived: Notify,
}

impl StateCopies {
    /// Copies what is put into `truth`.
    pub fn new(truth: Arc<dyn ClientStates>, redis: Arc<Redis>) -> Self {
        let waiting = Arc::new(Waiting::default());
        let writer = redis.handle.spawn(write_all(Arc::clone(&redis), Arc::clone(&waiting)));
        Self { truth, redis, waiting, writer }
    }

    fn copy(&self, client: &ClientId, state: ClientState) {
        let mut states = self.waiting.states.lock().unwrap_or_else(PoisonError::into_inner);
        if states.len() < MAX_WAITING || states.contains_key(client) {
            states.insert(client.clone(), state);
            self.waiting.arrived.notify_one();
        } else {
            self.redis.metrics.copies_dropped.with_label_values(&["state"]).inc();
        }
    }
}

impl Drop for StateCopies {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

impl ClientStates for StateCopies {
    fn get<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<ClientState>>> {
        self.truth.get(client)
    }

    fn list(&self) -> BoxFuture<'_, StoreResult<Vec<(ClientId, ClientState)>>> {
        self.truth.list()
    }

    fn failing_for<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<Duration>>> {
        self.truth.failing_for(client)
    }

    fn resynced<'a>(&'a self, client: &'a ClientId, dropped: u64) -> BoxFuture<'a, StoreResult<()>> {
        self.truth.resynced(client, dropped)
    }

    fn put<'a>(&'a self, client: &'a ClientId, state: ClientState) -> BoxFuture<'a, StoreResult<()>> {
        Box::pin(async move {
            self.truth.put(client, state.clone()).await?;
            self.copy(client, state);
            Ok(())
        })
    }
}

async fn write_all(redis: Arc<Redis>, waiting: Arc<Waiting>) {
    loop {
        waiting.arrived.notified().await;
        while let Some(page) = waiting.take() {
            redis.link.there().await;
            if redis.link.pipeline(&commands(&redis.keys, &page)).await.is_err() {
                waiting.put_back(page);
                tokio::time::sleep(TRY_AGAIN_AFTER).await;
            }
        }
    }
}

impl Waiting {
    fn take(&self) -> Option<Vec<(ClientId, ClientState)>> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let clients: Vec<ClientId> = states.keys().take(PAGE).cloned().collect();
        let page = clients.into_iter().filter_map(|client| states.remove_entry(&client)).collect::<Vec<_>>();
        (!page.is_empty()).then_some(page)
    }

    /// What came in between is newer.
    fn put_back(&self, page: Vec<(ClientId, ClientState)>) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        for (client, state) in page {
            states.entry(client).or_insert(state);
        }
    }
}

fn commands(keys: &Keys, page: &[(ClientId, ClientState)]) -> Pipeline {
    let mut commands = redis::pipe();
    for (client, state) in page {
        let (Some(key), Some(failing)) = (keys.state(client), keys.failing(client)) else { continue };
        let Ok(json) = serde_json::to_string(state) else { continue };
        commands.set_ex(key, json, KEPT_SECONDS).ignore();
        match state.failing_since_ms {
            Some(since_ms) => commands.set_ex(failing, since_ms, KEPT_SECONDS).ignore(),
            None => commands.del(failing).ignore(),
        };
    }
    commands
}
