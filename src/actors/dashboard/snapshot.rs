//! One look at everything, and what is kept from one to the next. Nothing here waits.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::client::{ClientView, Facts, Now, Row};
use super::gather::{DependencyView, Gathered, LagView, QueueView};
use super::window::{Latency, Rate, Window};
use crate::actors::config_cache::ConfigSnapshot;
use crate::actors::delivery_fleet::DELIVERY_KIND;
use crate::actors::meters::{ClientMeter, Meters};
use crate::domain::client_state::Phase;
use crate::domain::config::{ClientConfig, ClientId};
use crate::runtime::{ActorStatus, Life};

/// Points of the last hour.
const POINTS: usize = 360;
/// Ticks between two of them.
const POINT_TICKS: u64 = 10;
/// Ticks of which the share of successes is taken.
const SHARE_TICKS: usize = 60;
/// Actors that are given by name because something is wrong with them, at most.
const TROUBLED: usize = 20;

/// Everything as of one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Rises by one with each.
    pub number: u64,
    /// The sums.
    pub overview: Overview,
    /// All clients, by id.
    pub clients: Vec<Arc<ClientView>>,
    /// Those that are others than in the snapshot before.
    pub changed: Vec<Arc<ClientView>>,
    /// Those that are gone since then.
    pub gone: Vec<ClientId>,
    /// The last hour, the oldest first.
    pub hour: Arc<Vec<Point>>,
}

/// The sums of a snapshot.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Overview {
    /// When, milliseconds since 1970.
    pub at_ms: i64,
    /// Deliveries a second.
    pub rate: f64,
    /// Failed attempts a second.
    pub failure_rate: f64,
    /// The share of attempts that succeeded within the last minute; `None`: none was made.
    pub success_share: Option<f64>,
    /// How long webhooks took for a 2xx, within the last one to two minutes.
    pub answer_ms: Option<Latency>,
    /// How old changes were at their 2xx, within that time.
    pub age_ms: Option<Latency>,
    /// Records not committed.
    pub lag: LagView,
    /// Requests on the wire.
    pub in_flight: u64,
    /// Changes in memory that wait.
    pub queued: u64,
    /// Changes in the stash.
    pub stash: StashView,
    /// How many clients there are, and in which phase.
    pub clients: ClientsView,
    /// The actors of this process.
    pub actors: ActorsView,
    /// The queues.
    pub queues: Vec<QueueView>,
    /// The stores.
    pub dependencies: Vec<DependencyView>,
    /// The roles that no replica has; `None`: that is not known.
    pub unattended_roles: Option<Vec<&'static str>>,
    /// When the stores were asked last, milliseconds since 1970; `None`: not yet.
    pub gathered_at_ms: Option<i64>,
    /// How long they took to answer, milliseconds.
    pub gathering_ms: u64,
    /// What could not be asked, so that it is as it was.
    pub late: Vec<&'static str>,
    /// How long this snapshot took, microseconds.
    pub cost_us: u64,
    /// The last point of the hour.
    pub point: Option<Point>,
}

/// The stash.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StashView {
    /// Changes that wait.
    pub pending: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Changes that were given up.
    pub dead: u64,
    /// When the oldest that waits happened, milliseconds since 1970.
    pub oldest_ts_ms: Option<i64>,
}

/// How many clients there are.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ClientsView {
    /// All.
    pub total: usize,
    /// By phase.
    pub phases: BTreeMap<&'static str, usize>,
    /// Those that somebody should look at.
    pub problems: usize,
    /// Those that drop changes.
    pub overflows: usize,
}

/// The actors of this process.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ActorsView {
    /// All.
    pub total: usize,
    /// By kind.
    pub kinds: BTreeMap<&'static str, usize>,
    /// Those that wait for a restart.
    pub restarting: usize,
    /// Those that were given up.
    pub failed: usize,
    /// Restarts since the start.
    pub restarts: u64,
    /// Some of those that restart or failed.
    pub troubled: Vec<ActorStatus>,
}

/// What happened within ten seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// When they ended, milliseconds since 1970.
    pub at_ms: i64,
    /// Deliveries a second.
    pub rate: f32,
    /// Failed attempts a second.
    pub failure_rate: f32,
    /// The 95th percentile of the webhooks' answers, milliseconds.
    pub p95_ms: Option<f32>,
    /// The 95th percentile of the age of changes at their 2xx, milliseconds.
    pub age_p95_ms: Option<f32>,
    /// Changes in the stash.
    pub stashed: u64,
    /// Changes that are in the transfer log and not done.
    pub lag: Option<u64>,
}

/// What a snapshot is made from.
pub struct Inputs<'a> {
    /// The time of day, milliseconds since 1970.
    pub now_ms: i64,
    /// Seconds since the snapshot before.
    pub seconds: f64,
    /// The configs of all clients, and what is decided about them.
    pub configs: &'a ConfigSnapshot,
    /// What delivery actors count.
    pub meters: &'a Meters,
    /// The actors.
    pub actors: &'a [ActorStatus],
    /// Restarts since the start, of all actors that ever were.
    pub restarts: u64,
    /// What the stores answered.
    pub gathered: &'a Gathered,
    /// For how long a webhook may fail before its client is switched off.
    pub give_up: Duration,
}

/// What is kept from one snapshot to the next.
#[derive(Default)]
pub struct Memory {
    tick: u64,
    rows: BTreeMap<ClientId, Row>,
    rate: Rate,
    failure_rate: Rate,
    totals: (u64, u64),
    seconds: VecDeque<(u64, u64)>,
    answers: Window,
    ages: Window,
    hour: Arc<Vec<Point>>,
    point: (u64, u64, f64),
}

impl Memory {
    /// Looks at everything.
    pub fn look(&mut self, inputs: &Inputs<'_>) -> Snapshot {
        self.tick += 1;
        let meters = inputs.meters.list();
        let known = self.gather_facts(inputs, &meters);
        let mut snapshot = Snapshot { number: self.tick, ..Snapshot::default() };
        snapshot.clients.reserve(known.len());
        let now = Now {
            tick: self.tick,
            seconds: inputs.seconds,
            decided: inputs.configs.decided(),
            give_up: inputs.give_up,
        };
        let mut overview = Overview { at_ms: inputs.now_ms, ..Overview::default() };
        let (mut delivered, mut failed) = (0, 0);
        self.rows.retain(|client, _| {
            let stays = known.contains_key(client);
            if !stays {
                snapshot.gone.push(client.clone());
            }
            stays
        });
        for (client, facts) in &known {
            let row = self.rows.entry((*client).clone()).or_default();
            let looked = row.look(client, facts, &now);
            let Some(view) = &row.view else { continue };
            delivered += looked.delivered;
            failed += looked.failed;
            overview.add(view);
            if looked.changed {
                snapshot.changed.push(view.clone());
            }
            snapshot.clients.push(view.clone());
        }
        self.sum_up(&mut overview, inputs, delivered, failed);
        overview.actors = actors(inputs);
        snapshot.overview = overview;
        snapshot.hour = self.hour.clone();
        snapshot
    }

    /// What is known of each client, by whoever knows it.
    fn gather_facts<'a>(
        &self,
        inputs: &'a Inputs<'a>,
        meters: &'a [(ClientId, Arc<ClientMeter>)],
    ) -> BTreeMap<&'a ClientId, Facts<'a>> {
        let actors: HashMap<&str, &ActorStatus> = inputs
            .actors
            .iter()
            .filter(|actor| actor.kind == DELIVERY_KIND)
            .map(|actor| (&*actor.id, actor))
            .collect();
        let mut facts: HashMap<&ClientId, Facts<'_>> = HashMap::with_capacity(self.rows.len());
        for config in inputs.configs.configs() {
            facts.entry(&config.client).or_default().config = Some(config);
        }
        for (client, backlog) in &*inputs.gathered.backlogs {
            facts.entry(client).or_default().backlog = Some(backlog);
        }
        for (client, meter) in meters {
            // One without a config is shown while it has an actor, or something waits for it.
            let is_shown = actors.contains_key(client.as_str());
            match facts.get_mut(client) {
                Some(facts) => facts.meter = Some(meter),
                None if is_shown => {
                    facts.insert(client, Facts { meter: Some(meter), ..Facts::default() });
                }
                None => {}
            }
        }
        let is_deleted = |config: &Arc<ClientConfig>| config.deleted;
        facts.retain(|client, facts| {
            facts.stored = inputs.gathered.states.get(*client);
            facts.actor = actors.get(client.as_str()).copied();
            let waits = facts.backlog.is_some() || facts.actor.is_some();
            waits || facts.config.is_some_and(|config| !is_deleted(config))
        });
        facts.into_iter().collect()
    }

    fn sum_up(&mut self, overview: &mut Overview, inputs: &Inputs<'_>, delivered: u64, failed: u64) {
        self.totals = (self.totals.0 + delivered, self.totals.1 + failed);
        self.rate.look(self.totals.0, inputs.seconds);
        self.failure_rate.look(self.totals.1, inputs.seconds);
        if self.seconds.len() == SHARE_TICKS {
            self.seconds.pop_front();
        }
        self.seconds.push_back((delivered, failed));
        let (good, bad) = self
            .seconds
            .iter()
            .fold((0, 0), |(good, bad), (delivered, failed)| (good + delivered, bad + failed));
        overview.rate = self.rate.shown();
        overview.failure_rate = self.failure_rate.shown();
        overview.success_share = (good + bad > 0).then(|| good as f64 / (good + bad) as f64);
        overview.answer_ms = self.answers.look(self.tick, self.totals.0, || inputs.meters.answers());
        overview.age_ms = self.ages.look(self.tick, self.totals.0, || inputs.meters.ages());
        let gathered = inputs.gathered;
        overview.lag = gathered.lag.clone();
        overview.queues.clone_from(&gathered.queues);
        overview.dependencies.clone_from(&gathered.dependencies);
        overview.unattended_roles.clone_from(&gathered.unattended);
        overview.gathered_at_ms = gathered.at_ms;
        overview.gathering_ms = u64::try_from(gathered.took.as_millis()).unwrap_or(u64::MAX);
        overview.late.clone_from(&gathered.late);
        self.note_point(overview, inputs, delivered, failed);
    }

    fn note_point(&mut self, overview: &mut Overview, inputs: &Inputs<'_>, delivered: u64, failed: u64) {
        self.point = (self.point.0 + delivered, self.point.1 + failed, self.point.2 + inputs.seconds);
        if self.tick.is_multiple_of(POINT_TICKS) {
            let (delivered, failed, seconds) = std::mem::take(&mut self.point);
            let a_second = |count: u64| (count as f64 / seconds.max(0.001)) as f32;
            let mut hour = Vec::clone(&self.hour);
            if hour.len() == POINTS {
                hour.remove(0);
            }
            hour.push(Point {
                at_ms: inputs.now_ms,
                rate: a_second(delivered),
                failure_rate: a_second(failed),
                p95_ms: overview.answer_ms.map(|answers| answers.p95 as f32),
                age_p95_ms: overview.age_ms.map(|ages| ages.p95 as f32),
                stashed: overview.stash.pending,
                lag: overview.lag.transfer,
            });
            self.hour = Arc::new(hour);
        }
        overview.point = self.hour.last().cloned();
    }
}

impl Overview {
    fn add(&mut self, client: &ClientView) {
        self.in_flight += u64::from(client.in_flight);
        self.queued += u64::from(client.queued);
        self.stash.pending += client.stashed;
        self.stash.bytes += client.stashed_bytes;
        self.stash.dead += client.dead;
        let oldest = [self.stash.oldest_ts_ms, client.oldest_ts_ms];
        self.stash.oldest_ts_ms = oldest.into_iter().flatten().min();
        self.clients.total += 1;
        if self.clients.phases.is_empty() {
            let all = [Phase::Healthy, Phase::Degraded, Phase::Draining, Phase::Paused, Phase::Disabled];
            self.clients.phases = all.into_iter().map(|phase| (phase.as_str(), 0)).collect();
        }
        *self.clients.phases.entry(client.phase.as_str()).or_default() += 1;
        self.clients.problems += usize::from(client.is_problem());
        self.clients.overflows += usize::from(client.overflows);
    }
}

fn actors(inputs: &Inputs<'_>) -> ActorsView {
    let mut view =
        ActorsView { total: inputs.actors.len(), restarts: inputs.restarts, ..ActorsView::default() };
    for actor in inputs.actors {
        *view.kinds.entry(actor.kind).or_default() += 1;
        match actor.state {
            Life::Restarting => view.restarting += 1,
            Life::Failed => view.failed += 1,
            Life::Running | Life::Stopped => continue,
        }
        if view.troubled.len() < TROUBLED {
            view.troubled.push(actor.clone());
        }
    }
    view
}
