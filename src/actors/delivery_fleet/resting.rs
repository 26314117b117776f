//! A client whose delivery actor broke too often rests. What is unsettled of it goes into the stash meanwhile, so that it
//! holds neither the memory of all nor the commit of its partition; after the rest it begins like any other client.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use tokio::time::Instant;

use super::DeliveryFleetActor;
use crate::actors::inbox::{Fence, Rows};
use crate::actors::refused::keep_refused;
use crate::actors::stash::write_all;
use crate::domain::config::ClientId;
use crate::domain::stash::StashWrite;
use crate::domain::transfer::Transfer;
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
    /// How many at once.
    at_once: usize,
}

impl Rest {
    /// It ends as soon as nothing is under way.
    pub(super) fn end(&mut self) {
        self.until = Instant::now();
    }

    /// Whether something is under way to the stash.
    pub(super) fn is_moving(&self) -> bool {
        self.moving
    }
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
            Rest { until: Instant::now() + REST, moving: false, at_once: AT_ONCE }
        });
        if rest.moving {
            return;
        }
        if inbox.is_empty() && rest.until <= Instant::now() {
            log::info!("client has rested client={client}");
            self.start_anew(client, ctx);
            return;
        }
        let ownership = inbox.ownership();
        let transfers = inbox.take(rest.at_once);
        if transfers.is_empty() || !self.services.windows.is_ours(ownership) {
            return;
        }
        rest.moving = true;
        inbox.note_rows(Rows { pending: true, ..inbox.standing().rows });
        let (stash, batch) =
            (self.services.stash_writes.clone(), batch(client.clone(), ownership, &transfers));
        let services = self.services.clone();
        let write = async move {
            let written = write_all(&stash, vec![batch], &Fence::default()).await.into_iter().next();
            match (written, &transfers[..]) {
                (Some(Err(StoreError::Refused(why))), [alone]) => {
                    keep_refused(&services, alone, &why).await;
                    (transfers, Some(Ok(())))
                }
                (written, _) => (transfers, written),
            }
        };
        ctx.spawn(write.into_actor(self).map(move |(transfers, written), actor, ctx| {
            let client = inbox.client();
            let rest = actor.clients.get_mut(client).and_then(|known| known.rest.as_mut());
            match (written, rest) {
                (Some(Ok(())), Some(rest)) => {
                    rest.moving = false;
                    let stashed = &actor.services.metrics.stashed;
                    stashed.with_label_values(&["actor_failed"]).inc_by(transfers.len() as u64);
                    transfers.iter().for_each(|transfer| inbox.settle(transfer.sequence));
                    actor.rest(client, ctx);
                }
                (Some(Err(StoreError::Fenced(_))), _) => actor.services.windows.lose(ownership),
                (Some(Err(StoreError::Refused(_))), Some(rest)) => {
                    // One of them is at fault: it is found by writing each alone.
                    (rest.moving, rest.at_once) = (false, 1);
                    inbox.give_back();
                    actor.rest(client, ctx);
                }
                (Some(Err(StoreError::Unavailable(_))) | None, Some(rest)) => {
                    rest.moving = false;
                    inbox.give_back();
                }
                // Its partition is another's.
                (_, None) => {}
            }
        }));
    }
}

fn batch(client: ClientId, ownership: Ownership, transfers: &[Arc<Transfer>]) -> StashBatch {
    let writes = transfers.iter().cloned().map(StashWrite::of_unsent).collect();
    StashBatch { client, ownership, lease: None, writes }
}
