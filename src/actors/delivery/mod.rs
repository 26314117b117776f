//! `WebhookDeliveryActor`: everything that is sent to one client.
//!
//! All decisions about a client's order are made here, by one actor on one thread:
//!
//! - `client`: its config, its state, and whether rows wait.
//! - `intake`: unsettled transfers come from the inbox. One whose document has a row goes behind it into the stash, one that
//!   does not fit is spilled there; the others go into the lanes.
//! - `lanes`: one a document, one request at a time in each.
//! - `requests`: what is sent; `permission`: by what it must still be allowed as it goes out; `answers`: what its answer leads to.
//! - `quota`: how much may wait in the stash.
//! - `burial`: what waits for a client that is gone is dead.
//! - `drain`: rows of the stash come back into the lanes, oldest first.
//! - `killers`: transfers that broke this actor more than once.
//! - `attempts`: what is remembered of what was sent.
//! - `replays`: what was given up waits again, and goes by the drain.
//! - `writes`: what this actor writes to the stash, in order; a transfer is settled when its row is durable.
//!
//! A restart loses nothing: what was unsettled is taken from the inbox again, what has a row stays in the stash.

mod answers;
mod attempts;
mod burial;
mod client;
mod drain;
#[cfg(debug_assertions)]
mod fault;
mod intake;
mod killers;
mod lanes;
mod permission;
mod quota;
mod replays;
mod requests;
mod writes;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::attempts::Recent;
pub use self::attempts::RecentDeliveries;
use self::burial::Burial;
use self::drain::Drain;
use self::intake::Intake;
use self::lanes::Lanes;
use self::quota::Quota;
pub use self::quota::StashQuota;
use self::requests::{InFlight, RateGate};
use self::writes::Writes;
use super::attempts::AttemptRecorder;
use super::config_cache::ConfigTable;
use super::delivery_fleet::{DeliveryFleetActor, Retire};
use super::inbox::{Inbox, Rows};
use super::meters::{ClientMeter, Meters};
use super::operational_events::EventRecorder;
use super::stash::StashActor;
use super::windows::Windows;
use crate::domain::client_state::{ClientEvent, ClientState};
use crate::domain::config::{ClientId, DeliverySettings, Ordering};
use crate::domain::decision::Decision;
use crate::domain::guard::Destination;
use crate::domain::retry::{Pacing, RetrySchedule};
use crate::domain::stash::Claim;
use crate::domain::transfer::{DocumentHash, Sequence};
use crate::metrics::Metrics;
use crate::ports::client_states::ClientStates;
use crate::ports::clock::Clock;
use crate::ports::event_log::EventLog;
use crate::ports::stash::{Ownership, Stash};
use crate::ports::webhook_sender::{WebhookSender, WebhookSenders};
use crate::runtime::{ByteBudget, Cell};

/// The bounds of delivery.
#[derive(Debug, Clone)]
pub struct DeliveryLimits {
    /// Transfers of a client that wait in memory; what does not fit is spilled to the stash.
    pub client_records: usize,
    /// Their bytes.
    pub client_bytes: usize,
    /// A transfer that is unsettled for this long gets a row, so that a slow answer does not hold the commit.
    pub insurance_after: Duration,
    /// An actor without work goes after this time, and closes its connections.
    pub idle_after: Duration,
    /// When a payload that failed is tried again.
    pub retry: RetrySchedule,
    /// When a webhook that fails is tried again, and given up.
    pub pacing: Pacing,
    /// Failures by the payload's own fault that make it a dead letter.
    pub payload_attempts: u32,
    /// How much may wait in the stash for one client.
    pub quota: StashQuota,
}

/// What all delivery actors share.
pub struct DeliveryServices {
    /// The configs of all clients.
    pub configs: ConfigTable,
    /// Where the dead letters go that the stash does not take.
    pub log: Arc<dyn EventLog>,
    /// The stash, for reading.
    pub stash: Arc<dyn Stash>,
    /// The stash, for writing.
    pub stash_writes: Addr<StashActor>,
    /// Where the clients' states are kept.
    pub states: Arc<dyn ClientStates>,
    /// What is unsettled.
    pub windows: Arc<Windows>,
    /// Bytes of rows that drains may hold in memory, for all clients.
    pub row_memory: ByteBudget,
    /// How many partitions the transfer log has.
    pub partitions: u32,
    /// Makes the HTTP clients.
    pub senders: Arc<dyn WebhookSenders>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// The bounds.
    pub limits: DeliveryLimits,
    /// Where operational events go.
    pub events: EventRecorder,
    /// Where attempts go that are worth remembering.
    pub attempts: AttemptRecorder,
    /// Counters.
    pub metrics: Metrics,
    /// Counters of each client, for the dashboard.
    pub meters: Meters,
}

/// Sends the changes of one client.
pub struct WebhookDeliveryActor {
    cell: Cell,
    services: Arc<DeliveryServices>,
    inbox: Arc<Inbox>,
    meter: Arc<ClientMeter>,
    fleet: Addr<DeliveryFleetActor>,
    /// Outlives a restart.
    recent: Recent,
    life: Life,
}

/// Everything that a restart begins anew.
struct Life {
    /// Marks the rows, and the answers, of this life.
    claim: Claim,
    /// What an earlier life had asked to be written is written: nothing is sent before.
    loaded: bool,
    target: Target,
    state: ClientState,
    /// Whether the state in the store is older than `state`.
    state_unsaved: bool,
    saving_state: bool,
    rows: Rows,
    /// By which the lanes are made now; another one in the config counts when nothing is under way any more.
    ordering: Ordering,
    intake: Intake,
    lanes: Lanes,
    in_flight: HashMap<Sequence, InFlight>,
    /// The requests on the wire; dropping them ends them.
    requests: JoinSet<()>,
    sender: Option<Rc<dyn WebhookSender>>,
    /// Something is ready to be sent, and there is no permission.
    not_allowed: bool,
    rate: RateGate,
    /// Requests at once, at most: few after the webhook came back.
    slow_start: usize,
    /// Somebody asked to see it tried, and no answer has come since.
    try_asked: bool,
    /// Endpoint failures since the last success.
    endpoint_failures: u32,
    /// Documents that were answered 401, 403 or 404 since the last success.
    refused: HashSet<DocumentHash>,
    /// Documents that went first after failures, since the last success: another one is tried next, for it may be these alone
    /// that fail.
    probed: HashSet<DocumentHash>,
    quota: Quota,
    burial: Burial,
    drain: Drain,
    writes: Writes,
    timer: Option<Instant>,
    idle_since: Option<Instant>,
    published: Option<Instant>,
    quiescing: Vec<oneshot::Sender<()>>,
    stopping: bool,
}

/// Where the client's changes go.
#[derive(Debug, Clone, PartialEq)]
enum Target {
    /// Not looked up yet.
    Unknown,
    Webhook(Arc<DeliverySettings>),
    /// ACTIVE, but its value cannot be used: changes wait.
    Unusable(String),
    /// Its owner is blocked: changes wait.
    Blocked(String),
    /// Changes that are in the log already wait.
    Inactive,
    /// No config, or a deleted one: what waits is dead.
    Gone,
}

impl Target {
    fn of(destination: Destination<'_>) -> Self {
        match destination {
            Destination::Webhook(settings) => Self::Webhook(settings.clone()),
            Destination::Unusable(fault) => Self::Unusable(fault.to_string()),
            Destination::Blocked(decision) => Self::Blocked(why_blocked(decision)),
            Destination::Inactive => Self::Inactive,
            Destination::Gone => Self::Gone,
        }
    }
}

fn why_blocked(decision: &Decision) -> String {
    let reason = match decision.reason() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    format!("its owner is blocked by {}{reason}", decision.by())
}

/// Every life of every delivery actor, of every replica, has its own claim.
fn next_claim() -> Claim {
    // Stores keep it as a signed number.
    Claim(fastrand::u64(..) >> 1)
}

impl Life {
    fn new(now_ms: i64) -> Self {
        Self {
            claim: next_claim(),
            loaded: false,
            target: Target::Unknown,
            state: ClientState::new(now_ms),
            state_unsaved: false,
            saving_state: false,
            rows: Rows::default(),
            ordering: Ordering::Document,
            intake: Intake::default(),
            lanes: Lanes::default(),
            in_flight: HashMap::new(),
            requests: JoinSet::new(),
            sender: None,
            not_allowed: false,
            rate: RateGate::default(),
            slow_start: usize::MAX,
            try_asked: false,
            endpoint_failures: 0,
            refused: HashSet::new(),
            probed: HashSet::new(),
            quota: Quota::default(),
            burial: Burial::default(),
            drain: Drain::default(),
            writes: Writes::default(),
            timer: None,
            idle_since: None,
            published: None,
            quiescing: Vec::new(),
            stopping: false,
        }
    }
}

impl WebhookDeliveryActor {
    /// The actor of the client of `inbox`.
    pub fn new(
        cell: Cell,
        services: Arc<DeliveryServices>,
        inbox: Arc<Inbox>,
        fleet: Addr<DeliveryFleetActor>,
    ) -> Self {
        let life = Life::new(services.clock.now_ms());
        let meter = services.meters.of(inbox.client());
        cell.counts_waiting({
            let meter = meter.clone();
            move || meter.queued().into()
        });
        Self { cell, services, inbox, meter, fleet, recent: Recent::default(), life }
    }

    /// By which right everything here is done.
    fn ownership(&self) -> Ownership {
        self.inbox.ownership()
    }

    fn client(&self) -> &ClientId {
        self.inbox.client()
    }

    fn now_ms(&self) -> i64 {
        self.services.clock.now_ms()
    }

    /// Does all that can be done now. Every handler ends here; it may be called at any time.
    fn pump(&mut self, ctx: &mut Context<Self>) {
        if self.inbox.fence().is_up() {
            return; // left behind with its thread: another has taken its place
        }
        if self.life.loaded {
            self.look_at_config(ctx);
            self.adopt_ordering();
            self.look_at_quota(ctx);
            self.look_for_resync(ctx);
            self.take_in(ctx);
            self.dispatch(ctx);
            self.drain(ctx);
        }
        // What followed at once may have made room for more, and that writes again.
        while self.write(ctx) && self.life.loaded {
            self.take_in(ctx);
            self.dispatch(ctx);
        }
        self.save_state(ctx);
        self.answer_quiesce(ctx);
        self.arm_timer(ctx);
        self.publish();
    }

    /// Wakes this actor when the next thing is due.
    fn arm_timer(&mut self, ctx: &mut Context<Self>) {
        let now = Instant::now();
        let quarter = self.services.limits.insurance_after / 4;
        let unsettled = self.life.lanes.live().records > 0 || !self.life.in_flight.is_empty();
        let idle = !unsettled && self.inbox.is_empty() && self.life.writes.is_idle();
        self.life.idle_since = if idle { self.life.idle_since.or(Some(now)) } else { None };
        let due = [
            unsettled.then(|| now + quarter),
            self.drain_due(now),
            self.rate_due(),
            self.quota_due(now),
            self.life.not_allowed.then(|| now + permission::ASK_AGAIN),
            self.life.idle_since.map(|since| since + self.services.limits.idle_after),
        ];
        let Some(due) = due.into_iter().flatten().min() else { return };
        let due = due.max(now + Duration::from_millis(1));
        if self.life.timer.is_some_and(|armed| now < armed && armed <= due) {
            return;
        }
        // A timer that an earlier one made needless is left to fire: it finds nothing to do. (Cancelling is a trap, see `runtime`.)
        self.life.timer = Some(due);
        ctx.run_later(due - now, |actor, ctx| {
            actor.cell.tick();
            actor.look_for_endless();
            actor.insure();
            actor.retire_when_idle();
            actor.pump(ctx);
        });
    }

    fn retire_when_idle(&mut self) {
        let idle =
            self.life.idle_since.is_some_and(|since| since.elapsed() >= self.services.limits.idle_after);
        let waits = self.life.rows.pending && matches!(self.life.target, Target::Webhook(_));
        if idle && self.life.loaded && !waits && !self.life.stopping && !self.life.saving_state {
            self.fleet.do_send(Retire(self.inbox.clone()));
        }
        if idle {
            // Asked again after as long a time, not with every tick until the fleet has got to it.
            self.life.idle_since = None;
        }
    }

    fn publish(&mut self) {
        const EVERY: Duration = Duration::from_millis(500);
        let queued = self.life.lanes.live().records + self.life.lanes.rows().records;
        self.meter.holds(self.life.in_flight.len(), queued, self.inbox.oldest_ts_ms());
        if self.life.published.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        self.life.published = Some(Instant::now());
        let Life { state, in_flight, rows, .. } = &self.life;
        self.cell.publish(serde_json::json!({
            "state": state,
            "in_flight": in_flight.len(),
            "queued": queued,
            "rows_waiting": rows.pending,
        }));
    }

    /// When nothing is on the wire and everything is written, the drain lease is given back, and whoever waits is told.
    fn answer_quiesce(&mut self, ctx: &mut Context<Self>) {
        let busy =
            !self.life.in_flight.is_empty() || !self.life.writes.is_idle() || self.life.drain.is_asking();
        if !busy && !self.life.quiescing.is_empty() {
            let waiting = std::mem::take(&mut self.life.quiescing);
            let released = self.release_lease();
            let answer = async move {
                released.await;
                for waiting in waiting {
                    let _ = waiting.send(());
                }
            };
            ctx.spawn(answer.into_actor(self));
        }
    }
}

impl Actor for WebhookDeliveryActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.inbox.kicked();
        // Of a partition that is not ours nothing is sent; the fleet ends this actor.
        if self.services.windows.holds(self.ownership()) {
            self.load(ctx);
            self.arm_timer(ctx);
        }
    }
}

impl Supervised for WebhookDeliveryActor {
    fn restarting(&mut self, _: &mut Self::Context) {
        // Requests of the old life end here, before the new one sends the same changes again.
        let stopping = self.life.stopping;
        self.life = Life { stopping, ..Life::new(self.services.clock.now_ms()) };
        self.inbox.give_back();
    }
}

/// There is something in the inbox, the config changed, or the partition was committed further.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Wake;

impl Handler<Wake> for WebhookDeliveryActor {
    type Result = ();

    fn handle(&mut self, _: Wake, ctx: &mut Self::Context) {
        self.cell.handling("Wake");
        self.inbox.kicked();
        self.drain_after_commit();
        self.pump(ctx);
    }
}

/// Somebody wants to see it tried, whatever its schedule says.
#[derive(Message)]
#[rtype(result = "()")]
pub struct TryNow;

impl Handler<TryNow> for WebhookDeliveryActor {
    type Result = ();

    fn handle(&mut self, _: TryNow, ctx: &mut Self::Context) {
        self.cell.handling("TryNow");
        self.happened(ClientEvent::TryNow);
        self.life.try_asked = true;
        // A pass that runs goes on; what it left out, for its time has not come, goes with the next.
        self.life.drain.all_at_once();
        self.pump(ctx);
    }
}

/// No new requests. Answered when nothing is on the wire and every stash write is done.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Quiesce;

impl Handler<Quiesce> for WebhookDeliveryActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Quiesce, ctx: &mut Self::Context) -> Self::Result {
        self.cell.handling("Quiesce");
        let (done, quiet) = oneshot::channel();
        self.life.stopping = true;
        self.life.quiescing.push(done);
        self.pump(ctx);
        Box::pin(async move {
            // Dropped by a restart: then nothing is on the wire either.
            let _ = quiet.await;
        })
    }
}
