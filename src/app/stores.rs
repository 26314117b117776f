//! The stores of a mode, opened.

#[cfg(feature = "cluster")]
mod cluster;
mod embedded;
mod waiting;

use std::sync::Arc;

pub(super) use self::waiting::{NotOpen, until_there};
use crate::actors::operational_events::EventRecorder;
use crate::domain::replica::ReplicaName;
use crate::metrics::Metrics;
use crate::ports::actor_restarts::ActorRestarts;
use crate::ports::attempts::Attempts;
use crate::ports::audit::AuditLog;
use crate::ports::client_configs::ClientConfigs;
use crate::ports::client_states::ClientStates;
use crate::ports::clock::Clock;
use crate::ports::dashboard_parts::DashboardParts;
use crate::ports::decisions::Decisions;
use crate::ports::documents::Documents;
use crate::ports::event_log::EventLog;
use crate::ports::heavy_jobs::HeavyJobs;
use crate::ports::job_queue::JobQueues;
use crate::ports::locks::Locks;
use crate::ports::operational_events::{EventTopic, OperationalEvents};
use crate::ports::owner_kicks::OwnerKicks;
use crate::ports::session_keys::SessionKeys;
use crate::ports::source_progress::SourceProgress;
use crate::ports::stash::Stash;
use crate::ports::stash_rows::StashRows;
use crate::ports::{BoxFuture, StoreResult};
use crate::settings::{Mode, Role, Settings};
use crate::web::{Ask, Startup, StoreProbe};

/// Where replicas tell each other which roles they have.
pub(super) struct RoleBoard {
    /// Says for a while that somebody has these.
    pub(super) tell: Ask<Vec<&'static str>, ()>,
    /// Those that somebody has.
    pub(super) held: Ask<(), Result<Vec<&'static str>, String>>,
}

impl RoleBoard {
    /// Where there are no others.
    fn of_one_process() -> Self {
        Self {
            tell: Arc::new(|_| Box::pin(async {})),
            held: Arc::new(|()| Box::pin(async { Ok(Role::ALL.map(Role::as_str).to_vec()) })),
        }
    }
}

/// There are no other replicas.
pub(super) struct Alone;

impl OwnerKicks for Alone {}

impl ActorRestarts for Alone {}
/// What a resync reads.
pub(super) struct ResyncStores {
    pub(super) documents: Arc<dyn Documents>,
    pub(super) progress: Arc<dyn SourceProgress>,
}

/// What the service works on.
pub(super) struct Stores {
    pub(super) log: Arc<dyn EventLog>,
    pub(super) stash: Arc<dyn Stash>,
    pub(super) states: Arc<dyn ClientStates>,
    pub(super) configs: Arc<dyn ClientConfigs>,
    pub(super) decisions: Arc<dyn Decisions>,
    pub(super) locks: Arc<dyn Locks>,
    pub(super) queues: Arc<dyn JobQueues>,
    pub(super) heavy_jobs: Arc<dyn HeavyJobs>,
    /// What a resync reads; `None`: there is no MongoDB.
    pub(super) resync: Option<ResyncStores>,
    /// Who does what.
    pub(super) roles: RoleBoard,
    pub(super) operational_events: Arc<dyn OperationalEvents>,
    /// Where operational events are copied to for others.
    pub(super) events_topic: Option<Arc<dyn EventTopic>>,
    pub(super) attempts: Arc<dyn Attempts>,
    pub(super) audit: Arc<dyn AuditLog>,
    pub(super) session_keys: Arc<dyn SessionKeys>,
    pub(super) stash_rows: Arc<dyn StashRows>,
    /// The way to the owners of clients on other replicas.
    pub(super) owner_kicks: Arc<dyn OwnerKicks>,
    /// The way to the actors on other replicas.
    pub(super) actor_restarts: Arc<dyn ActorRestarts>,
    /// Where the replicas tell each other what they show; `None`: there are no others.
    pub(super) dashboard_parts: Option<Arc<dyn DashboardParts>>,
    /// The name on `/status` of the store that has the configs.
    pub(super) configs_in: &'static str,
    /// Each of them, for `/status`.
    pub(super) probes: Vec<StoreProbe>,
    /// Removes what is older than its retention, as of this time (milliseconds since 1970). Returns how many records went.
    pub(super) housekeeping: Ask<i64, StoreResult<u64>>,
    /// Finishes what waits, and lets go.
    pub(super) close: BoxFuture<'static, ()>,
}

impl Stores {
    /// Opens them. One that is away is waited for, and said on `startup`.
    ///
    /// # Errors
    /// What waiting does not mend.
    #[cfg_attr(not(feature = "cluster"), expect(unused_variables, reason = "a file is not waited for"))]
    pub(super) async fn open(
        settings: &Settings,
        clock: &Arc<dyn Clock>,
        metrics: &Metrics,
        startup: &Startup,
        events: &EventRecorder,
        here: &ReplicaName,
    ) -> anyhow::Result<Self> {
        match settings.mode {
            Mode::Embedded => embedded::open(settings, clock.clone()).await,
            #[cfg(feature = "cluster")]
            Mode::Cluster => {
                cluster::open(settings, clock.clone(), metrics, startup, events.clone(), here.clone()).await
            }
            #[cfg(not(feature = "cluster"))]
            Mode::Cluster => {
                anyhow::bail!("this build has no cluster mode: build it with the feature `cluster`")
            }
        }
    }
}
