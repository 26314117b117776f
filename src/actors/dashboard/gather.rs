//! What has to be asked of stores: one question for all clients, and not oftener than the stores bear.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};
use utoipa::ToSchema;

use crate::actors::ingest::LagProbe;
use crate::domain::client_state::ClientState;
use crate::domain::config::ClientId;
use crate::domain::job::JobState;
use crate::domain::stash::Backlog;
use crate::ports::client_states::ClientStates;
use crate::ports::clock::Clock;
use crate::ports::job_queue::JobQueue;
use crate::ports::stash::Stash;
use crate::ports::{BoxFuture, StoreResult};

/// How long a store may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The least and the longest time between two rounds.
const ROUND: Duration = Duration::from_secs(2);
const LONGEST_ROUND: Duration = Duration::from_secs(60);
/// A round of so much work is followed by this many times as much rest.
const REST: u32 = 20;

/// A store, and how to find out whether it answers; the error is shown.
#[derive(Clone)]
pub struct Dependency {
    /// Its name.
    pub name: String,
    /// Asks it.
    pub check: Arc<dyn Fn(()) -> BoxFuture<'static, Result<(), String>> + Send + Sync>,
}

/// Who is asked.
pub struct Stores {
    /// What waits.
    pub stash: Arc<dyn Stash>,
    /// In which state the clients are, those of other replicas too.
    pub states: Arc<dyn ClientStates>,
    /// The queues, in the order in which they are shown.
    pub queues: Vec<Arc<dyn JobQueue>>,
    /// How far the source stream is behind.
    pub source_lag: LagProbe,
    /// How far the transfer log is.
    pub transfer_lag: LagProbe,
    /// Every store.
    pub dependencies: Vec<Dependency>,
    /// The roles that no replica has; `None`: that cannot be known.
    pub unattended: Arc<dyn Fn(()) -> BoxFuture<'static, Option<Vec<&'static str>>> + Send + Sync>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
}

/// What they answered last.
#[derive(Debug, Clone, Default)]
pub struct Gathered {
    /// What waits, by client.
    pub backlogs: Arc<HashMap<ClientId, Backlog>>,
    /// The stored states.
    pub states: Arc<HashMap<ClientId, ClientState>>,
    /// The queues.
    pub queues: Vec<QueueView>,
    /// The stores.
    pub dependencies: Vec<DependencyView>,
    /// How far the streams are behind.
    pub lag: LagView,
    /// The roles that no replica has.
    pub unattended: Option<Vec<&'static str>>,
    /// What could not be asked, so that it is as it was.
    pub late: Vec<&'static str>,
    /// When the round ended, milliseconds since 1970.
    pub at_ms: Option<i64>,
    /// How long it took.
    pub took: Duration,
}

impl Gathered {
    /// How long to rest before the next round. A store that is away costs no work, and everybody waits to see it back.
    pub(super) fn rest(&self) -> Duration {
        let all_answered = self.late.is_empty() && self.dependencies.iter().all(|store| store.healthy);
        if all_answered { (self.took * REST).clamp(ROUND, LONGEST_ROUND) } else { ROUND }
    }
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct QueueView {
    /// Its name.
    #[schema(value_type = String)]
    pub name: &'static str,
    /// Whether it is paused.
    pub paused: bool,
    /// Jobs by state.
    #[schema(value_type = std::collections::BTreeMap<String, u64>)]
    pub counts: serde_json::Map<String, serde_json::Value>,
    /// For how long the oldest job that could run has waited, milliseconds.
    pub oldest_waiting_ms: Option<u64>,
}

/// A store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DependencyView {
    /// Its name.
    pub name: String,
    /// Whether it answers.
    pub healthy: bool,
    /// Why it does not.
    pub error: Option<String>,
    /// How long its answer took, milliseconds.
    pub took_ms: u64,
    /// Since when it is so, milliseconds since 1970.
    pub since_ms: i64,
}

/// Records that are not committed; `None`: not known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LagView {
    /// Of the source stream.
    pub source: Option<u64>,
    /// When the oldest of them was written, milliseconds since 1970.
    pub source_oldest_ms: Option<i64>,
    /// Of the transfer log.
    pub transfer: Option<u64>,
    /// When the oldest of them was written, milliseconds since 1970.
    pub transfer_oldest_ms: Option<i64>,
}

impl LagView {
    /// Records of both that are not committed; `None`: neither is known.
    pub fn records(&self) -> Option<u64> {
        sum(self.source, self.transfer)
    }

    /// Another replica knows of other partitions.
    pub(super) fn add(&mut self, other: &Self) {
        let oldest = |one: Option<i64>, other: Option<i64>| [one, other].into_iter().flatten().min();
        self.source = sum(self.source, other.source);
        self.source_oldest_ms = oldest(self.source_oldest_ms, other.source_oldest_ms);
        self.transfer = sum(self.transfer, other.transfer);
        self.transfer_oldest_ms = oldest(self.transfer_oldest_ms, other.transfer_oldest_ms);
    }
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}

impl Stores {
    /// Asks all of them at once. What does not answer stays as it was.
    pub async fn ask(&self, before: &Gathered) -> Gathered {
        let started = Instant::now();
        let (backlogs, states, queues, lag, dependencies, unattended) = tokio::join!(
            answer(self.stash.backlogs()),
            answer(self.states.list()),
            join_all(self.queues.iter().map(|queue| answer(show(&**queue)))),
            self.ask_lag(),
            join_all(self.dependencies.iter().map(|store| self.probe(store, before))),
            timeout(PATIENCE, (self.unattended)(())),
        );
        let mut late = Vec::new();
        let mut or_before = |what| late.push(what);
        if backlogs.is_none() {
            or_before("stash");
        }
        if states.is_none() {
            or_before("client states");
        }
        let queues: Vec<QueueView> = queues.into_iter().flatten().collect();
        if queues.len() < self.queues.len() {
            or_before("queues");
        }
        if lag.records().is_none() {
            or_before("lag");
        }
        Gathered {
            backlogs: backlogs
                .map_or_else(|| before.backlogs.clone(), |all| Arc::new(all.into_iter().collect())),
            states: states.map_or_else(|| before.states.clone(), |all| Arc::new(all.into_iter().collect())),
            queues: if queues.len() < self.queues.len() { before.queues.clone() } else { queues },
            dependencies,
            lag,
            unattended: unattended.ok().flatten(),
            late,
            at_ms: Some(self.clock.now_ms()),
            took: started.elapsed(),
        }
    }

    async fn ask_lag(&self) -> LagView {
        let (source, transfer) = tokio::join!(
            timeout(PATIENCE, self.source_lag.ask()),
            timeout(PATIENCE, self.transfer_lag.ask())
        );
        let (source, transfer) = (source.ok().flatten(), transfer.ok().flatten());
        LagView {
            source: source.as_ref().map(|lag| lag.records),
            source_oldest_ms: source.and_then(|lag| lag.oldest_ms),
            transfer: transfer.as_ref().map(|lag| lag.records),
            transfer_oldest_ms: transfer.and_then(|lag| lag.oldest_ms),
        }
    }

    async fn probe(&self, store: &Dependency, before: &Gathered) -> DependencyView {
        let started = Instant::now();
        let answer = timeout(PATIENCE, (store.check)(())).await;
        let error = answer.unwrap_or_else(|_| Err("no answer in time".to_owned())).err();
        let healthy = error.is_none();
        let known = before.dependencies.iter().find(|known| known.name == store.name);
        DependencyView {
            name: store.name.clone(),
            healthy,
            error,
            took_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            since_ms: match known {
                Some(known) if known.healthy == healthy => known.since_ms,
                _ => self.clock.now_ms(),
            },
        }
    }
}

async fn show(queue: &dyn JobQueue) -> StoreResult<QueueView> {
    let (counts, paused, oldest) =
        tokio::try_join!(queue.counts(), queue.is_paused(), queue.oldest_waiting())?;
    let counts = JobState::ALL.iter().map(|state| (state.as_str().to_owned(), counts.of(*state).into()));
    Ok(QueueView {
        name: queue.spec().name,
        paused,
        counts: counts.collect(),
        oldest_waiting_ms: oldest.map(|oldest| u64::try_from(oldest.as_millis()).unwrap_or(u64::MAX)),
    })
}

/// `None`: it did not answer. That it is away is said by whoever works with it.
async fn answer<T>(asked: impl Future<Output = StoreResult<T>>) -> Option<T> {
    timeout(PATIENCE, asked).await.ok()?.ok()
}
