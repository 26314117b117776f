//! The burial: a client is gone, and what waits for it is dead. It takes its time, and the client may come back meanwhile: then the rest of its
//! rows waits for it as before.

use std::time::Duration;

use actix::prelude::*;

use super::{Rows, Target, WebhookDeliveryActor};
use crate::domain::client_state::ClientEvent;
use crate::domain::operational_event::{Happening, OperationalEvent};
use crate::domain::stash::Backlog;

/// The wait before rows are marked again, after the store did not.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The state of a burial.
#[derive(Default)]
pub(super) struct Burial {
    under_way: bool,
    /// Rows that are dead, and nobody was told of.
    untold: u64,
}

impl WebhookDeliveryActor {
    /// Marks the next part of the rows of a client that is gone, until none is left.
    pub(super) fn bury(&mut self, ctx: &mut Context<Self>) {
        let due = self.life.target == Target::Gone && self.life.rows.pending;
        if !due || self.life.burial.under_way {
            return;
        }
        self.life.burial.under_way = true;
        let ownership = self.ownership();
        let (stash, client) = (self.services.stash.clone(), self.client().clone());
        // Only of writes that are durable by now the answer surely knows.
        let queued = self.life.writes.is_idle().then(|| self.life.writes.queued());
        let bury = async move { stash.bury(&client, ownership, "client_gone").await }.into_actor(self);
        ctx.spawn(bury.map(move |buried, actor, ctx| match buried {
            _ if actor.inbox.fence().is_up() => {}
            Ok(0) => {
                actor.life.burial.under_way = false;
                actor.buried(queued, ctx);
                actor.pump(ctx);
            }
            Ok(count) => {
                actor.life.burial.under_way = false;
                actor.life.burial.untold += count;
                actor.rows_are(Rows { dead: true, ..actor.life.rows });
                // Its config is looked at: it may be back.
                actor.pump(ctx);
                match actor.life.target {
                    Target::Gone => actor.bury(ctx),
                    _ => actor.tell_of_burial(),
                }
            }
            Err(err) => {
                let client = actor.client();
                log::warn!("rows of a client that is gone were not marked err={err} client={client}");
                ctx.run_later(TRY_AGAIN, |actor, ctx| {
                    actor.life.burial.under_way = false;
                    actor.bury(ctx);
                });
            }
        }));
    }

    /// No row was left when the store was asked; `queued` writes there had been by then, or not all of them were durable.
    fn buried(&mut self, queued: Option<u64>, ctx: &mut Context<Self>) {
        self.tell_of_burial();
        if self.life.target != Target::Gone {
            return;
        }
        if queued == Some(self.life.writes.queued()) {
            self.rows_are(Rows { pending: false, ..self.life.rows });
            self.quota_is(&Backlog::default());
            self.happened(ClientEvent::RowsGone);
        } else if self.life.writes.is_idle() {
            self.bury(ctx);
        }
        // Otherwise it goes on when they are written.
    }

    fn tell_of_burial(&mut self) {
        let count = std::mem::take(&mut self.life.burial.untold);
        if count > 0 {
            let client = self.client();
            log::warn!("rows of a client that is gone are dead letters count={count} client={client}");
            let event = OperationalEvent::new(Happening::DeadLetter, self.now_ms());
            self.services.events.record(event.of(client).because("client_gone").with("count", count));
        }
    }
}
