//! Actors begin anew when an operator says so, on whichever replica they are.

use std::sync::Arc;

use actix::Addr;
use tokio_util::sync::CancellationToken;

use crate::actors::delivery_fleet::{DELIVERY_KIND, DeliveryFleetActor, RestartActor};
use crate::domain::config::ClientId;
use crate::domain::replica::ReplicaName;
use crate::ports::actor_restarts::{ActorRestarts, NobodyActed, RestartAnswer, RestartWish};
use crate::runtime::{Kit, Registry};
use crate::web::Ask;

/// Has actors begin anew, here or elsewhere. Those of clients are the fleet's, which starts again what was given up.
#[derive(Clone)]
pub(super) struct Restarter {
    here: ReplicaName,
    registry: Registry,
    fleet: Addr<DeliveryFleetActor>,
    others: Arc<dyn ActorRestarts>,
}

impl Restarter {
    pub(super) fn new(
        here: ReplicaName,
        kit: &Kit,
        fleet: Addr<DeliveryFleetActor>,
        others: Arc<dyn ActorRestarts>,
    ) -> Self {
        Self { here, registry: kit.registry().clone(), fleet, others }
    }

    /// For whoever wishes it.
    pub(super) fn ask(self) -> Ask<RestartWish, Result<(ReplicaName, RestartAnswer), NobodyActed>> {
        Arc::new(move |wish| {
            let restarter = self.clone();
            Box::pin(async move { restarter.anywhere(&wish).await })
        })
    }

    /// Does what other replicas wish, until it is stopped.
    pub(super) async fn listen(self, stop: CancellationToken) {
        while let Some(heard) = stop.run_until_cancelled(self.others.next()).await {
            let answer = self.here(&heard.wish).await;
            if answer == RestartAnswer::Asked {
                let (kind, id) = (heard.wish.kind.escape_debug(), heard.wish.id.escape_debug());
                log::info!("an operator restarts an actor by way of another replica kind={kind} id={id}");
            }
            self.others.answer(heard.number, answer);
        }
    }

    async fn anywhere(&self, wish: &RestartWish) -> Result<(ReplicaName, RestartAnswer), NobodyActed> {
        if wish.replica.as_ref().is_none_or(|replica| *replica == self.here) {
            let answer = self.here(wish).await;
            if answer != RestartAnswer::Unknown {
                return Ok((self.here.clone(), answer));
            }
            if wish.replica.is_some() {
                return Err(NobodyActed::Unknown);
            }
        }
        self.others.ask(wish).await
    }

    async fn here(&self, RestartWish { kind, id, .. }: &RestartWish) -> RestartAnswer {
        if kind == DELIVERY_KIND {
            let asked = self.fleet.send(RestartActor(ClientId::new(id))).await.unwrap_or(false);
            return if asked { RestartAnswer::Asked } else { RestartAnswer::Unknown };
        }
        match self.registry.get(kind, id) {
            Some(cell) if cell.is_alive() => {
                cell.restart("an operator asked for it");
                RestartAnswer::Asked
            }
            Some(_) => RestartAnswer::Over,
            None => RestartAnswer::Unknown,
        }
    }
}
