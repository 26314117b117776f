//! Embedded mode: SQLite files.

use std::sync::Arc;

use super::{Alone, RoleBoard, Stores};
use crate::backends::embedded::{Embedded, EmbeddedOptions, OpenError};
use crate::ports::clock::Clock;
use crate::ports::event_log::BatchLimits;
use crate::settings::{Settings, SettingsError};
use crate::web::StoreProbe;

/// How much of the newest records stays in memory, to be handed over without reading the file.
const TAIL: BatchLimits = BatchLimits { records: 20_000, bytes: 32 << 20 };

/// On `/status`.
const NAME: &str = "sqlite";

pub(super) async fn open(settings: &Settings, clock: Arc<dyn Clock>) -> anyhow::Result<Stores> {
    let options = EmbeddedOptions {
        data_dir: settings.data_dir.clone(),
        partitions: settings.transfer.partitions,
        retention: settings.transfer.retention,
        tail: TAIL,
        clock,
    };
    let embedded = Embedded::open(options).await.map_err(|err| match err {
        OpenError::DataDirInUse(_) | OpenError::Folder { .. } => {
            SettingsError::new("data_dir", err.to_string()).into()
        }
        OpenError::Database(_) => anyhow::Error::new(err),
    })?;
    let embedded = Arc::new(embedded);
    let (probed, kept, closed) = (embedded.clone(), embedded.clone(), embedded.clone());
    Ok(Stores {
        log: embedded.log(),
        stash: embedded.stash(),
        states: embedded.states(),
        configs: embedded.configs(),
        decisions: embedded.decisions(),
        locks: embedded.locks(),
        queues: embedded.queues(),
        heavy_jobs: embedded.heavy_jobs(),
        resync: None,
        roles: RoleBoard::of_one_process(),
        operational_events: embedded.operational_events(),
        events_topic: None,
        attempts: embedded.attempts(),
        audit: embedded.audit(),
        session_keys: embedded.session_keys(),
        stash_rows: embedded.stash_rows(),
        owner_kicks: Arc::new(Alone),
        actor_restarts: Arc::new(Alone),
        dashboard_parts: None,
        configs_in: NAME,
        probes: vec![StoreProbe {
            name: NAME.to_owned(),
            check: Arc::new(move |()| {
                let embedded = probed.clone();
                Box::pin(async move { embedded.health().await.map_err(|err| err.to_string()) })
            }),
        }],
        housekeeping: Arc::new(move |now_ms| {
            let embedded = kept.clone();
            Box::pin(async move { embedded.housekeeping(now_ms).await })
        }),
        close: Box::pin(async move { closed.close().await }),
    })
}
