//! The states of the clients.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use dispatcher::domain::client_state::ClientState;
use dispatcher::domain::config::ClientId;
use dispatcher::ports::client_states::ClientStates;
use dispatcher::ports::{BoxFuture, StoreResult};

use super::Medium;

pub(crate) struct MemoryStates(pub(crate) Arc<Medium<HashMap<ClientId, ClientState>>>);

impl ClientStates for MemoryStates {
    fn get<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<ClientState>>> {
        let client = client.clone();
        Box::pin(self.0.read(move |states| states.get(&client).cloned()))
    }

    fn list(&self) -> BoxFuture<'_, StoreResult<Vec<(ClientId, ClientState)>>> {
        Box::pin(self.0.read(|states| states.iter().map(|(id, state)| (id.clone(), state.clone())).collect()))
    }

    fn failing_for<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<Duration>>> {
        let (client, now_ms) = (client.clone(), self.0.now_ms());
        Box::pin(self.0.read(move |states| {
            let since_ms = states.get(&client).and_then(|state| state.failing_since_ms);
            since_ms.map(|since_ms| Duration::from_millis(u64::try_from(now_ms - since_ms).unwrap_or(0)))
        }))
    }

    fn resynced<'a>(&'a self, client: &'a ClientId, dropped: u64) -> BoxFuture<'a, StoreResult<()>> {
        let client = client.clone();
        Box::pin(self.0.write(move |states| {
            if let Some(state) = states.get_mut(&client) {
                state.resynced = state.resynced.max(dropped);
            }
        }))
    }

    fn put<'a>(&'a self, client: &'a ClientId, state: ClientState) -> BoxFuture<'a, StoreResult<()>> {
        let client = client.clone();
        Box::pin(self.0.write(move |states| {
            states.insert(client, state);
        }))
    }
}
