//! Clients whose actor starts anew: its thread was lost, or an operator wants it.

use std::sync::Arc;

use actix::prelude::*;

use super::{Client, DeliveryFleetActor};
use crate::domain::config::ClientId;
use crate::runtime::supervise_again;

/// A thread of the delivery actors was lost.
#[derive(Message)]
#[rtype(result = "()")]
pub struct ArbiterLost;

impl Handler<ArbiterLost> for DeliveryFleetActor {
    type Result = ();

    fn handle(&mut self, _: ArbiterLost, ctx: &mut Self::Context) {
        self.cell.handling("ArbiterLost");
        let lost = self.clients.iter().filter(|(_, known)| {
            let cell = &known.child.cell;
            cell.is_lost() && cell.is_alive()
        });
        let lost: Vec<_> = lost.map(|(client, _)| client.clone()).collect();
        log::warn!("clients start anew on another thread count={}", lost.len());
        for client in lost {
            self.start_anew(&client, ctx);
        }
    }
}

impl DeliveryFleetActor {
    /// Starts another actor in the place of one that is lost, or was given up. It takes over all that is unsettled; from here on nothing
    /// counts that the old one does.
    pub(super) fn start_anew(&mut self, client: &ClientId, ctx: &mut Context<Self>) {
        let Some(known) = self.clients.get(client) else { return };
        let old = known.child.cell.clone();
        if self.quiescing {
            known.inbox.fence().raise();
            old.stop();
            return;
        }
        let inbox = Arc::new(known.inbox.successor());
        let child = supervise_again(&self.kit, self.seat(&inbox), &old, self.actor(&inbox, ctx));
        let anew = Client { inbox, child, rest: None };
        Self::wake(&anew);
        self.clients.insert(client.clone(), anew);
    }
}

/// An operator wants a client's actor to begin anew; one that was given up ends its rest. Answered with whether there is one.
#[derive(Message)]
#[rtype(result = "bool")]
pub struct RestartActor(pub ClientId);

impl Handler<RestartActor> for DeliveryFleetActor {
    type Result = bool;

    fn handle(&mut self, RestartActor(client): RestartActor, ctx: &mut Self::Context) -> bool {
        self.cell.handling("RestartActor");
        match self.clients.get(&client) {
            Some(known) if known.child.cell.is_alive() => {
                known.child.cell.restart("an operator asked for it");
                true
            }
            Some(_) => {
                self.end_rest(&client, ctx);
                true
            }
            None => false,
        }
    }
}

impl DeliveryFleetActor {
    /// Somebody wants a client whose actor was given up to go on: its rest ends as soon as nothing is under way to the stash.
    pub(super) fn end_rest(&mut self, client: &ClientId, ctx: &mut Context<Self>) {
        match self.clients.get_mut(client) {
            Some(Client { rest: Some(rest), .. }) if rest.is_moving() => rest.end(),
            Some(_) => {
                log::warn!("the rest of a client ends as somebody wished client={client}");
                self.start_anew(client, ctx);
            }
            None => {}
        }
    }
}
