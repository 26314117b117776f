//! What is shown of a client.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use super::part::ClientPart;
use super::seen::{Numbers, Seen};
use super::window::{Latency, Rate, Window};
use crate::actors::meters::{ClientMeter, LastError};
use crate::domain::client_state::{ClientState, Phase};
use crate::domain::config::{ClientConfig, ClientId};
use crate::domain::guard::{Decided, Destination};
use crate::domain::replica::ReplicaName;
use crate::domain::stash::Backlog;
use crate::runtime::{ActorStatus, ExitReason, Life};

/// Minutes of which is remembered what was delivered.
const MINUTES: usize = 60;
/// For how long an actor that broke is worth a look.
const LATELY: Duration = Duration::from_secs(300);

/// A client, as the dashboard shows it. Holds no secret: of the webhook only the host.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ClientView {
    /// Who.
    #[schema(value_type = String)]
    pub client: ClientId,
    /// What its delivery is doing.
    #[schema(value_type = String)]
    pub phase: Phase,
    /// Since when, milliseconds since 1970; `None`: it was not served since anybody knows.
    pub since_ms: Option<i64>,
    /// Why.
    pub reason: String,
    /// When its webhook is tried again, milliseconds since 1970.
    pub next_attempt_at_ms: Option<i64>,
    /// When it is switched off if nothing succeeds before, milliseconds since 1970.
    pub disable_at_ms: Option<i64>,
    /// The host of its webhook.
    #[schema(value_type = Option<String>)]
    pub webhook: Option<Arc<str>>,
    /// Who owns it.
    pub owner: Option<String>,
    /// Whether its config is ACTIVE.
    pub active: bool,
    /// Whether its owner is blocked.
    pub blocked: bool,
    /// The replica that serves it, or served it last; `None`: none does, as far as is seen here.
    #[schema(value_type = Option<String>)]
    pub replica: Option<ReplicaName>,
    /// Since when, milliseconds since 1970, by the clock of that replica.
    #[serde(skip)]
    pub served_since_ms: Option<i64>,
    /// Where its delivery actor is in its life; `None`: it rests, or a replica serves it that is not seen here.
    pub actor: Option<Life>,
    /// Restarts of that actor, and of those before it.
    pub restarts: u64,
    /// Whether it broke within the last five minutes.
    pub broke_lately: bool,
    /// Whether it failed when it was switched off: by its own 410, by this service, or by somebody.
    pub switched_off: bool,
    /// Requests on the wire.
    pub in_flight: u32,
    /// Changes that wait in memory.
    pub queued: u32,
    /// Changes that wait in the stash.
    pub stashed: u64,
    /// Their bytes.
    pub stashed_bytes: u64,
    /// Changes that were given up.
    pub dead: u64,
    /// When the oldest change that waits, in the stash or in memory, happened, milliseconds since 1970.
    pub oldest_ts_ms: Option<i64>,
    /// The same of the stash alone.
    #[serde(skip)]
    pub stash_oldest_ts_ms: Option<i64>,
    /// Whether changes are dropped because too much waits.
    pub overflows: bool,
    /// How many were.
    pub dropped: u64,
    /// Deliveries a second.
    pub rate: f64,
    /// Failed attempts a second.
    pub failure_rate: f64,
    /// Deliveries since the start of the replica.
    pub delivered: u64,
    /// Failed attempts since then.
    pub failed: u64,
    /// How long its webhook took for the 2xx of the last one to two minutes.
    pub latency: Option<Latency>,
    /// The last success, milliseconds since 1970.
    pub last_success_ms: Option<i64>,
    /// The last attempt that failed.
    #[schema(value_type = Option<LastError>)]
    pub last_error: Option<Arc<LastError>>,
    /// Deliveries and failed attempts of each whole minute of the last hour, the oldest first; as long as it was served.
    #[serde(skip)]
    #[schema(value_type = Vec<u32>)]
    pub minutes: Arc<Vec<(u32, u32)>>,
    /// The same of the minute that runs.
    #[serde(skip)]
    #[schema(value_type = Vec<u32>)]
    pub minute: (u32, u32),
}

impl ClientView {
    /// Whether somebody should look at it. What waits is being drained or was stopped on purpose, which is as it should be.
    pub fn is_problem(&self) -> bool {
        self.severity() > 2
    }

    /// Deliveries and failed attempts of each minute of the last hour, the one that runs included; empty when nothing happened.
    pub fn minutes_so_far(&self) -> Vec<(u32, u32)> {
        if self.minutes.is_empty() && self.minute == (0, 0) {
            return Vec::new();
        }
        self.minutes.iter().copied().chain([self.minute]).collect()
    }

    /// How much it needs to be looked at: the order of the list.
    pub fn severity(&self) -> u8 {
        match (self.phase, self.actor) {
            (_, Some(Life::Failed)) => 7,
            _ if self.overflows => 6,
            (Phase::Degraded, _) => 5,
            (_, Some(Life::Restarting)) => 4,
            // Its config is ACTIVE, and yet it gets nothing; or it gets nothing any more because nothing arrived.
            (Phase::Disabled, _) if self.active || self.switched_off => 4,
            _ if self.broke_lately => 3,
            (Phase::Draining, _) => 2,
            (Phase::Paused | Phase::Disabled, _) => 1,
            (Phase::Healthy, _) => 0,
        }
    }
}

/// What another replica says of a client.
#[derive(Debug, Clone)]
pub(super) struct Elsewhere {
    pub(super) replica: ReplicaName,
    pub(super) part: Arc<ClientPart>,
}

/// Who is right about a client: one who serves it rather than one who did, then who began last.
pub(super) type Rank = (bool, i64);

impl Elsewhere {
    pub(super) fn rank(&self) -> Rank {
        (self.part.is_served(), self.part.served_since_ms)
    }

    /// What it says, over what is known everywhere.
    fn lay_over(&self, view: ClientView) -> ClientView {
        let part = &*self.part;
        let mut view = ClientView {
            replica: Some(self.replica.clone()),
            served_since_ms: Some(part.served_since_ms),
            actor: part.actor,
            restarts: part.restarts,
            broke_lately: part.broke_lately,
            in_flight: part.in_flight,
            queued: part.queued,
            oldest_ts_ms: earlier(view.stash_oldest_ts_ms, part.oldest_ts_ms),
            rate: part.rate,
            failure_rate: part.failure_rate,
            delivered: part.delivered,
            failed: part.failed,
            latency: part.latency,
            last_success_ms: part.last_success_ms.max(view.last_success_ms),
            last_error: part.last_error.clone().or(view.last_error),
            ..view
        };
        if part.is_served() {
            view.phase = part.phase;
            view.since_ms = part.since_ms;
            view.reason.clone_from(&part.reason);
            view.next_attempt_at_ms = part.next_attempt_at_ms;
            view.disable_at_ms = part.disable_at_ms;
            view.overflows = part.overflows;
            view.dropped = part.dropped;
        }
        view
    }
}

/// What is known of a client at one moment, from whoever knows it.
#[derive(Default)]
pub(super) struct Facts<'a> {
    pub(super) is_shown: bool,
    pub(super) config: Option<&'a Arc<ClientConfig>>,
    /// What its actor counts here; known by the row itself.
    pub(super) meter: Option<&'a ClientMeter>,
    pub(super) actor: Option<ActorFacts>,
    /// The history of the last one, where there is none now.
    pub(super) retired: Option<ActorFacts>,
    pub(super) stored: Option<&'a ClientState>,
    pub(super) backlog: Option<&'a Backlog>,
    pub(super) elsewhere: Option<&'a Elsewhere>,
}

/// What is known of its delivery actor.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct ActorFacts {
    state: Life,
    restarts: u64,
    broke_lately: bool,
}

impl ActorFacts {
    /// One that runs and never broke.
    pub(super) const WELL: Self = Self { state: Life::Running, restarts: 0, broke_lately: false };

    /// Lives that ended because somebody wished it do not count.
    pub(super) fn of(actor: &ActorStatus) -> Self {
        let broke_lately = actor
            .last_cause
            .as_ref()
            .is_some_and(|cause| cause.reason != ExitReason::Asked && cause.seconds_ago < LATELY.as_secs());
        Self { state: actor.state, restarts: actor.restarts, broke_lately }
    }
}

/// The moment.
pub(super) struct Now<'a> {
    pub(super) here: &'a ReplicaName,
    pub(super) tick: u64,
    pub(super) now_ms: i64,
    pub(super) seconds: f64,
    pub(super) decided: &'a Decided,
    /// It was so when it was looked at last.
    pub(super) is_same_decided: bool,
    pub(super) give_up: Duration,
}

/// What the dashboard keeps of a client from one look to the next.
#[derive(Default)]
pub(super) struct Row {
    pub(super) delivered: Rate,
    pub(super) failed: Rate,
    window: Window,
    config: Option<Arc<ClientConfig>>,
    /// What its actor counts here.
    meter: Option<Arc<ClientMeter>>,
    webhook: Option<Arc<str>>,
    pub(super) minute: (u32, u32),
    pub(super) minutes: Arc<Vec<(u32, u32)>>,
    /// Of this replica; `None`: it has not served it.
    pub(super) rank: Option<Rank>,
    /// Who counted how much when it was looked at last.
    counted: Option<(ReplicaName, u64, u64)>,
    pub(super) view: Option<Arc<ClientView>>,
    /// From what it was made.
    seen: Option<Seen>,
}

/// What a look found.
pub(super) struct Looked {
    pub(super) delivered: u64,
    pub(super) failed: u64,
}

impl Row {
    /// This counts what its actor does.
    pub(super) fn counts(&mut self, meter: &Arc<ClientMeter>) {
        if self.meter.as_ref().is_none_or(|known| !Arc::ptr_eq(known, meter)) {
            self.meter = Some(meter.clone());
        }
    }

    pub(super) fn look(&mut self, client: &ClientId, facts: &Facts<'_>, now: &Now<'_>) -> Looked {
        let meter = self.meter.take();
        let looked = self.look_at(client, &Facts { meter: meter.as_deref(), ..*facts }, now);
        self.meter = meter;
        looked
    }

    fn look_at(&mut self, client: &ClientId, facts: &Facts<'_>, now: &Now<'_>) -> Looked {
        self.rank(facts, now);
        let elsewhere = facts.elsewhere.filter(|other| Some(other.rank()) > self.rank);
        let (delivered, failed) = facts.meter.map_or((0, 0), |meter| (meter.delivered(), meter.failures()));
        let new_delivered = self.delivered.look(delivered, now.seconds);
        let new_failed = self.failed.look(failed, now.seconds);
        match elsewhere {
            None => self.count_minute(now.tick, new_delivered, new_failed),
            Some(Elsewhere { replica, part }) => self.count_elsewhere(now.tick, replica, part),
        }
        let latency = facts.meter.and_then(|meter| self.window.look(now.tick, delivered, || meter.answers()));
        let is_same_config = self.read_config(facts.config);
        let numbers = Numbers::of(facts, latency, self);
        let is_seen = |seen: &Seen| seen.numbers == numbers && seen.stored.as_ref() == facts.stored;
        if is_same_config
            && now.is_same_decided
            && elsewhere.is_none()
            && self.seen.as_ref().is_some_and(is_seen)
        {
            return Looked { delivered: new_delivered, failed: new_failed };
        }
        self.seen = elsewhere.is_none().then(|| Seen { numbers, stored: facts.stored.cloned() });
        let view = match elsewhere {
            None => self.view(client, facts, now, latency),
            Some(other) => {
                let known = Facts { meter: None, actor: None, elsewhere: None, ..*facts };
                other.lay_over(self.view(client, &known, now, None))
            }
        };
        if self.view.as_deref() != Some(&view) {
            self.view = Some(Arc::new(view));
        }
        Looked { delivered: new_delivered, failed: new_failed }
    }

    /// Since when this replica has served it.
    fn rank(&mut self, facts: &Facts<'_>, now: &Now<'_>) {
        let is_served = facts.actor.is_some_and(|actor| actor.state != Life::Stopped);
        self.rank = match (self.rank, is_served) {
            (None, false) => None,
            (Some((true, since_ms)), true) => Some((true, since_ms)),
            (Some((_, since_ms)), false) => Some((false, since_ms)),
            (_, true) => Some((true, now.now_ms)),
        };
    }

    /// What was counted there since it was looked at last. What one had counted before it was heard of is no news.
    fn count_elsewhere(&mut self, tick: u64, replica: &ReplicaName, part: &ClientPart) {
        let since = match &self.counted {
            Some((known, delivered, failed)) if known == replica => {
                (part.delivered.saturating_sub(*delivered), part.failed.saturating_sub(*failed))
            }
            _ => (0, 0),
        };
        self.counted = Some((replica.clone(), part.delivered, part.failed));
        self.count_minute(tick, since.0, since.1);
    }

    fn count_minute(&mut self, tick: u64, delivered: u64, failed: u64) {
        let add = |count: u32, more: u64| count.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        self.minute = (add(self.minute.0, delivered), add(self.minute.1, failed));
        if tick.is_multiple_of(60) && (self.minute != (0, 0) || !self.minutes.is_empty()) {
            let mut minutes: VecDeque<_> = Vec::clone(&self.minutes).into();
            if minutes.len() == MINUTES {
                minutes.pop_front();
            }
            minutes.push_back(std::mem::take(&mut self.minute));
            let silent = minutes.iter().all(|minute| *minute == (0, 0));
            self.minutes = Arc::new(if silent { Vec::new() } else { minutes.into() });
        }
    }

    /// Returns whether it is as it was.
    fn read_config(&mut self, config: Option<&Arc<ClientConfig>>) -> bool {
        let same = match (&self.config, config) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        if !same {
            self.config = config.cloned();
            let settings = config.and_then(|config| config.delivery.as_ref().ok());
            self.webhook = settings.and_then(|settings| {
                let (url, host) = (&settings.webhook, settings.webhook.host_str()?);
                let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
                Some(format!("{}://{host}{port}", url.scheme()).into())
            });
        }
        same
    }

    fn view(
        &self,
        client: &ClientId,
        facts: &Facts<'_>,
        now: &Now<'_>,
        latency: Option<Latency>,
    ) -> ClientView {
        let told = facts.meter.and_then(ClientMeter::state);
        let is_served = facts.actor.is_some_and(|actor| !actor.state.is_over());
        // What its actor says; else what was stored last, by whichever replica; else what it said here before it went.
        let state = match is_served {
            true => told.as_deref().or(facts.stored),
            false => facts.stored.or(told.as_deref()),
        };
        let subscriber = facts.config.map(|config| now.decided.judge(config));
        let (mut phase, mut reason) = match state {
            Some(state) => (state.phase, state.reason.clone()),
            None => (Phase::Healthy, String::new()),
        };
        if !is_served {
            // The config may have changed since.
            if let Some((found, why)) = subscriber.as_ref().map_or_else(no_config, by_config) {
                if phase != found {
                    reason = why;
                }
                phase = found;
            }
        }
        let backlog = facts.backlog.cloned().unwrap_or_default();
        let failing_since = state.and_then(|state| state.failing_since_ms);
        let give_up = i64::try_from(now.give_up.as_millis()).unwrap_or(i64::MAX);
        let is_stopped = matches!(phase, Phase::Paused | Phase::Disabled);
        ClientView {
            client: client.clone(),
            phase,
            since_ms: state.filter(|state| state.phase == phase).map(|state| state.since_ms),
            reason,
            next_attempt_at_ms: state.and_then(|state| state.next_attempt_at_ms).filter(|_| !is_stopped),
            disable_at_ms: failing_since.filter(|_| !is_stopped).map(|since| since.saturating_add(give_up)),
            webhook: self.webhook.clone(),
            owner: facts.config.and_then(|config| config.owner.clone()),
            active: facts.config.is_some_and(|config| config.is_active()),
            blocked: subscriber.as_ref().is_some_and(|subscriber| subscriber.blocked().is_some()),
            replica: self.rank.map(|_| now.here.clone()),
            served_since_ms: self.rank.map(|(_, since_ms)| since_ms),
            actor: facts.actor.map(|actor| actor.state),
            restarts: facts.actor.or(facts.retired).map_or(0, |actor| actor.restarts),
            broke_lately: facts.actor.or(facts.retired).is_some_and(|actor| actor.broke_lately),
            switched_off: phase == Phase::Disabled
                && failing_since.is_some()
                && facts.config.is_some_and(|config| !config.is_active() && !config.deleted),
            in_flight: facts.meter.filter(|_| is_served).map_or(0, ClientMeter::in_flight),
            queued: facts.meter.filter(|_| is_served).map_or(0, ClientMeter::queued),
            stashed: backlog.pending,
            stashed_bytes: backlog.pending_bytes,
            dead: backlog.dead,
            oldest_ts_ms: earlier(
                backlog.oldest_ts_ms,
                facts.meter.filter(|_| is_served).and_then(ClientMeter::oldest_ts_ms),
            ),
            stash_oldest_ts_ms: backlog.oldest_ts_ms,
            overflows: state.is_some_and(|state| state.overflows),
            dropped: state.map_or(0, ClientState::missing),
            rate: self.delivered.shown(),
            failure_rate: self.failed.shown(),
            delivered: facts.meter.map_or(0, ClientMeter::delivered),
            failed: facts.meter.map_or(0, ClientMeter::failures),
            latency,
            last_success_ms: facts
                .meter
                .and_then(ClientMeter::last_success_ms)
                .or_else(|| facts.stored.and_then(|state| state.last_success_ms)),
            last_error: facts.meter.and_then(ClientMeter::last_error).or_else(|| stored_error(facts.stored)),
            minutes: self.minutes.clone(),
            minute: self.minute,
        }
    }
}

fn earlier(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    [one, other].into_iter().flatten().min()
}

fn stored_error(stored: Option<&ClientState>) -> Option<Arc<LastError>> {
    let (reason, at_ms) = (stored?.last_failure.clone()?, stored?.last_failure_ms?);
    Some(Arc::new(LastError { at_ms, reason }))
}

fn no_config() -> Option<(Phase, String)> {
    Some((Phase::Disabled, "it has no config".to_owned()))
}

/// What a config makes of a client that nobody serves; `None`: nothing of its own.
fn by_config(subscriber: &crate::domain::guard::Subscriber) -> Option<(Phase, String)> {
    if let Some(decision) = subscriber.paused() {
        return Some((Phase::Paused, format!("paused by {}", decision.by())));
    }
    let why = match subscriber.destination() {
        Destination::Webhook(_) => return None,
        Destination::Blocked(decision) => format!("its owner is blocked by {}", decision.by()),
        Destination::Unusable(fault) => fault.to_string(),
        Destination::Inactive => "config is not active".to_owned(),
        Destination::Gone => "config is deleted".to_owned(),
    };
    Some((Phase::Disabled, why))
}
