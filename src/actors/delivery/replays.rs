//! Replays come from the log like changes, and bring back what has a row: the row waits again, at its old place (a forced one at the
//! place of the replay), and goes by the drain. So a replay outlives every restart, and its order is that of its row.

use std::collections::HashSet;
use std::sync::Arc;

use super::WebhookDeliveryActor;
use super::writes::After;
use crate::domain::dead_row::{Refusal, may_come_back};
use crate::domain::stash::{StashCheck, StashWrite};
use crate::domain::transfer::{Transfer, TransferKind};

impl WebhookDeliveryActor {
    /// Settles the replays of a batch that bring nothing back, and returns the rest.
    pub(super) fn settle_refused_replays(
        &self,
        batch: Vec<Arc<Transfer>>,
        check: &StashCheck,
    ) -> Vec<Arc<Transfer>> {
        // Of changes that came before a replay: they have no row yet, and are newer than what has one.
        let mut changed = HashSet::new();
        let mut rest = Vec::with_capacity(batch.len());
        for transfer in batch {
            if !transfer.kind.is_replay() {
                changed.insert(transfer.document_hash);
                rest.push(transfer);
                continue;
            }
            let forced = transfer.kind == TransferKind::ForcedReplay;
            let newer = !forced && (changed.contains(&transfer.document_hash) || self.has_change(&transfer));
            let known = check.stashed.get(&transfer.event_id).copied();
            match may_come_back(known, forced) {
                Ok(()) if newer => self.refuse_replay(&transfer, Refusal::NewerWaits),
                Ok(()) if self.life.quota.is_full() => self.refuse_replay(&transfer, Refusal::Overflow),
                Ok(()) => rest.push(transfer),
                Err(refusal) => self.refuse_replay(&transfer, refusal),
            }
        }
        rest
    }

    fn refuse_replay(&self, replay: &Transfer, why: Refusal) {
        let (event, client) = (&replay.event_id, self.client());
        log::info!("replay brings nothing back reason={} event={event} client={client}", why.as_str());
        self.services.metrics.replays.with_label_values(&[why.as_str()]).inc();
        self.inbox.settle(replay.sequence);
    }

    /// Whether a change of the same document is in hand that has no row: it is newer than any that was given up.
    fn has_change(&self, replay: &Transfer) -> bool {
        let document = replay.document_hash;
        let on_the_wire = self.life.in_flight.values().any(|request| request.is_change_of(document));
        on_the_wire || self.life.lanes.has_change_of(self.lane(replay), document)
    }

    /// Has the row of a replay wait again, and settles the replay when that is durable.
    pub(super) fn replay_row(&mut self, transfer: Arc<Transfer>) {
        self.services.metrics.replays.with_label_values(&["taken"]).inc();
        let lane = self.lane(&transfer);
        self.life.intake.note_stashed(lane);
        self.life.quota.appended(transfer.weight());
        self.rows_wait();
        let after = After::Settle(transfer.sequence);
        self.life.writes.push(StashWrite::Replay { transfer }, after);
    }
}
