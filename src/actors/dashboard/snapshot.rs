//! One look at everything, and what is kept from one to the next. Nothing here waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::client::{ClientView, Now};
use super::gather::Gathered;
use super::others::Others;
use super::overview::{ActorsView, Overview, Point};
use super::part::{About, MOST_CLIENTS, Sums, cut};
use super::replicas::{ActorReport, ReplicaView, UnreadReplica, sum_up};
use super::rows::{Actors, Rows};
use super::window::{Rate, Window};
use crate::actors::config_cache::ConfigSnapshot;
use crate::actors::meters::{Counts, Meters};
use crate::domain::guard::Decided;
use crate::domain::replica::ReplicaName;
use crate::runtime::{Life, Registry};

/// Points of the last hour.
pub(super) const POINTS: usize = 360;
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
    /// All clients, by id. One that is as it was in the snapshot before is the same one.
    pub clients: Vec<Arc<ClientView>>,
    /// The last hour, the oldest first.
    pub hour: Arc<Vec<Point>>,
    /// The actors that other replicas tell of by name.
    pub other_actors: Arc<Vec<ActorReport>>,
    /// What this replica alone knows.
    pub(super) own: Sums,
}

impl Snapshot {
    /// One client.
    pub fn client(&self, id: &str) -> Option<&Arc<ClientView>> {
        let found = self.clients.binary_search_by(|client| client.client.as_str().cmp(id));
        found.ok().and_then(|place| self.clients.get(place))
    }

    /// So much work it was.
    pub(super) fn is_made_in(&mut self, time: Duration) {
        let cost_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        (self.overview.cost_us, self.own.cost_us) = (cost_us, cost_us);
        if let Some(here) = self.overview.replicas.first_mut() {
            here.cost_us = cost_us;
        }
    }
}

/// What a snapshot is made from.
pub struct Inputs<'a> {
    /// The name of this replica.
    pub here: &'a ReplicaName,
    /// What it is.
    pub about: About,
    /// What the others have told.
    pub others: &'a Others,
    /// The time of day, milliseconds since 1970.
    pub now_ms: i64,
    /// Seconds since the snapshot before.
    pub seconds: f64,
    /// The configs of all clients, and what is decided about them.
    pub configs: &'a ConfigSnapshot,
    /// What delivery actors count.
    pub meters: &'a Meters,
    /// The actors.
    pub registry: &'a Registry,
    /// What the stores answered.
    pub gathered: &'a Gathered,
    /// For how long a webhook may fail before its client is switched off.
    pub give_up: Duration,
}

/// What is kept from one snapshot to the next.
#[derive(Default)]
pub struct Memory {
    tick: u64,
    rows: Rows,
    /// What was decided when it was looked at last.
    decided: Option<Decided>,
    rate: Rate,
    failure_rate: Rate,
    /// Deliveries and failed attempts here, and everywhere.
    own_totals: (u64, u64),
    totals: (u64, u64),
    seconds: VecDeque<(u64, u64)>,
    answers: Window,
    ages: Window,
    hour: Arc<Vec<Point>>,
    point: (u64, u64, f64),
    /// The hour of another was taken over.
    is_taken_over: bool,
}

impl Memory {
    /// Looks at everything.
    pub fn look(&mut self, inputs: &Inputs<'_>) -> Snapshot {
        self.tick += 1;
        let (known, told) = self.rows.gather(inputs);
        let mut snapshot = Snapshot { number: self.tick, ..Snapshot::default() };
        let now = Now {
            here: inputs.here,
            tick: self.tick,
            now_ms: inputs.now_ms,
            seconds: inputs.seconds,
            decided: inputs.configs.decided(),
            is_same_decided: self.decided.replace(inputs.configs.decided().clone()).as_ref()
                == Some(inputs.configs.decided()),
            give_up: inputs.give_up,
        };
        let mut overview = Overview { at_ms: inputs.now_ms, ..Overview::default() };
        snapshot.own = own(inputs, &told);
        overview.replicas = inputs.others.views(Instant::now());
        overview.replicas.insert(0, ReplicaView::here(inputs.here.clone(), &snapshot.own));
        let (mut delivered, mut failed) = (0, 0);
        for (client, row, facts) in self.rows.iter_mut(&known) {
            if !facts.is_shown {
                continue;
            }
            let looked = row.look(client, facts, &now);
            let Some(view) = &row.view else { continue };
            delivered += looked.delivered;
            failed += looked.failed;
            overview.add(view);
            snapshot.clients.push(view.clone());
        }
        if self.rows.settle(&known) {
            snapshot.clients.sort_by(|one, other| one.client.cmp(&other.client));
        }
        self.own_totals = (self.own_totals.0 + delivered, self.own_totals.1 + failed);
        (snapshot.own.delivered, snapshot.own.failed) = self.own_totals;
        overview.replicas.iter_mut().for_each(ReplicaView::round);
        self.sum_up(&mut overview, inputs);
        let other_actors = inputs.others.actors();
        overview.actors = actors(inputs, &snapshot.own, &other_actors);
        snapshot.other_actors = Arc::new(other_actors);
        snapshot.own.left_out = overview.replicas[0].clients.saturating_sub(MOST_CLIENTS);
        snapshot.overview = overview;
        snapshot.hour = self.hour.clone();
        snapshot
    }

    fn sum_up(&mut self, overview: &mut Overview, inputs: &Inputs<'_>) {
        let (here, elsewhere) = (self.own_totals, inputs.others.totals());
        let totals = (here.0.saturating_add(elsewhere.0), here.1.saturating_add(elsewhere.1));
        let (delivered, failed) =
            (totals.0.saturating_sub(self.totals.0), totals.1.saturating_sub(self.totals.1));
        self.totals = totals;
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
        let others = inputs.others;
        overview.answer_ms =
            self.answers.look(self.tick, self.totals.0, || sum(inputs.meters.answers(), others.answers()));
        overview.age_ms =
            self.ages.look(self.tick, self.totals.0, || sum(inputs.meters.ages(), others.ages()));
        overview.others_unseen = others.unseen().map(str::to_owned);
        let unread = others.unread();
        overview.unread_replicas =
            unread.map(|(name, why)| UnreadReplica { name: name.clone(), why: why.to_string() }).collect();
        let gathered = inputs.gathered;
        overview.lag = gathered.lag.clone();
        others.sums().for_each(|(_, sums)| overview.lag.add(&sums.lag));
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
            self.take_over(&mut hour, inputs.others.hour());
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
                lag: overview.lag.records(),
            });
            self.hour = Arc::new(hour);
        }
        overview.point = self.hour.last().cloned();
    }

    /// What happened before this replica started, as another tells it.
    fn take_over(&mut self, hour: &mut Vec<Point>, told: Option<&[Point]>) {
        let first_ms = hour.first().map_or(i64::MAX, |point| point.at_ms);
        let room = POINTS - hour.len();
        let (false, Some(told)) = (std::mem::replace(&mut self.is_taken_over, told.is_some()), told) else {
            return;
        };
        let before: Vec<_> = told.iter().filter(|point| point.at_ms < first_ms).cloned().collect();
        hour.splice(0..0, before.into_iter().rev().take(room).rev());
    }
}

/// What this replica alone knows, but for what it has counted.
fn own(inputs: &Inputs<'_>, actors: &Actors) -> Sums {
    let restarts = inputs.registry.restart_totals().values().sum();
    let (actors, shown) = sum_up(&actors.others, actors.well, restarts);
    let mut dependencies = inputs.gathered.dependencies.clone();
    for store in &mut dependencies {
        store.error = store.error.as_deref().map(|error| cut(error).to_owned());
    }
    Sums {
        about: inputs.about.clone(),
        answers: inputs.meters.answers().to_vec(),
        ages: inputs.meters.ages().to_vec(),
        lag: inputs.gathered.lag.clone(),
        dependencies,
        actors,
        shown,
        ..Sums::default()
    }
}

fn sum(one: Counts, other: &Counts) -> Counts {
    std::array::from_fn(|range| one[range].wrapping_add(other[range]))
}

fn actors(inputs: &Inputs<'_>, own: &Sums, others: &[ActorReport]) -> ActorsView {
    let mut view = ActorsView::default();
    for sums in inputs.others.sums().map(|(_, sums)| &sums.actors).chain([&own.actors]) {
        view.total = view.total.saturating_add(sums.total);
        view.restarting = view.restarting.saturating_add(sums.restarting);
        view.failed = view.failed.saturating_add(sums.failed);
        view.restarts = view.restarts.saturating_add(sums.restarts);
        for (kind, count) in &sums.kinds {
            let known = view.kinds.entry(kind.clone()).or_default();
            *known = known.saturating_add(*count);
        }
    }
    let own = own.shown.iter().map(|status| ActorReport::new(status.clone(), inputs.here.clone()));
    let is_troubled = |actor: &ActorReport| matches!(actor.status.state, Life::Restarting | Life::Failed);
    view.troubled = own.chain(others.iter().cloned()).filter(is_troubled).take(TROUBLED).collect();
    view
}
