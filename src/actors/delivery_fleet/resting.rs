//! A client whose delivery actor broke too often rests. What is unsettled of it goes into the stash meanwhile, so that it
//! holds neither the memory of all nor the commit of its partition; after the rest it begins like any other client.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use tokio::time::Instant;

use super::{DELIVERY_KIND, DeliveryFleetActor};
use crate::actors::stash::write_all;
use crate::domain::config::ClientId;
use crate::domain::stash::{NewRow, StashWrite};
use crate::domain::transfer::{Transfer, partition_of};
use crate::ports::StoreError;
use crate::ports::stash::{Ownership, StashBatch};

/// How long. What broke an actor eleven times in a row is hardly over sooner, and each start may break it again.
const REST: Duration = Duration::from_secs(60);

/// How many transfers one write moves.
const AT_ONCE: usize = 512;

/// The rest of a client.
pub(super) struct Rest {
    until: Instant,
    /// Transfers are being written to the stash.
    moving: bool,
}

impl DeliveryFleetActor {
    /// Goes on with all clients whose actors gave up.
    pub(super) fn look_after_resting(&mut self, ctx: &mut Context<Self>) {
        let dead = self.clients.iter().filter(|(_, known)| !known.child.cell.is_alive());
        for client in dead.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.rest(&client, ctx);
        }
    }

    /// This actor began anew: the writes that it waited for are nobody's.
    pub(super) fn forget_moves(&mut self) {
        for known in self.clients.values_mut() {
            if let Some(rest) = &mut known.rest {
                rest.moving = false;
                known.inbox.give_back();
            }
        }
    }

    /// Moves what is unsettled of a client without an actor into the stash, and ends its rest when the time has come.
    pub(super) fn rest(&mut self, client: &ClientId, ctx: &mut Context<Self>) {
        let Some(known) = self.clients.get_mut(client) else { return };
        let inbox = known.inbox.clone();
        let rest = known.rest.get_or_insert_with(|| {
            log::error!(
                "delivery actor gave up, its client rests seconds={} client={client}",
                REST.as_secs()
            );
            inbox.give_back();
            Rest { until: Instant::now() + REST, moving: false }
        });
        if rest.moving {
            return;
        }
        if inbox.is_empty() && rest.until <= Instant::now() {
            // Whoever has something for it starts a new actor.
            self.clients.remove(client);
            self.kit.registry().forget(DELIVERY_KIND, client.as_str());
            self.publish();
            return;
        }
        let partition = partition_of(client, self.services.partitions);
        let Some(ownership) = self.services.windows.ownership(partition) else { return };
        let transfers = inbox.take(AT_ONCE);
        if transfers.is_empty() {
            return;
        }
        rest.moving = true;
        let (stash, batch) =
            (self.services.stash_writes.clone(), batch(client.clone(), ownership, &transfers));
        let write = async move { write_all(&stash, vec![batch]).await }.into_actor(self);
        ctx.spawn(write.map(move |results, actor, ctx| {
            let client = inbox.client();
            if let Some(rest) = actor.clients.get_mut(client).and_then(|known| known.rest.as_mut()) {
                rest.moving = false;
            }
            match results.into_iter().next() {
                Some(Ok(())) => {
                    actor
                        .services
                        .metrics
                        .stashed
                        .with_label_values(&["actor_failed"])
                        .inc_by(transfers.len() as u64);
                    transfers.iter().for_each(|transfer| inbox.settle(transfer.sequence));
                    actor.rest(client, ctx);
                }
                Some(Err(StoreError::Fenced(_))) => actor.services.windows.lose(ownership),
                Some(Err(err)) => {
                    log::error!(
                        "stash refuses what a resting client has unsettled err={err} client={client}"
                    );
                    inbox.give_back();
                }
                None => inbox.give_back(),
            }
        }));
    }
}

fn batch(client: ClientId, ownership: Ownership, transfers: &[Arc<Transfer>]) -> StashBatch {
    let insert = |transfer: &Arc<Transfer>| {
        StashWrite::Insert(NewRow { transfer: transfer.clone(), failure: None, claim: None })
    };
    StashBatch { client, ownership, lease: None, writes: transfers.iter().map(insert).collect() }
}
