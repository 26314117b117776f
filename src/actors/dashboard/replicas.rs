//! What is shown of the replicas, and of actors wherever they are.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use super::client::ClientView;
use super::gather::{DependencyView, LagView};
use super::part::{About, ActorSums, MOST_ACTORS, Sums};
use crate::actors::delivery_fleet::DELIVERY_KIND;
use crate::domain::replica::ReplicaName;
use crate::runtime::{ActorStatus, Life};

/// A replica.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ReplicaView {
    /// Its name.
    #[schema(value_type = String)]
    pub name: ReplicaName,
    /// Whether it is the one that answers.
    pub here: bool,
    /// What it is.
    #[serde(flatten)]
    pub about: About,
    /// How old what it told is, milliseconds.
    pub age_ms: u64,
    /// The clients that it serves.
    pub clients: usize,
    /// Clients that it does not tell of, because there are too many.
    pub clients_left_out: usize,
    /// Deliveries a second.
    pub rate: f64,
    /// Failed attempts a second.
    pub failure_rate: f64,
    /// Requests on the wire.
    pub in_flight: u64,
    /// Changes in memory that wait.
    pub queued: u64,
    /// Its actors.
    pub actors: usize,
    /// Those that wait for a restart.
    pub actors_restarting: usize,
    /// Those that were given up.
    pub actors_failed: usize,
    /// Restarts since its start.
    pub restarts: u64,
    /// Records of its partitions that are not committed.
    pub lag: LagView,
    /// The stores, as it sees them.
    pub dependencies: Vec<DependencyView>,
    /// How long a snapshot takes there, microseconds.
    pub cost_us: u64,
}

impl ReplicaView {
    /// The one that answers.
    pub(super) fn here(name: ReplicaName, sums: &Sums) -> Self {
        Self { here: true, ..Self::elsewhere(name, sums, Duration::ZERO) }
    }

    /// Another one, which told this some time ago.
    pub(super) fn elsewhere(name: ReplicaName, sums: &Sums, age: Duration) -> Self {
        Self {
            name,
            here: false,
            about: sums.about.clone(),
            age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            clients: 0,
            clients_left_out: sums.left_out,
            rate: 0.0,
            failure_rate: 0.0,
            in_flight: 0,
            queued: 0,
            actors: sums.actors.total,
            actors_restarting: sums.actors.restarting,
            actors_failed: sums.actors.failed,
            restarts: sums.actors.restarts,
            lag: sums.lag.clone(),
            dependencies: sums.dependencies.clone(),
            cost_us: sums.cost_us,
        }
    }

    /// It serves this client, or served it last.
    pub(super) fn add(&mut self, client: &ClientView) {
        self.clients += usize::from(client.actor.is_some());
        self.rate += client.rate;
        self.failure_rate += client.failure_rate;
        self.in_flight += u64::from(client.in_flight);
        self.queued += u64::from(client.queued);
    }

    /// Rates as they are shown.
    pub(super) fn round(&mut self) {
        for rate in [&mut self.rate, &mut self.failure_rate] {
            *rate = (*rate * 100.0).round() / 100.0;
        }
    }
}

/// A replica whose part cannot be read here.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct UnreadReplica {
    /// Its name.
    #[schema(value_type = String)]
    pub name: ReplicaName,
    /// Why.
    pub why: String,
}

/// An actor, and where it is.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ActorReport {
    /// What is known of it.
    #[serde(flatten)]
    pub status: ActorStatus,
    /// Whose it is.
    #[schema(value_type = String)]
    pub replica: ReplicaName,
}

impl ActorReport {
    /// Of an actor that is no client's, or of whose client nothing more is known.
    pub(super) fn new(status: ActorStatus, replica: ReplicaName) -> Self {
        Self { status, replica }
    }

    /// The actor of a client that another replica serves, as far as it is told.
    pub(super) fn of_client(client: &ClientView, now_ms: i64) -> Option<Self> {
        let seconds_since =
            |at_ms: i64| u64::try_from(now_ms.saturating_sub(at_ms)).unwrap_or_default() / 1000;
        let up = seconds_since(client.served_since_ms?);
        let status = ActorStatus {
            kind: DELIVERY_KIND.into(),
            id: client.client.as_str().into(),
            state: client.actor?,
            uptime_seconds: up,
            state_seconds: up,
            progress_seconds_ago: client.last_success_ms.map_or(up, seconds_since).min(up),
            mailbox: Some(client.queued.into()),
            restarts: client.restarts,
            exits: BTreeMap::new(),
            last_cause: None,
            last_message: None,
            published: None,
        };
        Some(Self { status, replica: client.replica.clone()? })
    }
}

/// The sums of these actors, and those that are shown to others by name: all that are not clients', and those that broke.
/// `well`: so many of clients' that never broke are not among them.
pub(super) fn sum_up(others: &[ActorStatus], well: usize, restarts: u64) -> (ActorSums, Vec<ActorStatus>) {
    let mut sums = ActorSums { total: well + others.len(), restarts, ..ActorSums::default() };
    if well > 0 {
        sums.kinds.insert(DELIVERY_KIND.to_owned(), well);
    }
    let (mut shown, mut broken) = (Vec::new(), Vec::new());
    for actor in others {
        match sums.kinds.get_mut(&*actor.kind) {
            Some(count) => *count += 1,
            None => drop(sums.kinds.insert(actor.kind.clone().into_owned(), 1)),
        }
        sums.restarting += usize::from(actor.state == Life::Restarting);
        sums.failed += usize::from(actor.state == Life::Failed);
        if actor.kind != DELIVERY_KIND {
            shown.push(actor.clone());
        } else if actor.restarts > 0 || actor.state != Life::Running {
            broken.push(ActorStatus { published: None, ..actor.clone() });
        }
    }
    // Those that are worst come first.
    broken.sort_by_key(|actor| (actor.state == Life::Running, Reverse(actor.restarts)));
    shown.extend(broken);
    shown.truncate(MOST_ACTORS);
    (sums, shown)
}
