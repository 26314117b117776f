//! What is known of the client: its config, its state, and whether rows wait.

use std::time::Duration;

use actix::prelude::*;

use super::requests::RateGate;
use super::{Rows, Target, WebhookDeliveryActor};
use crate::actors::stash::write_all;
use crate::domain::client_state::{ClientEvent, ClientState, Phase};

/// The wait before rows of a client that is gone are marked again, after the store did not.
const BURY_AGAIN: Duration = Duration::from_secs(1);

impl WebhookDeliveryActor {
    /// Reads what the stash and the store know of this client.
    pub(super) fn load(&mut self, ctx: &mut Context<Self>) {
        let (services, client) = (self.services.clone(), self.client().clone());
        let read = async move {
            // What an earlier life had asked to be written is written before we look.
            write_all(&services.stash_writes, Vec::new()).await;
            let mut wait = Duration::from_millis(100);
            loop {
                let read = async {
                    Ok::<_, crate::ports::StoreError>((
                        services.stash.backlog(&client).await?,
                        services.states.get(&client).await?,
                    ))
                };
                match read.await {
                    Ok(read) => return read,
                    Err(err) => {
                        services.metrics.store_errors.with_label_values(&["stash"]).inc();
                        log::warn!("client waits for the stash err={err} client={client}");
                    }
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(Duration::from_secs(5));
            }
        };
        ctx.spawn(read.into_actor(self).map(|(backlog, state), actor, ctx| {
            let life = &mut actor.life;
            life.rows = Rows { pending: backlog.pending > 0, dead: backlog.dead > 0 };
            if let Some(state) = state {
                life.state = state;
            }
            life.loaded = true;
            let rows = if life.rows.pending { ClientEvent::RowsWaiting } else { ClientEvent::RowsGone };
            actor.happened(rows);
            actor.pump(ctx);
        }));
    }

    /// Follows the client's config.
    pub(super) fn look_at_config(&mut self, ctx: &mut Context<Self>) {
        let target = match self.services.configs.get(self.client()) {
            None => Target::Gone,
            Some(config) if config.deleted => Target::Gone,
            Some(config) => match (&config.delivery, config.is_active()) {
                (_, false) => Target::Inactive,
                (Ok(settings), true) => Target::Webhook(settings.clone()),
                (Err(fault), true) => Target::Unusable(fault.to_string()),
            },
        };
        if target == self.life.target {
            return;
        }
        // A restart is no new config: a webhook that failed before still fails.
        let changed = self.life.target != Target::Unknown;
        let event = match &target {
            Target::Webhook(_) => ClientEvent::ConfigUsable,
            Target::Unusable(fault) => ClientEvent::ConfigUnusable { reason: fault.clone() },
            Target::Inactive | Target::Gone | Target::Unknown => ClientEvent::ConfigInactive,
        };
        self.life.target = target;
        self.life.sender = None;
        self.life.rate = RateGate::default();
        self.happened(event);
        if changed {
            self.life.endpoint_failures = 0;
            self.life.refused.clear();
            self.happened(ClientEvent::TryNow);
            self.leave_rows();
            self.life.drain.begin_anew();
            self.life.drain.all_at_once();
        }
        if self.life.target == Target::Gone && self.life.rows.pending {
            self.bury(ctx);
        }
    }

    /// Applies an event to the client's state.
    pub(super) fn happened(&mut self, event: ClientEvent) {
        let live = self.sends_live();
        let now_ms = self.now_ms();
        let retry = &self.services.limits.retry;
        let next = self.life.state.apply(&event, now_ms, retry, fastrand::f64());
        if next.phase != self.life.state.phase {
            let reason = match next.reason.as_str() {
                "" => String::new(),
                reason => format!(" reason={reason:?}"),
            };
            log::info!("client is {}{reason} client={}", next.phase.as_str(), self.inbox.client());
        }
        let unsaved = |state: &ClientState| {
            (state.phase, state.since_ms, state.failed_rounds, state.next_attempt_at_ms)
        };
        self.life.state_unsaved |= unsaved(&next) != unsaved(&self.life.state);
        self.life.state = next;
        if live && !self.sends_live() {
            self.stash_waiting();
        }
    }

    /// Whether changes go out as they come. Otherwise they go into the stash, and only the drain sends.
    pub(super) fn sends_live(&self) -> bool {
        matches!(self.life.target, Target::Webhook(_))
            && matches!(self.life.state.phase, Phase::Healthy | Phase::Draining)
            && self.life.state.may_send(self.now_ms())
    }

    pub(super) fn save_state(&mut self, ctx: &mut Context<Self>) {
        if !self.life.state_unsaved || self.life.saving_state {
            return;
        }
        self.life.state_unsaved = false;
        self.life.saving_state = true;
        let (states, client, state) =
            (self.services.states.clone(), self.client().clone(), self.life.state.clone());
        let save = async move { states.put(&client, state).await }.into_actor(self);
        ctx.spawn(save.map(|saved, actor, ctx| {
            actor.life.saving_state = false;
            if let Err(err) = saved {
                // The stored state only saves a restarted service the finding out; the next change stores it again.
                log::warn!("client state was not stored err={err} client={}", actor.inbox.client());
            }
            actor.save_state(ctx);
        }));
    }

    /// The client is gone: what waits for it is dead.
    pub(super) fn bury(&mut self, ctx: &mut Context<Self>) {
        let Some(ownership) = self.services.windows.ownership(self.partition) else { return };
        let (stash, client) = (self.services.stash.clone(), self.client().clone());
        let bury = async move { stash.bury(&client, ownership, "client_gone").await }.into_actor(self);
        ctx.spawn(bury.map(|buried, actor, ctx| match buried {
            Ok(count) => {
                actor.life.rows.dead = true;
                if count > 0 {
                    log::warn!(
                        "rows of a client that is gone are dead letters count={count} client={}",
                        actor.client()
                    );
                }
            }
            Err(err) => {
                let client = actor.client();
                log::warn!("rows of a client that is gone were not marked err={err} client={client}");
                ctx.run_later(BURY_AGAIN, |actor, ctx| {
                    if actor.life.target == Target::Gone {
                        actor.bury(ctx);
                    }
                });
            }
        }));
    }
}
