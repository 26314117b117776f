//! The quota: how much may wait for one client in the stash. What comes beyond it is dropped, counted and said: the client needs a resync.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use tokio::time::Instant;

use super::WebhookDeliveryActor;
use crate::domain::client_state::ClientEvent;
use crate::domain::operational_event::{Happening, OperationalEvent};
use crate::domain::stash::Backlog;
use crate::domain::transfer::Transfer;

/// While nothing more may wait: how often it is asked whether there is room again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// While changes are missing: how often it is asked whether a resync has made them good.
const ASK_FOR_RESYNC: Duration = Duration::from_secs(15);

/// How much may wait for one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StashQuota {
    /// Rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl StashQuota {
    /// The part of it that is used, in percent: of rows or of bytes, whichever is more.
    fn used(&self, rows: u64, bytes: u64) -> u64 {
        let percent = |part: u64, whole: u64| part.saturating_mul(100) / whole.max(1);
        percent(rows, self.rows).max(percent(bytes, self.bytes))
    }
}

/// What is known of it.
#[derive(Default)]
pub(super) struct Quota {
    /// Rows and bytes as the store told, and what was appended since. What was drained since is not taken off.
    known: Option<(u64, u64)>,
    asked: Option<Instant>,
    asking: bool,
    full: bool,
    asked_for_resync: Option<Instant>,
}

impl Quota {
    /// A row is appended.
    pub(super) fn appended(&mut self, bytes: usize) {
        if let Some((rows, all)) = &mut self.known {
            *rows += 1;
            *all += bytes as u64;
        }
    }

    /// An earlier life, or process, said that it was full, or had room. How much waits is to be asked.
    pub(super) fn is_as_before(&mut self, full: bool) {
        *self = Self { full, ..Self::default() };
    }

    /// Whether nothing more may wait.
    pub(super) fn is_full(&self) -> bool {
        self.full && self.known.is_some()
    }

    /// What waits is this. Full at all of it, with room again at 90 %.
    fn learn(&mut self, backlog: &Backlog, quota: &StashQuota) {
        self.known = Some((backlog.pending, backlog.pending_bytes));
        let bound = if self.full { 90 } else { 100 };
        self.full = quota.used(backlog.pending, backlog.pending_bytes) >= bound;
    }

    /// Whether the store is to be asked.
    fn is_due(&self, quota: &StashQuota) -> bool {
        if self.asking {
            return false;
        }
        match self.known {
            None => true,
            Some(_) if self.full => self.asked.is_none_or(|asked| asked.elapsed() >= ASK_AGAIN),
            Some((rows, bytes)) => quota.used(rows, bytes) >= 100,
        }
    }
}

impl WebhookDeliveryActor {
    /// Asks how much waits, when it may be too much.
    pub(super) fn look_at_quota(&mut self, ctx: &mut Context<Self>) {
        if !self.life.rows.pending || !self.life.quota.is_due(&self.services.limits.quota) {
            return;
        }
        self.life.quota.asking = true;
        self.life.quota.asked = Some(Instant::now());
        let (stash, client) = (self.services.stash.clone(), self.client().clone());
        let question = async move { stash.backlog(&client).await }.into_actor(self);
        ctx.spawn(question.map(|backlog, actor, ctx| {
            actor.life.quota.asking = false;
            // While the store is away nothing is appended either.
            if let Ok(backlog) = backlog {
                actor.quota_is(&backlog);
                actor.pump(ctx);
            }
        }));
    }

    /// Asks whether a resync has made good what was dropped: it ends where it was run, and writes that down in the store.
    pub(super) fn look_for_resync(&mut self, ctx: &mut Context<Self>) {
        let asked = &mut self.life.quota.asked_for_resync;
        if self.life.state.missing() == 0 || asked.is_some_and(|asked| asked.elapsed() < ASK_FOR_RESYNC) {
            return;
        }
        *asked = Some(Instant::now());
        let (states, client) = (self.services.states.clone(), self.client().clone());
        let question = async move { states.get(&client).await }.into_actor(self);
        ctx.spawn(question.map(|state, actor, _| {
            // While the store is away it is asked again.
            if let Ok(Some(state)) = state {
                actor.happened(ClientEvent::Resynced { dropped: state.resynced });
            }
        }));
    }

    /// So much waits.
    pub(super) fn quota_is(&mut self, backlog: &Backlog) {
        let was_full = self.life.quota.full;
        self.life.quota.learn(backlog, &self.services.limits.quota);
        match (was_full, self.life.quota.full) {
            (false, true) => {
                log::error!(
                    "changes are dropped: too much waits rows={} client={}",
                    backlog.pending,
                    self.client()
                );
                let event = OperationalEvent::new(Happening::Overflow, self.now_ms())
                    .of(self.client())
                    .with("rows", backlog.pending)
                    .with("bytes", backlog.pending_bytes);
                self.services.events.record(event);
                self.happened(ClientEvent::Overflow);
            }
            (true, false) => self.happened(ClientEvent::RoomAgain),
            (false, false) | (true, true) => {}
        }
    }

    /// Nothing more may wait: these are dropped.
    pub(super) fn drop_beyond_quota(&mut self, transfers: &[(Arc<Transfer>, &'static str)]) {
        self.services.metrics.dropped.with_label_values(&["overflow"]).inc_by(transfers.len() as u64);
        self.happened(ClientEvent::Dropped { count: transfers.len() as u64 });
        for (transfer, _) in transfers {
            self.inbox.settle(transfer.sequence);
        }
    }

    /// When it is asked again whether there is room.
    pub(super) fn quota_due(&self, now: Instant) -> Option<Instant> {
        let full = self.life.quota.full && !self.life.quota.asking;
        full.then(|| self.life.quota.asked.map_or(now, |asked| asked + ASK_AGAIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_full_at_all_of_it_and_has_room_at_nine_tenths() {
        let quota = StashQuota { rows: 100, bytes: 1_000 };
        let backlog = |pending, pending_bytes| Backlog { pending, pending_bytes, ..Backlog::default() };
        let mut known = Quota::default();
        assert!(known.is_due(&quota), "nothing is known yet");
        for (rows, bytes, full) in [
            (99, 10, false),
            (100, 10, true),
            (95, 10, true),
            (90, 10, true),
            (89, 10, false),
            (99, 10, false),
            (5, 1_000, true),
            (5, 899, false),
        ] {
            known.learn(&backlog(rows, bytes), &quota);
            assert_eq!(known.is_full(), full, "{rows} rows, {bytes} bytes");
        }
        for (rows, full) in [(95, true), (89, false)] {
            known.is_as_before(true);
            assert!(known.is_due(&quota) && !known.is_full(), "nothing is dropped before it is known");
            known.learn(&backlog(rows, 10), &quota);
            assert_eq!(known.is_full(), full, "{rows} rows after a restart");
        }
        known.learn(&backlog(98, 10), &quota);
        known.appended(10);
        assert!(!known.is_due(&quota));
        known.appended(10);
        assert!(known.is_due(&quota), "by what was appended it may be full");
    }
}
