//! The state of each client's delivery, so that it outlives the process.

use std::time::Duration;

use super::{BoxFuture, StoreResult};
use crate::domain::client_state::ClientState;
use crate::domain::config::ClientId;

/// The states of all clients.
pub trait ClientStates: Send + Sync {
    /// The stored state; `None`: never stored.
    fn get<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<ClientState>>>;

    /// All stored states.
    fn list(&self) -> BoxFuture<'_, StoreResult<Vec<(ClientId, ClientState)>>>;

    /// For how long a client has failed: since the failure from which its stored state counts was first stored, by the clock of the
    /// store. `None`: it does not fail, as far as is stored.
    fn failing_for<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<Duration>>>;

    /// A resync has made good so many of the changes that were dropped for a client, from the first on. It is told with the state from now on.
    fn resynced<'a>(&'a self, client: &'a ClientId, dropped: u64) -> BoxFuture<'a, StoreResult<()>>;

    /// Stores a state, but how much was made good.
    fn put<'a>(&'a self, client: &'a ClientId, state: ClientState) -> BoxFuture<'a, StoreResult<()>>;
}
