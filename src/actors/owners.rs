//! The way to the owner of a client, on this replica or another.

use std::sync::Arc;

use actix::Addr;
use tokio_util::sync::CancellationToken;

use super::delivery_fleet::{DeliveryFleetActor, TryClient};
use crate::domain::config::ClientId;
use crate::ports::owner_kicks::OwnerKicks;

/// Reaches the owners of clients.
#[derive(Clone)]
pub struct Owners {
    fleet: Addr<DeliveryFleetActor>,
    others: Arc<dyn OwnerKicks>,
}

impl Owners {
    /// Those of this replica's fleet, and of the others.
    pub fn new(fleet: Addr<DeliveryFleetActor>, others: Arc<dyn OwnerKicks>) -> Self {
        Self { fleet, others }
    }

    /// Asks the owner to try the client's webhook now, whatever the schedule says. What comes of it shows in the client's state.
    pub async fn try_now(&self, client: &ClientId) {
        // A fleet that does not answer is being restarted: somebody else may be the owner by now.
        if !self.fleet.send(TryClient(client.clone())).await.unwrap_or(false) {
            self.others.send(client).await;
        }
    }

    /// Hands on what other replicas ask of the owners here, until it is stopped.
    pub async fn listen(self, stop: CancellationToken) {
        while let Some(client) = stop.run_until_cancelled(self.others.next()).await {
            self.fleet.do_send(TryClient(client));
        }
    }
}
