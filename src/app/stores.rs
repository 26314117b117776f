//! The stores of a mode, opened.

#[cfg(feature = "cluster")]
mod cluster;
mod embedded;
mod waiting;

use std::sync::Arc;

pub(super) use self::waiting::{NotOpen, until_there};
use crate::metrics::Metrics;
use crate::ports::client_configs::ClientConfigs;
use crate::ports::client_states::ClientStates;
use crate::ports::clock::Clock;
use crate::ports::decisions::Decisions;
use crate::ports::event_log::EventLog;
use crate::ports::stash::Stash;
use crate::ports::{BoxFuture, StoreResult};
use crate::settings::{Mode, Settings};
use crate::web::{Ask, Startup, StoreProbe};

/// What the service works on.
pub(super) struct Stores {
    pub(super) log: Arc<dyn EventLog>,
    pub(super) stash: Arc<dyn Stash>,
    pub(super) states: Arc<dyn ClientStates>,
    pub(super) configs: Arc<dyn ClientConfigs>,
    pub(super) decisions: Arc<dyn Decisions>,
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
    ) -> anyhow::Result<Self> {
        match settings.mode {
            Mode::Embedded => embedded::open(settings, clock.clone()).await,
            #[cfg(feature = "cluster")]
            Mode::Cluster => cluster::open(settings, clock.clone(), metrics, startup).await,
            #[cfg(not(feature = "cluster"))]
            Mode::Cluster => {
                anyhow::bail!("this build has no cluster mode: build it with the feature `cluster`")
            }
        }
    }
}
