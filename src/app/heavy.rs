//! The heavy jobs: where they are asked for, and who does them.

use std::sync::Arc;

use super::actor_tree::{self, ActorTree};
use super::records::Recorders;
use super::stores::Stores;
use crate::metrics::Metrics;
use crate::ports::clock::Clock;
use crate::settings::Settings;
use crate::workers::heavy::document::DocumentRoutes;
use crate::workers::heavy::{HeavyDesk, HeavyWorker, ResyncSource, Tell};
use crate::workers::queues::Queue;
use crate::workers::{Exclusive, OpenQueues};

/// What they are made of.
pub(super) struct Parts<'a> {
    pub(super) settings: &'a Settings,
    pub(super) stores: &'a Stores,
    pub(super) tree: &'a ActorTree,
    pub(super) queues: &'a OpenQueues<Queue>,
    pub(super) recorders: &'a Recorders,
    pub(super) metrics: &'a Metrics,
    pub(super) clock: Arc<dyn Clock>,
}

impl Parts<'_> {
    /// Where they are asked for.
    pub(super) fn desk(&self) -> HeavyDesk {
        HeavyDesk {
            rows: self.stores.heavy_jobs.clone(),
            queues: self.queues.clone(),
            blocked: Arc::new(self.tree.table.clone()),
            clock: self.clock.clone(),
            tell: self.tell(),
        }
    }

    /// Who does them.
    pub(super) fn worker(&self) -> HeavyWorker {
        let Parts { settings, stores, metrics, .. } = self;
        HeavyWorker {
            rows: stores.heavy_jobs.clone(),
            stash: stores.stash.clone(),
            log: stores.log.clone(),
            states: stores.states.clone(),
            source: self.source(),
            // What they add must never be what makes a client overflow.
            client_rows: settings.heavy.client_rows.min(settings.stash.client_rows / 2).max(1),
            exclusive: Exclusive {
                locks: stores.locks.clone(),
                clock: self.clock.clone(),
                metrics: (*metrics).clone(),
            },
            clock: self.clock.clone(),
            tell: self.tell(),
        }
    }

    fn source(&self) -> Option<ResyncSource> {
        let Parts { settings, stores, tree, .. } = self;
        let read = stores.resync.as_ref()?;
        let table = tree.table.clone();
        Some(ResyncSource {
            documents: read.documents.clone(),
            progress: read.progress.clone(),
            routes: DocumentRoutes {
                names: actor_tree::source_names(settings),
                mongo_prefix: settings.mongo.prefix.as_str().into(),
                revoke: settings.routing.revoke,
                blocked: settings.guard.blocked,
                client: Arc::new(move |client| table.get(client)),
            },
            settle: settings.heavy.settle,
            page: settings.heavy.page,
            per_second: settings.heavy.per_second,
        })
    }

    fn tell(&self) -> Tell {
        let events = self.recorders.events.clone();
        Arc::new(move |event| events.record(event))
    }
}
