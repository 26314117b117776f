//! A page of a long list: found, sorted and cut here, so that nobody carries thousands of rows to a browser.

use std::cmp::Ordering;
use std::sync::Arc;

use serde::Deserialize;

use super::client::ClientView;
use super::replicas::ActorReport;
use crate::domain::client_state::Phase;
use crate::runtime::{ActorStatus, Life};

/// Which clients.
#[derive(Debug, Clone, Default)]
pub struct ClientQuery {
    /// Stands in the id, the webhook, the owner or the reason; case does not count.
    pub filter: Option<String>,
    /// Which phase, or all that somebody should look at.
    pub phase: Option<PhaseFilter>,
    /// What comes first.
    pub sort: ClientSort,
    /// The other way round.
    pub reverse: bool,
    /// How many are left out before.
    pub offset: usize,
}

/// A phase, or what somebody should look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhaseFilter {
    /// All that are not as they should be.
    Problem,
    /// One phase.
    Healthy,
    /// One phase.
    Degraded,
    /// One phase.
    Draining,
    /// One phase.
    Paused,
    /// One phase.
    Disabled,
}

impl PhaseFilter {
    fn takes(self, client: &ClientView) -> bool {
        let phase = match self {
            Self::Problem => return client.is_problem(),
            Self::Healthy => Phase::Healthy,
            Self::Degraded => Phase::Degraded,
            Self::Draining => Phase::Draining,
            Self::Paused => Phase::Paused,
            Self::Disabled => Phase::Disabled,
        };
        client.phase == phase
    }
}

/// What comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientSort {
    /// What most needs to be looked at, then what has most waiting.
    #[default]
    Problems,
    /// By id.
    Client,
    /// Most changes waiting.
    Waiting,
    /// The oldest change.
    Oldest,
    /// Most deliveries.
    Rate,
    /// Most failed attempts, lately and then in all.
    Failures,
    /// The slowest webhook (95th percentile).
    Latency,
    /// Most restarts.
    Restarts,
    /// Whose phase changed last.
    Since,
}

impl ClientSort {
    fn compare(self, one: &ClientView, other: &ClientView) -> Ordering {
        let most = |of: fn(&ClientView) -> u64| of(other).cmp(&of(one));
        let largest = |of: fn(&ClientView) -> f64| of(other).total_cmp(&of(one));
        let waiting = |client: &ClientView| client.stashed + u64::from(client.queued);
        let order = match self {
            Self::Problems => other.severity().cmp(&one.severity()).then_with(|| most(waiting)),
            Self::Client => Ordering::Equal,
            Self::Waiting => most(waiting),
            Self::Oldest => {
                let oldest = |client: &ClientView| client.oldest_ts_ms.unwrap_or(i64::MAX);
                oldest(one).cmp(&oldest(other))
            }
            Self::Rate => largest(|client| client.rate),
            Self::Failures => {
                largest(|client| client.failure_rate).then_with(|| most(|client| client.failed))
            }
            Self::Latency => largest(|client| client.latency.map_or(-1.0, |latency| latency.p95)),
            Self::Restarts => most(|client| client.restarts),
            Self::Since => other.since_ms.cmp(&one.since_ms),
        };
        order.then_with(|| one.client.cmp(&other.client))
    }
}

/// A part of a list, and how long the whole is.
pub struct Page<T> {
    /// The part.
    pub rows: Vec<T>,
    /// How many rows the query found.
    pub matched: usize,
}

impl ClientQuery {
    /// Finds them; at most `limit`.
    pub fn find(&self, clients: &[Arc<ClientView>], limit: usize) -> Page<Arc<ClientView>> {
        let filter = self.filter.as_deref().map(str::to_lowercase).filter(|filter| !filter.is_empty());
        let contains = |text: &str| filter.as_ref().is_none_or(|filter| text.to_lowercase().contains(filter));
        let is_wanted = |client: &&Arc<ClientView>| {
            self.phase.is_none_or(|phase| phase.takes(client))
                && (contains(client.client.as_str())
                    || client.webhook.as_deref().is_some_and(contains)
                    || client.owner.as_deref().is_some_and(contains)
                    || contains(&client.reason))
        };
        let mut found: Vec<_> = clients.iter().filter(is_wanted).collect();
        found.sort_by(|one, other| match self.reverse {
            false => self.sort.compare(one, other),
            true => self.sort.compare(other, one),
        });
        Page {
            matched: found.len(),
            rows: found.into_iter().skip(self.offset).take(limit).cloned().collect(),
        }
    }
}

/// Which actors.
#[derive(Debug, Clone, Default)]
pub struct ActorQuery {
    /// Stands in the id or the last cause; case does not count.
    pub filter: Option<String>,
    /// Which kind.
    pub kind: Option<String>,
    /// `running`, `restarting`, `failed` or `stopped`; `problem`: restarting, failed, or restarted before.
    pub state: Option<String>,
    /// Whose.
    pub replica: Option<String>,
    /// How many are left out before.
    pub offset: usize,
}

impl ActorQuery {
    /// Finds them, those first that are not well; at most `limit`.
    pub fn find(&self, actors: Vec<ActorReport>, limit: usize) -> Page<ActorReport> {
        let filter = self.filter.as_deref().map(str::to_lowercase).filter(|filter| !filter.is_empty());
        let contains = |text: &str| filter.as_ref().is_none_or(|filter| text.to_lowercase().contains(filter));
        let is_state = |actor: &ActorStatus| match self.state.as_deref() {
            None => true,
            Some("problem") => actor.state != Life::Running || actor.restarts > 0,
            Some(word) => word == word_of(actor.state),
        };
        let is_wanted = |ActorReport { status, replica, .. }: &ActorReport| {
            self.kind.as_deref().is_none_or(|kind| kind == status.kind)
                && self.replica.as_deref().is_none_or(|name| name == replica.as_str())
                && is_state(status)
                && (contains(&status.id)
                    || status.last_cause.as_ref().is_some_and(|cause| contains(cause.shown())))
        };
        let mut found: Vec<_> = actors.into_iter().filter(is_wanted).collect();
        let rank = |actor: &ActorStatus| match actor.state {
            Life::Failed => 0,
            Life::Restarting => 1,
            Life::Running | Life::Stopped => 2,
        };
        found.sort_by(|one, other| {
            let (a, b) = (&one.status, &other.status);
            rank(a).cmp(&rank(b)).then(b.restarts.cmp(&a.restarts)).then_with(|| {
                let place = |actor: &ActorReport| !actor.status.id.is_empty();
                (place(one), &a.kind, &a.id, &one.replica).cmp(&(
                    place(other),
                    &b.kind,
                    &b.id,
                    &other.replica,
                ))
            })
        });
        Page { matched: found.len(), rows: found.into_iter().skip(self.offset).take(limit).collect() }
    }
}

fn word_of(life: Life) -> &'static str {
    match life {
        Life::Running => "running",
        Life::Restarting => "restarting",
        Life::Failed => "failed",
        Life::Stopped => "stopped",
    }
}
