//! Partitions come and go, and with them their clients.

use std::collections::HashSet;

use actix::prelude::*;

use super::{DELIVERY_KIND, DeliveryFleetActor, quiesce};
use crate::actors::inbox::Standing;
use crate::domain::config::ClientId;
use crate::domain::transfer::partition_of;
use crate::ports::stash::Ownership;

/// Partitions are ours now. Their clients with rows are started. Comes before their first transfers.
#[derive(Message, Clone)]
#[rtype(result = "()")]
pub struct Assigned {
    /// By which rights.
    pub ownerships: Vec<Ownership>,
    /// What the stores know of their clients, as read after the partitions were taken. Of clients that are not named there
    /// are no rows.
    pub standings: Vec<(ClientId, Standing)>,
}

impl Handler<Assigned> for DeliveryFleetActor {
    type Result = ();

    fn handle(&mut self, Assigned { ownerships, standings }: Assigned, ctx: &mut Self::Context) {
        self.cell.handling("Assigned");
        let count = self.services.partitions;
        let ours: HashSet<u32> = ownerships
            .iter()
            .filter(|ownership| self.services.windows.is_ours(**ownership))
            .map(|ownership| ownership.partition)
            .collect();
        let known = standings.into_iter().filter(|(client, _)| ours.contains(&partition_of(client, count)));
        self.absent.extend(known);
        self.start_who_waits(ctx);
    }
}

/// These rights end: no new requests by them. Answered when nothing is on the wire and every stash write is done.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Leave(pub Vec<Ownership>);

impl Handler<Leave> for DeliveryFleetActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, Leave(ownerships): Leave, _: &mut Self::Context) -> Self::Result {
        self.cell.handling("Leave");
        let leaving = self.clients.values().filter(|client| ownerships.contains(&client.inbox.ownership()));
        quiesce(leaving)
    }
}

/// Ends the actors whose right to their partition has ended. Answered when nothing is sent by such a right: what is unsettled
/// by it is forgotten, for whoever has the partition next reads it again.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Sweep;

impl Handler<Sweep> for DeliveryFleetActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Sweep, _: &mut Self::Context) -> Self::Result {
        self.cell.handling("Sweep");
        let (count, windows) = (self.services.partitions, &self.services.windows);
        self.absent.retain(|client, _| windows.ownership(partition_of(client, count)).is_some());
        self.ending.retain(|cell| cell.is_alive());
        let (registry, ending) = (self.kit.registry(), &mut self.ending);
        registry.forget_retired(DELIVERY_KIND, |id| {
            windows.ownership(partition_of(&ClientId::new(id), count)).is_none()
        });
        let mut leases = Vec::new();
        self.clients.retain(|id, client| {
            let stays = windows.holds(client.inbox.ownership());
            if !stays {
                client.child.cell.stop();
                // Should its thread be stuck: not one byte more.
                client.inbox.fence().raise();
                registry.forget(DELIVERY_KIND, id.as_str());
                ending.push(client.child.cell.clone());
                leases.push(client.inbox.clone());
            }
            stays
        });
        self.publish();
        let (ending, stash) = (self.ending.clone(), self.services.stash.clone());
        Box::pin(async move {
            for cell in ending {
                cell.ended().await;
            }
            // An owner by another log need not wait until they expire. Nobody waits for this: without it they do.
            actix_rt::spawn(async move {
                for inbox in leases {
                    if let Some(token) = inbox.lease() {
                        let _ = stash.release_drain(inbox.client(), token).await;
                    }
                }
            });
        })
    }
}
