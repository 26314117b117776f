//! What sees to webhooks that fail: the jobs that everybody sees, the promoter, and the way to the owners on other replicas.

use std::sync::Arc;

use super::actor_tree::{ActorTree, pacing};
use super::records::Recorders;
use super::stores::Stores;
use crate::actors::disabler::Disabler;
use crate::actors::owners::Owners;
use crate::actors::promoter::{PromoterActor, PromoterServices};
use crate::actors::retry::RetryActor;
use crate::metrics::Metrics;
use crate::ports::clock::Clock;
use crate::runtime::{Kit, Seat, supervise};
use crate::settings::Settings;
use crate::workers::queues::Queue;
use crate::workers::{Exclusive, OpenQueues, Producer};

/// The promoter's kind.
const PROMOTER_KIND: &str = "promoter";

/// What it is made of.
pub(super) struct Parts<'a> {
    pub(super) settings: &'a Settings,
    pub(super) stores: &'a Stores,
    pub(super) tree: &'a ActorTree,
    pub(super) queues: &'a OpenQueues<Queue>,
    pub(super) recorders: &'a Recorders,
    pub(super) kit: &'a Kit,
    pub(super) metrics: &'a Metrics,
    pub(super) clock: Arc<dyn Clock>,
}

impl Parts<'_> {
    /// Hands on what other replicas ask of the owners here.
    pub(super) fn listen(&self) {
        actix_rt::spawn(self.owners().listen(self.kit.shutdown().token()));
    }

    /// Does the jobs of the queue `dispatcher`.
    pub(super) fn retry_actor(&self) -> RetryActor {
        let Parts { settings, stores, tree, recorders, .. } = self;
        RetryActor {
            stash: stores.stash.clone(),
            states: stores.states.clone(),
            owners: self.owners(),
            queue: self.queues.get(Queue::Dispatcher).clone(),
            clock: self.clock.clone(),
            disabler: Disabler {
                configs: stores.configs.clone(),
                table: tree.table.clone(),
                config_cache: tree.config_cache.clone(),
                states: stores.states.clone(),
                owners: self.owners(),
                pacing: pacing(settings),
                clock: self.clock.clone(),
                events: recorders.events.clone(),
            },
        }
    }

    /// Starts the promoter.
    pub(super) fn start_promoter(&self, seat: &Seat) {
        let Parts { settings, stores, tree, recorders, metrics, .. } = self;
        let services = Arc::new(PromoterServices {
            stash: stores.stash.clone(),
            states: stores.states.clone(),
            configs: tree.table.clone(),
            queue: self.queues.get(Queue::Dispatcher).clone(),
            producer: Producer::new(self.queues.clone()),
            exclusive: Exclusive {
                locks: stores.locks.clone(),
                clock: self.clock.clone(),
                metrics: (*metrics).clone(),
            },
            pacing: pacing(settings),
            clock: self.clock.clone(),
            events: recorders.events.clone(),
        });
        supervise(self.kit, seat, PROMOTER_KIND, "", move |cell| PromoterActor::new(cell, services));
    }

    fn owners(&self) -> Owners {
        Owners::new(self.tree.fleet.clone(), self.stores.owner_kicks.clone())
    }
}
