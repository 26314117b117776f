//! Requests: what goes on the wire, and what its answer leads to.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use actix::prelude::*;
use futures_util::FutureExt as _;
use prometheus::IntGauge;
use tokio::time::Instant;

use super::drain::Lease;
use super::lanes::{Entry, Origin};
use super::permission::Permission;
use super::writes::After;
use super::{Rows, Target, WebhookDeliveryActor};
use crate::actors::delivery_fleet::Gone;
use crate::actors::inbox::Fence;
use crate::domain::client_state::{ClientEvent, Phase};
use crate::domain::config::{DeliverySettings, RateLimit};
use crate::domain::delivery::{self, Answer, Failure, FailureClass, NoAnswer, Outcome};
use crate::domain::operational_event::{Happening, OperationalEvent};
use crate::domain::stash::{Claim, NewRow, RowFailure, StashWrite};
use crate::domain::transfer::{DocumentHash, Sequence, Transfer};
use crate::ports::webhook_sender::SendError;

/// Endpoint failures in a row that close the gate of the whole client: one of many is noise.
const FAILURES_IN_A_ROW: u32 = 3;

/// Documents answered 401, 403 or 404 in a row that do the same: then it is the config, not a document.
const REFUSED_DOCUMENTS: usize = 5;

/// How much longer than its timeout a request may take until its end is known here.
const GRACE: Duration = Duration::from_secs(3);

/// A request on the wire.
pub(super) struct InFlight {
    entry: Entry,
    /// It has a row, claimed by this life: it is settled, or will be when the row is durable.
    insured: bool,
    /// By then it is answered, or has timed out: else nobody works on it any more.
    ends: Instant,
}

impl InFlight {
    /// Whether it came from the stash.
    pub(super) fn is_row(&self) -> bool {
        self.entry.is_row()
    }

    /// Whether it is a change of this document that came from the log.
    pub(super) fn is_change_of(&self, document: DocumentHash) -> bool {
        !self.is_row() && self.entry.transfer.document_hash == document
    }

    /// The bytes that it holds in memory, if it came from the stash.
    pub(super) fn row_bytes(&self) -> usize {
        if self.is_row() { self.entry.transfer.weight() } else { 0 }
    }
}

/// Keeps to the client's rate limit.
#[derive(Default)]
pub(super) struct RateGate {
    /// The starts within the last period, oldest first; at most `max`.
    starts: VecDeque<Instant>,
    opens: Option<Instant>,
}

impl RateGate {
    /// Whether a request may start now; it counts if so.
    fn pass(&mut self, limit: RateLimit, now: Instant) -> bool {
        while self.starts.front().is_some_and(|start| *start + limit.per <= now) {
            self.starts.pop_front();
        }
        if self.starts.len() >= limit.max as usize {
            self.opens = self.starts.front().map(|start| *start + limit.per);
            return false;
        }
        self.opens = None;
        self.starts.push_back(now);
        true
    }
}

/// Counts a request on the wire while it lives.
struct OnTheWire(IntGauge);

impl OnTheWire {
    fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for OnTheWire {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl WebhookDeliveryActor {
    /// Starts as many requests as may start now.
    pub(super) fn dispatch(&mut self, ctx: &mut Context<Self>) {
        while self.life.requests.try_join_next().is_some() {}
        self.life.not_allowed = false;
        let Target::Webhook(settings) = self.life.target.clone() else { return };
        let now_ms = self.now_ms();
        if self.life.stopping || self.is_reordering() || !self.life.state.may_send(now_ms) {
            return;
        }
        // After failures one real payload goes first, alone: its success opens the gate for the others.
        let at_once = match self.life.state.is_probing() {
            true => 1,
            false => settings.concurrency.min(self.life.slow_start),
        };
        let now_boot_ms = self.services.clock.boot_ms();
        if self.life.lanes.rows().records > 0 && self.life.drain.lease(now_boot_ms) == Lease::Expired {
            self.leave_rows();
            self.life.drain.begin_anew();
        }
        if !self.services.windows.may_send(self.ownership(), now_boot_ms) {
            self.life.not_allowed = self.life.lanes.is_ready();
            return;
        }
        while self.life.in_flight.len() < at_once {
            if !self.life.lanes.is_ready() {
                return;
            }
            if let Some(limit) = settings.rate_limit
                && !self.life.rate.pass(limit, Instant::now())
            {
                return;
            }
            let Some(entry) = self.life.lanes.next() else { return };
            self.send(entry, &settings, ctx);
        }
    }

    /// When the rate limit lets the next request start.
    pub(super) fn rate_due(&self) -> Option<Instant> {
        self.life.rate.opens.filter(|_| self.life.lanes.is_ready())
    }

    fn send(&mut self, entry: Entry, settings: &Arc<DeliverySettings>, ctx: &mut Context<Self>) {
        let sender = self.life.sender.get_or_insert_with(|| self.services.senders.open()).clone();
        self.inbox.takes_in_hand(&entry.transfer);
        #[cfg(debug_assertions)]
        super::fault::break_when_asked(&entry.transfer, ctx);
        let sequence = entry.transfer.sequence;
        let span_id = fastrand::u64(1..).to_be_bytes();
        let request = delivery::request(&entry.transfer, settings, self.now_ms(), span_id);
        let (addr, claim, client) = (ctx.address(), self.life.claim, self.client().clone());
        let (services, inbox) = (self.services.clone(), self.inbox.clone());
        let permission = match entry.is_row() {
            true => Permission::of_row(services, inbox, self.life.drain.held_lease()),
            false => Permission::of_change(services, inbox),
        };
        let on_the_wire = OnTheWire::new(&self.services.metrics.in_flight);
        let (started, settings) = (Instant::now(), settings.clone());
        let fence = self.inbox.fence().clone();
        self.life
            .in_flight
            .insert(sequence, InFlight { entry, insured: false, ends: started + settings.timeout + GRACE });
        self.life.requests.spawn_local(async move {
            // This process may be stopped between any two moments: the sender asks in the last one.
            let sent =
                async { unless(fence, sender.send(request, Rc::new(move || permission.holds()))).await };
            // A panic of the sender must not leave the lane waiting for its answer.
            let sent = AssertUnwindSafe(sent).catch_unwind().await;
            let result = sent.unwrap_or_else(|_| {
                log::error!("webhook sender panicked client={client}");
                Some(Err(SendError { reason: NoAnswer::BadAnswer, detail: "the sender panicked".to_owned() }))
            });
            drop(on_the_wire);
            addr.do_send(Answered { claim, sequence, settings, result, took: started.elapsed() });
        });
        self.inbox.puts_down();
    }

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
        let metrics = &self.services.metrics;
        metrics.request_seconds.observe(answered.took.as_secs_f64());
        match outcome {
            Outcome::Delivered => {
                metrics.deliveries.with_label_values(&["delivered", ""]).inc();
                let age_ms = (now_ms - entry.transfer.ts_ms).max(0);
                metrics.delivery_seconds.observe(age_ms as f64 / 1000.0);
                let age = Duration::from_millis(age_ms.unsigned_abs());
                self.services.meters.delivered(&self.meter, answered.took, age, now_ms);
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
                self.failed(entry, insured, failure);
            }
            Outcome::Failed(failure) => {
                metrics.deliveries.with_label_values(&["failed", &failure.reason]).inc();
                self.meter.failed(&failure.reason, now_ms);
                self.failed(entry, insured, failure);
            }
        }
    }

    /// There was no permission any more: the entry waits at its place.
    fn not_started(&mut self, entry: Entry, insured: bool) {
        if insured {
            // It has a row, which goes by the drain.
            let reason = "not_started".to_owned();
            self.keep(
                entry,
                insured,
                Failure { class: FailureClass::Endpoint, reason, status: None, retry_after: None },
            );
        } else {
            self.life.lanes.put_back(entry);
        }
    }

    fn delivered(&mut self, entry: Entry, insured: bool) {
        self.life.endpoint_failures = 0;
        self.life.refused.clear();
        self.life.probed.clear();
        if self.life.state.is_probing() {
            // The documents that this pass left out for the probe come with the next.
            self.life.drain.begin_anew();
            self.life.slow_start = 1;
        }
        // It may live, and hardly stand: with each answer one request more.
        self.life.slow_start = self.life.slow_start.saturating_add(1);
        self.happened(ClientEvent::Delivered);
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

    fn failed(&mut self, entry: Entry, insured: bool, failure: Failure) {
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
            self.leave_rows();
            self.life.drain.begin_anew();
        }
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

    /// Begins anew when a request has no end: whatever it waits for, its timeout did not help. It is to blame.
    pub(super) fn look_for_endless(&mut self) {
        let now = Instant::now();
        let mut endless = self.life.in_flight.values().filter(|request| request.ends <= now).peekable();
        if endless.peek().is_some() {
            endless.for_each(|request| self.inbox.blame(request.entry.transfer.clone()));
            self.cell.is_frozen("a request does not end");
        }
    }

    /// Gives rows to what has been unsettled for too long, so that it does not hold the commit of its partition.
    pub(super) fn insure(&mut self) {
        let Some(limit) = Instant::now().checked_sub(self.services.limits.insurance_after) else { return };
        let mut overdue: Vec<_> = self
            .life
            .in_flight
            .values_mut()
            .filter(|request| !request.entry.is_row() && !request.insured && request.entry.since <= limit)
            .map(|request| {
                request.insured = true;
                request.entry.transfer.clone()
            })
            .collect();
        overdue.sort_by_key(|transfer| transfer.sequence);
        for transfer in overdue {
            self.services.metrics.stashed.with_label_values(&["slow"]).inc();
            self.rows_wait();
            let lane = self.lane(&transfer);
            self.life.intake.note_stashed(lane);
            let after = After::Settle(transfer.sequence);
            let row = NewRow { transfer, failure: None, claim: Some(self.life.claim) };
            self.life.writes.push(StashWrite::Insert(row), after);
        }
        let queued = self.life.lanes.take_overdue(limit);
        self.entries_to_stash(queued, "slow");
    }
}

/// A request goes on until the fence is up: of one that was left behind with its thread not one byte more is sent.
async fn unless<T>(fence: Fence, request: impl Future<Output = Option<T>>) -> Option<T> {
    let mut request = std::pin::pin!(request);
    poll_fn(|task| if fence.is_up() { Poll::Ready(None) } else { request.as_mut().poll(task) }).await
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
struct Answered {
    /// The life that sent it: an answer to an earlier one is nobody's.
    claim: Claim,
    sequence: Sequence,
    /// By which it was sent.
    settings: Arc<DeliverySettings>,
    /// `None`: it was not started.
    result: Option<Result<Answer, SendError>>,
    took: Duration,
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
