//! Requests: what goes on the wire, and what becomes of it while no answer comes.

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

use super::answers::Answered;
use super::drain::Lease;
use super::lanes::Entry;
use super::permission::Permission;
use super::writes::After;
use super::{Target, WebhookDeliveryActor};
use crate::actors::inbox::Fence;
use crate::domain::config::{DeliverySettings, RateLimit};
use crate::domain::delivery::{self, NoAnswer};
use crate::domain::stash::{NewRow, StashWrite};
use crate::domain::transfer::DocumentHash;
use crate::ports::webhook_sender::SendError;

/// How much longer than its timeout a request may take until its end is known here.
const GRACE: Duration = Duration::from_secs(3);

/// A request on the wire.
pub(super) struct InFlight {
    pub(super) entry: Entry,
    /// It has a row, claimed by this life: it is settled, or will be when the row is durable.
    pub(super) insured: bool,
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
