//! Answers: what a request that is done leads to.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;

use super::lanes::{Entry, Origin};
use super::requests::InFlight;
use super::writes::After;
use super::{Rows, Target, WebhookDeliveryActor};
use crate::actors::delivery_fleet::Gone;
use crate::domain::client_state::{ClientEvent, Phase, Tried};
use crate::domain::config::DeliverySettings;
use crate::domain::delivery::{self, Answer, Failure, FailureClass, Outcome};
use crate::domain::operational_event::{Happening, OperationalEvent};
use crate::domain::stash::{Claim, RowFailure, StashWrite};
use crate::domain::transfer::{Sequence, Transfer};
use crate::ports::webhook_sender::SendError;

/// Endpoint failures in a row that close the gate of the whole client: one of many is noise.
const FAILURES_IN_A_ROW: u32 = 3;

/// Documents answered 401, 403 or 404 in a row that do the same: then it is the config, not a document.
const REFUSED_DOCUMENTS: usize = 5;

impl WebhookDeliveryActor {
    fn answered(&mut self, answered: Answered) {
        let Some(InFlight { entry, insured, .. }) = self.life.in_flight.remove(&answered.sequence) else {
            return;
        };
        self.inbox.takes_in_hand(&entry.transfer);
        self.follow_answer(entry, insured, answered);
        self.inbox.puts_down();
    }

    fn follow_answer(&mut self, entry: Entry, insured: bool, answered: Answered) {
        let Some(result) = answered.result else { return self.not_started(entry, insured) };
        let now_ms = self.now_ms();
        if let Err(err) = &result {
            log::debug!(
                "attempt failed err={err} event={} client={}",
                entry.transfer.event_id,
                self.client()
            );
        }
        let outcome = delivery::classify(result.as_ref().map_err(|err| err.reason), now_ms);
        self.note_attempt(&entry, &result, &outcome, answered.took, answered.settings.clone());
        let counts = self.is_of_this_webhook(&answered.settings);
        let metrics = &self.services.metrics;
        metrics.request_seconds.observe(answered.took.as_secs_f64());
        match outcome {
            Outcome::Delivered => {
                metrics.deliveries.with_label_values(&["delivered", ""]).inc();
                let age_ms = (now_ms - entry.transfer.ts_ms).max(0);
                metrics.delivery_seconds.observe(age_ms as f64 / 1000.0);
                let age = Duration::from_millis(age_ms.unsigned_abs());
                self.services.meters.delivered(&self.meter, answered.took, age, now_ms);
                if counts {
                    self.webhook_lives();
                    self.note_try(Tried::Delivered);
                }
                self.delivered(entry, insured);
            }
            Outcome::Gone => {
                metrics.deliveries.with_label_values(&["gone", "status_410"]).inc();
                self.meter.failed("status_410", now_ms);
                // The one that was asked: the config may name another by now.
                let webhook = answered.settings.webhook.clone();
                self.fleet.do_send(Gone { client: self.client().clone(), webhook });
                let failure = Failure {
                    class: FailureClass::Endpoint,
                    reason: "status_410".to_owned(),
                    status: Some(410),
                    retry_after: None,
                };
                self.failed(entry, insured, failure, counts);
            }
            Outcome::Failed(failure) => {
                metrics.deliveries.with_label_values(&["failed", &failure.reason]).inc();
                self.meter.failed(&failure.reason, now_ms);
                self.failed(entry, insured, failure, counts);
            }
        }
    }

    /// Whether these settings lead where changes go now: what another webhook answered is no news of this one.
    fn is_of_this_webhook(&self, settings: &DeliverySettings) -> bool {
        matches!(&self.life.target, Target::Webhook(now) if now.is_same_receiver(settings))
    }

    /// Somebody may have asked for this try.
    fn note_try(&mut self, tried: Tried) {
        if std::mem::take(&mut self.life.try_asked) {
            self.happened(ClientEvent::Tried(tried));
        }
    }

    /// There was no permission any more: the entry waits at its place, if it has one still.
    fn not_started(&mut self, entry: Entry, insured: bool) {
        if insured {
            // It has a row, which goes by the drain.
            let reason = "not_started".to_owned();
            let failure = Failure { class: FailureClass::Endpoint, reason, status: None, retry_after: None };
            return self.keep(entry, insured, failure);
        }
        let is_row = entry.is_row();
        self.life.lanes.put_back(entry);
        if self.is_reordering() || !self.sends_live() {
            // While it was on its way the lanes were emptied.
            self.stash_waiting();
        } else if is_row {
            // The pass that read it may be over by now, as its lease is.
            self.leave_rows();
            self.life.drain.begin_anew();
        }
    }

    /// The webhook took something.
    fn webhook_lives(&mut self) {
        self.life.endpoint_failures = 0;
        self.life.refused.clear();
        self.life.probed.clear();
        self.life.drain.webhook_is_news();
        if self.life.state.is_probing() {
            // The documents that this pass left out for the probe come with the next.
            self.life.drain.begin_anew();
            self.life.slow_start = 1;
        }
        // It may live, and hardly stand: with each answer one request more.
        self.life.slow_start = self.life.slow_start.saturating_add(1);
        self.happened(ClientEvent::Delivered);
    }

    fn delivered(&mut self, entry: Entry, insured: bool) {
        let Entry { transfer, lane, origin, .. } = entry;
        let sequence = transfer.sequence;
        match origin {
            Origin::Row { .. } => {
                self.life.writes.push_of_drain(StashWrite::Delivered { transfer }, After::RowDecided);
            }
            Origin::Live { .. } if insured => {
                // It is settled by the write of its row. While that row stands it would be sent again after a crash: then
                // nothing newer may have gone out, for that would not come again.
                self.life.drain.block(lane);
                self.life.writes.push(StashWrite::Delivered { transfer }, After::RowDecided);
                self.life.writes.push_mark(After::FreeLane(lane));
                return;
            }
            Origin::Live { supersedes: true } => {
                self.life.writes.push(StashWrite::Delivered { transfer }, After::Settle(sequence));
            }
            Origin::Live { .. } => self.inbox.settle(sequence),
        }
        self.life.lanes.finish(lane);
    }

    /// `counts`: this webhook said so, and not one that the client had before.
    fn failed(&mut self, entry: Entry, insured: bool, failure: Failure, counts: bool) {
        if !counts {
            // It says nothing of the payload either.
            return self.keep(entry, insured, Failure { class: FailureClass::Endpoint, ..failure });
        }
        let document = entry.transfer.document_hash;
        let (class, retry_after) = (failure.class, failure.retry_after);
        let reason = failure.reason.clone();
        self.happened(ClientEvent::RequestFailed { class, reason: reason.clone() });
        self.keep(entry, insured, failure);

        match class {
            FailureClass::Endpoint => {
                self.life.endpoint_failures = self.life.endpoint_failures.saturating_add(1)
            }
            FailureClass::Config => {
                self.life.refused.insert(document);
            }
            FailureClass::Payload => {}
        }
        let degraded = self.life.state.phase == Phase::Degraded;
        let endpoint = class == FailureClass::Endpoint
            && (degraded || retry_after.is_some() || self.life.endpoint_failures >= FAILURES_IN_A_ROW);
        let refused =
            self.life.refused.len() >= REFUSED_DOCUMENTS || (class == FailureClass::Config && degraded);
        if endpoint || refused {
            self.life.refused.clear();
            self.happened(ClientEvent::EndpointFailed { reason, retry_after });
            self.life.drain.each_in_its_time();
            self.leave_rows();
            self.life.drain.begin_anew();
        }
        self.note_try(if class == FailureClass::Payload { Tried::Refused } else { Tried::Failed });
    }

    /// Writes down what became of a failed attempt: the payload waits in the stash.
    fn keep(&mut self, entry: Entry, insured: bool, failure: Failure) {
        let retry = &self.services.limits.retry;
        let Entry { transfer, lane, origin, .. } = entry;
        let (attempts, payload_failures) = match origin {
            Origin::Live { .. } => (1, 0),
            Origin::Row { attempts, payload_failures } => (attempts + 1, payload_failures),
        };
        // The webhook's own failures are paced by the client's gate; a payload's (or its config's) grow by row.
        let paced_by_gate = match failure.class {
            FailureClass::Endpoint => true,
            FailureClass::Config => self.life.state.phase == Phase::Degraded,
            FailureClass::Payload => false,
        };
        let step = if paced_by_gate { 1 } else { attempts };
        let delay = retry.delay(step, fastrand::f64());
        let row = RowFailure {
            class: failure.class,
            reason: failure.reason,
            status: failure.status,
            next_attempt_at_ms: self.now_ms() + i64::try_from(delay.as_millis()).unwrap_or(i64::MAX),
        };
        let event_id = transfer.event_id.clone();
        match origin {
            Origin::Row { .. } => {
                let gives_up = failure.class == FailureClass::Payload
                    && payload_failures + 1 >= self.services.limits.payload_attempts
                    && self.life.state.failed_rounds == 0;
                if gives_up {
                    log::warn!(
                        "payload is a dead letter reason={} event={event_id} client={}",
                        row.reason,
                        self.client()
                    );
                    self.services.events.record(dead_letter(&transfer, &row, attempts, self.now_ms()));
                    // What waits behind it in this lane goes when it is durable.
                    self.rows_are(Rows { dead: true, ..self.life.rows });
                    let dead = StashWrite::Dead { event_id, failure: row };
                    self.life.writes.push_of_drain(dead, After::RowDead(lane));
                } else {
                    // What waits behind it in this lane stays in the stash, and is read again after it.
                    let behind = self.life.lanes.take_behind(lane);
                    self.entries_to_stash(behind, "behind");
                    self.life.lanes.finish(lane);
                    self.life.drain.block(lane);
                    let failed = StashWrite::Failed { event_id, failure: row };
                    self.life.writes.push_of_drain(failed, After::RowDecided);
                }
            }
            Origin::Live { .. } => {
                if insured {
                    self.rows_wait();
                    self.life.drain.block(lane);
                    self.life.writes.push(StashWrite::Failed { event_id, failure: row }, After::RowDecided);
                } else {
                    self.insert_row(transfer, Some(row), "failed");
                }
                let behind = self.life.lanes.take_behind(lane);
                self.entries_to_stash(behind, "behind");
                self.life.writes.push_mark(After::CloseLane(lane));
            }
        }
    }
}

/// What the operator is told of a payload that is given up.
pub(super) fn dead_letter(
    transfer: &Transfer,
    row: &RowFailure,
    attempts: u32,
    now_ms: i64,
) -> OperationalEvent {
    OperationalEvent::new(Happening::DeadLetter, now_ms)
        .of(&transfer.client)
        .because(&row.reason)
        .with("event_id", transfer.event_id.as_str())
        .with("document", &*transfer.document)
        .with("attempts", attempts)
}

/// A request is done.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Answered {
    /// The life that sent it: an answer to an earlier one is nobody's.
    pub(super) claim: Claim,
    pub(super) sequence: Sequence,
    /// By which it was sent.
    pub(super) settings: Arc<DeliverySettings>,
    /// `None`: it was not started.
    pub(super) result: Option<Result<Answer, SendError>>,
    pub(super) took: Duration,
}

impl Handler<Answered> for WebhookDeliveryActor {
    type Result = ();

    fn handle(&mut self, answered: Answered, ctx: &mut Self::Context) {
        self.cell.handling("Answered");
        if answered.claim == self.life.claim {
            self.answered(answered);
            self.pump(ctx);
        }
    }
}
