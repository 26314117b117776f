//! What is known of the client: its config, its state, and whether rows wait.

use std::time::Duration;

use actix::prelude::*;

use super::lanes::LaneKey;
use super::requests::RateGate;
use super::{Target, WebhookDeliveryActor};
use crate::actors::inbox::{Rows, Standing};
use crate::actors::stash::write_all;
use crate::domain::client_state::{ClientEvent, ClientState, Phase};
use crate::domain::operational_event::OperationalEvent;
use crate::domain::transfer::Transfer;

/// The wait before a state is stored again, after the store did not.
const SAVE_AGAIN: Duration = Duration::from_secs(2);

impl WebhookDeliveryActor {
    /// Takes over what is known of this client. Without rows nobody is asked: the stash may be away.
    pub(super) fn load(&mut self, ctx: &mut Context<Self>) {
        let killers = self.inbox.killers();
        if !killers.is_empty() {
            return self.give_up(killers, ctx);
        }
        let Standing { rows, state } = self.inbox.standing();
        self.life.rows = rows;
        if let Some(state) = state {
            self.life.state = state;
        }
        if rows.are_none() {
            return self.loaded(ctx);
        }
        let (stash, fence) = (self.services.stash_writes.clone(), self.inbox.fence().clone());
        // What an earlier life had asked to be written is written before we look.
        let written = async move { write_all(&stash, Vec::new(), &fence).await }.into_actor(self);
        ctx.spawn(written.map(|_, actor, ctx| actor.loaded(ctx)));
    }

    fn loaded(&mut self, ctx: &mut Context<Self>) {
        self.life.loaded = true;
        self.meter.state_is(&self.life.state);
        let rows = if self.life.rows.pending { ClientEvent::RowsWaiting } else { ClientEvent::RowsGone };
        self.happened(rows);
        self.life.quota.is_as_before(self.life.state.overflows);
        self.pump(ctx);
    }

    /// What the stash holds for this client from now on.
    pub(super) fn rows_are(&mut self, rows: Rows) {
        self.life.rows = rows;
        self.inbox.note_rows(rows);
    }

    /// Follows the client's config, and what is decided about its owner.
    pub(super) fn look_at_config(&mut self, ctx: &mut Context<Self>) {
        let client = self.services.configs.get(self.client());
        self.look_at_pause(client.as_ref().and_then(|client| client.paused()).map(|made| made.by()));
        let target = client.as_ref().map_or(Target::Gone, |client| Target::of(client.destination()));
        if target == self.life.target {
            return;
        }
        // A restart is no new config: a webhook that failed before still fails.
        let changed = self.life.target != Target::Unknown;
        let event = match &target {
            Target::Webhook(_) => ClientEvent::ConfigUsable,
            Target::Unusable(fault) => ClientEvent::ConfigUnusable { reason: fault.clone() },
            Target::Blocked(why) => ClientEvent::OwnerBlocked { reason: why.clone() },
            Target::Inactive | Target::Gone | Target::Unknown => ClientEvent::ConfigInactive,
        };
        self.life.target = target;
        self.life.sender = None;
        self.life.rate = RateGate::default();
        self.happened(event);
        if changed {
            self.life.endpoint_failures = 0;
            self.life.refused.clear();
            self.life.drain.webhook_is_news();
            if matches!(self.life.target, Target::Webhook(_)) {
                self.happened(ClientEvent::ConfigChanged);
            }
            self.leave_rows();
            self.life.drain.begin_anew();
            self.life.drain.all_at_once();
            if self.is_reordering() {
                self.stash_waiting();
            }
        }
        self.bury(ctx);
    }

    /// Follows what an operator decided.
    fn look_at_pause(&mut self, paused_by: Option<&str>) {
        match (paused_by, self.life.state.paused_by.is_some()) {
            (Some(by), false) => self.happened(ClientEvent::Pause { by: by.to_owned() }),
            (None, true) => {
                self.happened(ClientEvent::Resume);
                self.life.drain.begin_anew();
                self.life.drain.all_at_once();
            }
            (Some(_), true) | (None, false) => {}
        }
    }

    /// Whether the config asks for another order than the lanes keep. Then nothing starts until nothing is under way: a change that is
    /// on the wire by the old order has no lane in the new one.
    pub(super) fn is_reordering(&self) -> bool {
        matches!(&self.life.target, Target::Webhook(settings) if settings.ordering != self.life.ordering)
    }

    /// Takes the order that the config asks for, if it can be taken now.
    pub(super) fn adopt_ordering(&mut self) {
        let quiet = self.life.in_flight.is_empty()
            && self.life.lanes.are_empty()
            && self.life.writes.is_idle()
            && !self.life.drain.is_asking();
        if let Target::Webhook(settings) = &self.life.target
            && quiet
        {
            self.life.ordering = settings.ordering;
        }
    }

    /// The lane of a transfer.
    pub(super) fn lane(&self, transfer: &Transfer) -> LaneKey {
        LaneKey::of(self.life.ordering, transfer)
    }

    /// Applies an event to the client's state.
    pub(super) fn happened(&mut self, event: ClientEvent) {
        let live = self.sends_live();
        let now_ms = self.now_ms();
        let pacing = &self.services.limits.pacing;
        let next = self.life.state.apply(&event, now_ms, pacing, fastrand::f64());
        if next.phase != self.life.state.phase {
            let reason = match next.reason.as_str() {
                "" => String::new(),
                reason => format!(" reason={reason:?}"),
            };
            log::info!("client is {}{reason} client={}", next.phase.as_str(), self.inbox.client());
        }
        let told = OperationalEvent::of_step(self.client(), &self.life.state, &next, now_ms);
        told.into_iter().for_each(|event| self.services.events.record(event));
        // By what is stored clients are switched off: that a webhook lives has to be known about, if not of each success.
        let lived = |state: &ClientState| state.last_success_ms.map(|at| at.div_euclid(pacing.spread_ms()));
        let unsaved = |state: &ClientState| {
            (
                (state.phase, state.since_ms, state.failed_rounds, state.next_attempt_at_ms),
                (state.overflows, state.dropped),
                (state.counted_failures, state.tries, lived(state)),
            )
        };
        if unsaved(&next) != unsaved(&self.life.state) {
            self.life.state_unsaved = true;
            self.inbox.note_state(next.clone());
        }
        if !looks_alike(&next, &self.life.state) {
            self.meter.state_is(&next);
        }
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
            let Err(err) = saved else {
                actor.life.saving_state = false;
                return actor.save_state(ctx);
            };
            // It has to get there: by what is stored clients are switched off.
            log::warn!("client state was not stored err={err} client={}", actor.inbox.client());
            actor.life.state_unsaved = true;
            ctx.run_later(SAVE_AGAIN, |actor, ctx| {
                actor.life.saving_state = false;
                actor.save_state(ctx);
            });
        }));
    }
}

/// Whether two states differ in nothing but the time of the last request: each request would make another state to show.
fn looks_alike(one: &ClientState, other: &ClientState) -> bool {
    let ClientState { phase, since_ms, reason, next_attempt_at_ms, failing_since_ms, last_failure, .. } = one;
    let ClientState { hold_until_ms, rows_waiting, overflows, dropped, resynced, paused_by, .. } = one;
    let disabled_by = &one.disabled_by;
    (phase, since_ms, next_attempt_at_ms, failing_since_ms, hold_until_ms)
        == (
            &other.phase,
            &other.since_ms,
            &other.next_attempt_at_ms,
            &other.failing_since_ms,
            &other.hold_until_ms,
        )
        && (rows_waiting, overflows) == (&other.rows_waiting, &other.overflows)
        && (dropped, resynced) == (&other.dropped, &other.resynced)
        && (reason, last_failure, paused_by, disabled_by)
            == (&other.reason, &other.last_failure, &other.paused_by, &other.disabled_by)
}
