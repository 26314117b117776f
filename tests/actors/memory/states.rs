//! The states of the clients.

use std::collections::HashMap;
use std::sync::Arc;

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

    fn put<'a>(&'a self, client: &'a ClientId, state: ClientState) -> BoxFuture<'a, StoreResult<()>> {
        let client = client.clone();
        Box::pin(self.0.write(move |states| {
            states.insert(client, state);
        }))
    }
}
