//! The dashboard: what it looks at.

use std::sync::Arc;

use super::actor_tree::ActorTree;
use super::roles::unattended_roles;
use super::stores::Stores;
use crate::actors::dashboard::{
    self, DASHBOARD_KIND, Dashboard, DashboardActor, DashboardServices, Dependency,
};
use crate::domain::replica::ReplicaName;
use crate::ports::clock::Clock;
use crate::ports::job_queue::JobQueue;
use crate::runtime::{Kit, Seat, supervise};
use crate::settings::Settings;

/// What it is made of.
pub(super) struct Parts<'a> {
    pub(super) settings: &'a Settings,
    pub(super) stores: &'a Stores,
    pub(super) tree: &'a ActorTree,
    pub(super) queues: Vec<Arc<dyn JobQueue>>,
    pub(super) here: ReplicaName,
    pub(super) kit: &'a Kit,
    pub(super) seat: Seat,
    pub(super) clock: Arc<dyn Clock>,
}

/// Starts its actor.
pub(super) fn start(parts: Parts<'_>) -> Dashboard {
    let Parts { settings, stores, tree, queues, here, kit, seat, clock } = parts;
    let (snapshots, dashboard) = Dashboard::new(here.clone(), kit.registry().clone(), kit.shutdown().token());
    let probes = stores.probes.iter();
    let services = DashboardServices {
        here,
        roles: settings.roles.list().into_iter().map(|role| role.as_str().to_owned()).collect(),
        parts: stores.dashboard_parts.clone(),
        configs: tree.table.clone(),
        meters: tree.meters.clone(),
        registry: kit.registry().clone(),
        stores: Arc::new(dashboard::Stores {
            stash: stores.stash.clone(),
            states: stores.states.clone(),
            queues,
            source_lag: tree.source_lag.clone(),
            transfer_lag: tree.transfer_lag.clone(),
            dependencies: probes
                .map(|probe| Dependency { name: probe.name.clone(), check: probe.check.clone() })
                .collect(),
            unattended: unattended_roles(settings.roles.clone(), stores.roles.held.clone()),
            clock: clock.clone(),
        }),
        clock,
        give_up: settings.retry.ttl,
    };
    supervise(kit, &seat, DASHBOARD_KIND, "", move |cell| DashboardActor::new(cell, services, snapshots));
    dashboard
}
