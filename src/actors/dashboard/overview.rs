//! The sums of a snapshot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::client::ClientView;
use super::gather::{DependencyView, LagView, QueueView};
use super::replicas::{ActorReport, ReplicaView, UnreadReplica};
use super::window::Latency;
use crate::domain::client_state::Phase;

/// The sums of a snapshot.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
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
    /// Records not committed, of the partitions of all replicas that are seen.
    pub lag: LagView,
    /// Requests on the wire.
    pub in_flight: u64,
    /// Changes in memory that wait.
    pub queued: u64,
    /// Changes in the stash.
    pub stash: StashView,
    /// How many clients there are, and in which phase.
    pub clients: ClientsView,
    /// The actors.
    pub actors: ActorsView,
    /// The replicas that are seen, this one first.
    pub replicas: Vec<ReplicaView>,
    /// Those whose part cannot be read here.
    pub unread_replicas: Vec<UnreadReplica>,
    /// Why the others are not seen; `None`: they are, or there can be none.
    pub others_unseen: Option<String>,
    /// The queues.
    pub queues: Vec<QueueView>,
    /// The stores, as this replica sees them.
    pub dependencies: Vec<DependencyView>,
    /// The roles that no replica has; `None`: that is not known.
    #[schema(value_type = Option<Vec<String>>)]
    pub unattended_roles: Option<Vec<&'static str>>,
    /// When the stores were asked last, milliseconds since 1970; `None`: not yet.
    pub gathered_at_ms: Option<i64>,
    /// How long they took to answer, milliseconds.
    pub gathering_ms: u64,
    /// What could not be asked, so that it is as it was.
    #[schema(value_type = Vec<String>)]
    pub late: Vec<&'static str>,
    /// How long this snapshot took, microseconds.
    pub cost_us: u64,
    /// The last point of the hour.
    pub point: Option<Point>,
}

/// The stash.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
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
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct ClientsView {
    /// All.
    pub total: usize,
    /// By phase.
    #[schema(value_type = BTreeMap<String, usize>)]
    pub phases: BTreeMap<&'static str, usize>,
    /// Those that somebody should look at.
    pub problems: usize,
    /// Those that drop changes.
    pub overflows: usize,
}

/// The actors of all replicas that are seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct ActorsView {
    /// All.
    pub total: usize,
    /// By kind.
    pub kinds: BTreeMap<String, usize>,
    /// Those that wait for a restart.
    pub restarting: usize,
    /// Those that were given up.
    pub failed: usize,
    /// Restarts since the start.
    pub restarts: u64,
    /// Some of those that restart or failed.
    pub troubled: Vec<ActorReport>,
}

/// What happened within ten seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
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
    /// Records of the source stream and the transfer log that are not committed.
    pub lag: Option<u64>,
}

impl Overview {
    /// It has this client.
    pub(super) fn add(&mut self, client: &ClientView) {
        self.in_flight += u64::from(client.in_flight);
        self.queued += u64::from(client.queued);
        self.stash.pending += client.stashed;
        self.stash.bytes += client.stashed_bytes;
        self.stash.dead += client.dead;
        let oldest = [self.stash.oldest_ts_ms, client.stash_oldest_ts_ms];
        self.stash.oldest_ts_ms = oldest.into_iter().flatten().min();
        self.clients.total += 1;
        if self.clients.phases.is_empty() {
            let all = [Phase::Healthy, Phase::Degraded, Phase::Draining, Phase::Paused, Phase::Disabled];
            self.clients.phases = all.into_iter().map(|phase| (phase.as_str(), 0)).collect();
        }
        *self.clients.phases.entry(client.phase.as_str()).or_default() += 1;
        self.clients.problems += usize::from(client.is_problem());
        self.clients.overflows += usize::from(client.overflows);
        let is_its = |replica: &&mut ReplicaView| client.replica.as_ref() == Some(&replica.name);
        if let Some(replica) = self.replicas.iter_mut().find(is_its) {
            replica.add(client);
        }
    }
}
