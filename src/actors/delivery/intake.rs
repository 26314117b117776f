//! Intake: what comes from the inbox goes into the lanes, or behind its document's rows into the stash.

use std::collections::HashSet;
use std::sync::Arc;

use actix::prelude::*;
use tokio::time::Instant;

use super::lanes::{Entry, LaneKey, Origin};
use super::writes::After;
use super::{Rows, Target, WebhookDeliveryActor};
use crate::domain::client_state::ClientEvent;
use crate::domain::stash::{NewRow, Place, RowFailure, StashCheck, StashWrite};
use crate::domain::transfer::Transfer;

/// How many transfers are taken from the inbox at once: one question to the stash.
const TAKE: usize = 512;

/// The state of the intake.
#[derive(Default)]
pub(super) struct Intake {
    /// A question to the stash, or a write of what was taken, is under way: the next batch waits for it.
    busy: bool,
    /// Lanes that got rows since the question was asked: its answer does not know them.
    stashed_since: HashSet<LaneKey>,
}

impl Intake {
    /// A question to the stash is due. Rows that are queued to be written before it is asked are in its answer.
    fn ask(&mut self) {
        self.busy = true;
        self.stashed_since.clear();
    }

    /// A lane gets a row.
    pub(super) fn note_stashed(&mut self, lane: LaneKey) {
        if self.busy {
            self.stashed_since.insert(lane);
        }
    }

    /// A lane gets a row by what was taken: what is taken after it goes behind.
    fn will_write(&mut self, lane: LaneKey) {
        self.busy = true;
        self.stashed_since.insert(lane);
    }

    /// What was taken is durable: the next batch may be asked about.
    pub(super) fn written(&mut self) {
        self.busy = false;
        self.stashed_since.clear();
    }
}

impl WebhookDeliveryActor {
    /// Takes the next batches from the inbox.
    pub(super) fn take_in(&mut self, ctx: &mut Context<Self>) {
        while !self.life.intake.busy && !self.life.stopping && !self.is_reordering() {
            let batch = self.inbox.take(TAKE);
            if batch.is_empty() {
                return;
            }
            let live = self.sends_live();
            let has_replays = batch.iter().any(|transfer| transfer.kind.is_replay());
            if has_replays || live && (self.life.rows.pending || self.life.rows.dead) {
                self.life.intake.ask();
                if self.life.writes.is_idle() {
                    self.ask_stash(batch, ctx);
                } else {
                    self.life.writes.push_mark(After::Ask(batch));
                }
            } else if live {
                self.accept(batch, &StashCheck::default());
            } else {
                self.append_all(batch);
            }
        }
    }

    /// The label of what goes into the stash because nothing is sent as it comes.
    fn why_not_live(&self) -> &'static str {
        match self.life.target {
            Target::Webhook(_) => "behind",
            Target::Unusable(_) => "config_invalid",
            Target::Blocked(_) => "owner_blocked",
            Target::Inactive | Target::Gone | Target::Unknown => "disabled",
        }
    }

    /// Asks what the stash knows of a batch.
    pub(super) fn ask_stash(&mut self, batch: Vec<Arc<Transfer>>, ctx: &mut Context<Self>) {
        let (stash, metrics, client) =
            (self.services.stash.clone(), self.services.metrics.clone(), self.client().clone());
        let question = async move {
            let documents: HashSet<_> = batch.iter().map(|transfer| transfer.document_hash).collect();
            let documents: Vec<_> = documents.into_iter().collect();
            let events: Vec<_> = batch.iter().map(|transfer| transfer.event_id.clone()).collect();
            let mut wait = std::time::Duration::from_millis(100);
            loop {
                match stash.check(&client, documents.clone(), events.clone()).await {
                    Ok(check) => return (batch, check),
                    Err(err) => {
                        // If the stash cannot be asked, this client waits.
                        metrics.store_errors.with_label_values(&["stash"]).inc();
                        log::warn!("client waits for the stash err={err} client={client}");
                    }
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(std::time::Duration::from_secs(5));
            }
        };
        ctx.spawn(question.into_actor(self).map(|(batch, check), actor, ctx| {
            actor.life.intake.busy = false;
            let batch = actor.settle_refused_replays(batch, &check);
            if actor.sends_live() {
                actor.accept(batch, &check);
            } else {
                actor.append_all(batch);
            }
            actor.pump(ctx);
        }));
    }

    /// Sorts a batch: settled, behind a row, spilled, or into the lanes.
    fn accept(&mut self, batch: Vec<Arc<Transfer>>, check: &StashCheck) {
        let now = Instant::now();
        let mut appended = Vec::new();
        let mut full = false;
        for transfer in batch {
            self.inbox.takes_in_hand(&transfer);
            if transfer.kind.is_replay() {
                let lane = self.lane(&transfer);
                self.life.intake.will_write(lane);
                appended.push((transfer, "replay"));
                continue;
            }
            // From the first that does not fit on, the rest of the batch is spilled: none may overtake.
            full = full || !self.fits(&transfer);
            let lane = self.lane(&transfer);
            match check.place(&transfer.document_hash, &transfer.event_id) {
                Place::HasRow => self.inbox.settle(transfer.sequence),
                Place::Behind => appended.push((transfer, "behind")),
                // The answer tells of the documents that were asked about; in this order every row counts.
                Place::Free { .. } if lane == LaneKey::Client && self.life.rows.pending => {
                    appended.push((transfer, "behind"));
                }
                Place::Free { .. } if self.life.intake.stashed_since.contains(&lane) => {
                    appended.push((transfer, "behind"));
                }
                Place::Free { .. } if full => appended.push((transfer, "spilled")),
                Place::Free { supersedes } => {
                    let origin = Origin::Live { supersedes };
                    self.life.lanes.push(Entry { transfer, lane, origin, since: now, _memory: None });
                }
            }
        }
        self.inbox.puts_down();
        self.append(appended);
    }

    fn append_all(&mut self, batch: Vec<Arc<Transfer>>) {
        let reason = self.why_not_live();
        self.append(batch.into_iter().map(|transfer| (transfer, reason)).collect());
    }

    fn fits(&self, transfer: &Transfer) -> bool {
        let (live, limits) = (self.life.lanes.live(), &self.services.limits);
        let empty = live.records == 0;
        empty
            || (live.records < limits.client_records && live.bytes + transfer.weight() <= limits.client_bytes)
    }

    /// Appends transfers that were not attempted to the stash, each with the label why. The intake waits until they are durable.
    fn append(&mut self, transfers: Vec<(Arc<Transfer>, &'static str)>) {
        if transfers.is_empty() {
            return;
        }
        if self.life.quota.is_full() {
            return self.drop_beyond_quota(&transfers);
        }
        self.life.intake.busy = true;
        for (transfer, reason) in transfers {
            if transfer.kind.is_replay() {
                self.replay_row(transfer);
            } else {
                self.insert_row(transfer, None, reason);
            }
        }
        self.life.writes.push_mark(After::IntakeWritten);
    }

    /// Writes a row for an unsettled transfer, and settles it when the row is durable.
    pub(super) fn insert_row(
        &mut self,
        transfer: Arc<Transfer>,
        failure: Option<RowFailure>,
        reason: &'static str,
    ) {
        self.services.metrics.stashed.with_label_values(&[reason]).inc();
        let lane = self.lane(&transfer);
        self.life.intake.note_stashed(lane);
        self.life.quota.appended(transfer.weight());
        self.rows_wait();
        let after = After::Settle(transfer.sequence);
        self.life.writes.push(StashWrite::Insert(NewRow { transfer, failure, claim: None }), after);
    }

    /// There are rows from now on: changes are asked about before they are sent, and the drain has work.
    pub(super) fn rows_wait(&mut self) {
        self.life.drain.appended();
        if !self.life.rows.pending {
            self.rows_are(Rows { pending: true, ..self.life.rows });
            self.happened(ClientEvent::RowsWaiting);
        }
    }

    /// Moves all live entries that wait in the lanes into the stash; rows among them just go back there.
    pub(super) fn stash_waiting(&mut self) {
        let waiting = self.life.lanes.take_waiting();
        let reason = self.why_not_live();
        self.entries_to_stash(waiting, reason);
        self.life.drain.begin_anew();
    }

    /// Writes rows for live entries. Entries that are rows already stay what they are.
    pub(super) fn entries_to_stash(&mut self, entries: Vec<Entry>, reason: &'static str) {
        for entry in entries.into_iter().filter(|entry| !entry.is_row()) {
            self.insert_row(entry.transfer, None, reason);
        }
    }
}
