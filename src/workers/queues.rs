//! The queues and jobs of this service.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Payload, Scope};
use crate::domain::config::ClientId;
use crate::domain::job::{JobId, QueueSpec, Retention, Workload};
use crate::domain::retry::RetrySchedule;

/// 5 s, doubling, at most 15 min, varied by 20 %: as long as a client's gate stays closed.
const PATIENT: RetrySchedule = RetrySchedule {
    base: Duration::from_secs(5),
    factor: 2.0,
    cap: Duration::from_secs(15 * 60),
    jitter: 0.2,
};

queues! {
    /// The queues of this service.
    pub enum Queue {
        /// The visible kick and clock of clients that have something waiting. The truth is the stash.
        Dispatcher = QueueSpec {
            name: "dispatcher",
            retention: Retention::Redrivable,
            // As long as the stash has something: it ends with that, or with the client.
            attempts: 1_000_000,
            backoff: PATIENT,
            timeout: Duration::from_secs(5 * 60),
            concurrency_setting: "DISPATCHER_WORKER_CONCURRENCY",
            concurrency: 32,
            workload: Workload::Light,
        },
        /// What the clock starts.
        Schedule = QueueSpec {
            name: "dispatcher-schedule",
            retention: Retention::Redrivable,
            attempts: 3,
            backoff: PATIENT,
            timeout: Duration::from_secs(10 * 60),
            concurrency_setting: "DISPATCHER_SCHEDULE_WORKER_CONCURRENCY",
            concurrency: 2,
            workload: Workload::Scheduled,
        },
        /// What takes minutes to hours, and is not done twice.
        Heavy = QueueSpec {
            name: "dispatcher-heavy",
            retention: Retention::Dedup { age: Duration::from_secs(24 * 3600), count: 1000 },
            attempts: 10,
            backoff: PATIENT,
            timeout: Duration::from_secs(12 * 3600),
            concurrency_setting: "DISPATCHER_HEAVY_WORKER_CONCURRENCY",
            concurrency: 2,
            workload: Workload::Heavy,
        },
    }
}

/// A client has something waiting: its owner shall drain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Retry {
    /// Whose rows.
    pub client: ClientId,
    /// When it is due, milliseconds since 1970: a run before it was promoted. `None`: somebody wants it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<i64>,
}

impl Payload for Retry {
    fn id(&self) -> JobId {
        JobId::of_client("retry", &self.client)
    }

    fn scope(&self) -> Scope<'_> {
        Scope::Client { client: &self.client, owner: None }
    }
}

/// A client has failed for long: look whether it is to be switched off.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Disable {
    /// Which.
    pub client: ClientId,
}

impl Payload for Disable {
    fn id(&self) -> JobId {
        JobId::of_client("disable", &self.client)
    }

    fn scope(&self) -> Scope<'_> {
        Scope::System
    }
}

jobs! {
    /// What the queue `dispatcher` carries.
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    pub enum DispatcherJob in Queue::Dispatcher {
        /// Drain a client.
        Retry(Retry) = "RETRY",
        /// Switch a client off.
        Disable(Disable) = "DISABLE",
    }
}

/// Removes payloads that were given up long ago.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeStash {}

impl Payload for PurgeStash {
    fn id(&self) -> JobId {
        JobId::of("purge", "stash")
    }

    fn scope(&self) -> Scope<'_> {
        Scope::System
    }
}

/// Removes what operators did long ago from the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeAudit {}

impl Payload for PurgeAudit {
    fn id(&self) -> JobId {
        JobId::of("purge", "audit")
    }

    fn scope(&self) -> Scope<'_> {
        Scope::System
    }
}

/// Reads all client configs again, and repairs their copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReconcileConfigs {}

impl Payload for ReconcileConfigs {
    fn id(&self) -> JobId {
        JobId::of("reconcile", "configs")
    }

    fn scope(&self) -> Scope<'_> {
        Scope::System
    }
}

jobs! {
    /// What the queue `dispatcher-schedule` carries.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum ScheduleJob in Queue::Schedule {
        /// Daily.
        PurgeAudit(PurgeAudit) = "purge-audit",
        /// Daily.
        PurgeStash(PurgeStash) = "purge-stash",
        /// Every 5 minutes.
        ReconcileConfigs(ReconcileConfigs) = "reconcile-configs",
    }
}

/// A client gets again what it may see, as MongoDB has it now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resync {
    /// Which.
    pub client: ClientId,
    /// `<db>.<collection>`, with or without the platform's prefix; `None`: all that its filter admits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collections: Option<BTreeSet<String>>,
}

impl Payload for Resync {
    fn id(&self) -> JobId {
        of_parameters("resync", &self.client, self)
    }

    fn scope(&self) -> Scope<'_> {
        Scope::Client { client: &self.client, owner: None }
    }
}

/// What is dead of a client is sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// Which.
    pub client: ClientId,
    /// First failed at or after this, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_ms: Option<i64>,
    /// First failed before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_ms: Option<i64>,
    /// Also what the receiver has something newer of, or will get.
    #[serde(default)]
    pub force: bool,
}

impl Payload for Replay {
    fn id(&self) -> JobId {
        of_parameters("replay", &self.client, self)
    }

    fn scope(&self) -> Scope<'_> {
        Scope::Client { client: &self.client, owner: None }
    }
}

/// `<kind>-<client>-<hash of the parameters>`.
fn of_parameters(kind: &str, client: &ClientId, parameters: &impl Serialize) -> JobId {
    let parameters = serde_json::to_vec(parameters).unwrap_or_default();
    JobId::of_client(kind, client).with_parameters(&parameters)
}

jobs! {
    /// What the queue `dispatcher-heavy` carries. Each has a row in the store: the truth.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum HeavyWork in Queue::Heavy {
        /// From MongoDB.
        Resync(Resync) = "resync",
        /// From the stash.
        Replay(Replay) = "replay",
    }
}

impl HeavyWork {
    /// For whom it is done.
    pub fn client(&self) -> &ClientId {
        match self {
            Self::Resync(Resync { client, .. }) | Self::Replay(Replay { client, .. }) => client,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workers::{Jobs, QueueSet, Unreadable};

    #[test]
    fn every_queue_has_its_own_spec() {
        let names: Vec<&str> = Queue::ALL.iter().map(|queue| queue.spec().name).collect();
        assert_eq!(names, ["dispatcher", "dispatcher-schedule", "dispatcher-heavy"]);
        assert_eq!(Queue::Heavy.spec().concurrency_setting, "DISPATCHER_HEAVY_WORKER_CONCURRENCY");
    }

    #[test]
    fn a_job_comes_back_from_its_name_and_payload() {
        let job = DispatcherJob::from(Retry { client: ClientId::new("c 1"), due_ms: None });
        assert_eq!((job.name(), job.data().unwrap()), ("RETRY", json!({"client": "c 1"})));
        assert_eq!(DispatcherJob::read("RETRY", job.data().unwrap()), Ok(job));
    }

    #[test]
    fn the_same_parameters_are_the_same_heavy_job() {
        let client = ClientId::new("c 1");
        let resync = |collections: &[&str]| {
            let collections = collections.iter().map(|name| (*name).to_owned()).collect();
            Resync { client: client.clone(), collections: Some(collections) }.id()
        };
        assert_eq!(resync(&["a.b", "c.d"]), resync(&["c.d", "a.b", "c.d"]));
        assert_ne!(resync(&["a.b"]), resync(&["c.d"]));
        let all = Resync { client: client.clone(), collections: None };
        assert!(all.id().as_str().starts_with("resync-h-"), "{}", all.id());
        let replay = |force| Replay { client: client.clone(), from_ms: None, to_ms: None, force }.id();
        assert_ne!(replay(true), replay(false));
    }

    #[test]
    fn what_is_none_of_ours_is_told_apart() {
        assert_eq!(DispatcherJob::read("PURGE", json!({})), Err(Unreadable::Name));
        for data in [json!({}), json!(null), json!({"client": 7})] {
            assert!(matches!(DispatcherJob::read("RETRY", data), Err(Unreadable::Payload(_))));
        }
    }
}
