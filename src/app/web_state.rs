//! What the HTTP side works with.

use std::sync::Arc;

use actix::Addr;
use serde_json::Value;

use super::actor_tree::{self, ActorTree};
use super::roles::unattended_roles;
use super::stores::Stores;
use crate::actors::config_cache::{Refresh, ReloadDecisions};
use crate::actors::dashboard::Dashboard;
use crate::actors::delivery_fleet::{DELIVERY_KIND, DeliveryFleetActor, RecentOf};
use crate::actors::owners::Owners;
use crate::domain::attempt::Attempt;
use crate::domain::config::ClientId;
use crate::metrics::Metrics;
use crate::ports::actor_restarts::NobodyActed;
use crate::ports::clock::Clock;
use crate::ports::session_keys::SessionKey;
use crate::runtime::Kit;
use crate::settings::{Role, Settings, SettingsError};
use crate::web::{Ask, Readiness, WebState};
use crate::workers::heavy::HeavyDesk;

/// All but the queues and the other things that the service adds where it starts them.
pub(super) fn web_state(
    settings: &Settings,
    stores: &Stores,
    kit: &Kit,
    clock: Arc<dyn Clock>,
    metrics: &Metrics,
    tree: &ActorTree,
    (readiness, dashboard, heavy_desk): (Arc<Readiness>, Dashboard, HeavyDesk),
) -> Result<WebState, SettingsError> {
    let fleet = tree.fleet.clone();
    let (registry, deliveries) = (kit.registry().clone(), kit.registry().clone());
    let (config_cache, decided_cache) = (tree.config_cache.clone(), tree.config_cache.clone());
    let table = tree.table.clone();
    let owners = Owners::new(tree.fleet.clone(), stores.owner_kicks.clone());
    Ok(WebState {
        mode: settings.mode.as_str(),
        roles: settings.roles.list().into_iter().map(Role::as_str).collect(),
        unattended_roles: unattended_roles(settings.roles.clone(), stores.roles.held.clone()),
        serves_api: settings.roles.has(Role::Web),
        source_names: actor_tree::source_names(settings),
        access: settings.api.access()?,
        session_key: SessionKey::default(),
        audit: stores.audit.clone(),
        configs: stores.configs.clone(),
        refresh_config: Arc::new(move |client| {
            let config_cache = config_cache.clone();
            Box::pin(async move {
                let refreshed = config_cache.send(Refresh(client)).await.map_err(|err| err.to_string())?;
                refreshed.map_err(|err| err.to_string())
            })
        }),
        decisions: stores.decisions.clone(),
        decided: Arc::new(move || table.snapshot().decided().clone()),
        try_now: Arc::new(move |client| {
            let owners = owners.clone();
            Box::pin(async move { owners.try_now(&client).await })
        }),
        refresh_decided: Arc::new(move |()| {
            let config_cache = decided_cache.clone();
            Box::pin(async move {
                let read = config_cache.send(ReloadDecisions).await.map_err(|err| err.to_string())?;
                read.map_err(|err| err.to_string())
            })
        }),
        queues: Vec::new(),
        heavy_desk,
        can_resync: stores.resync.is_some(),
        log: stores.log.clone(),
        stash: stores.stash.clone(),
        stash_rows: stores.stash_rows.clone(),
        states: stores.states.clone(),
        clock,
        metrics: metrics.clone(),
        before_scrape: Arc::new(|()| Box::pin(async {})),
        actors: Arc::new(move || {
            registry.list().iter().filter_map(|status| serde_json::to_value(status).ok()).collect()
        }),
        restart_actor: Arc::new(|_| Box::pin(async { Err(NobodyActed::Unknown) })),
        delivery: Arc::new(move |client| {
            let cell = deliveries.get(DELIVERY_KIND, client.as_str())?;
            Some(Value::clone(&*cell.status().published?))
        }),
        operational_events: stores.operational_events.clone(),
        attempts: stores.attempts.clone(),
        recent_deliveries: recent_deliveries(fleet),
        dashboard,
        stores: stores.probes.clone(),
        readiness,
    })
}

/// The last ordinary deliveries of a client that is served here.
fn recent_deliveries(fleet: Addr<DeliveryFleetActor>) -> Ask<ClientId, Vec<Attempt>> {
    Arc::new(move |client| {
        let asked = fleet.send(RecentOf(client));
        Box::pin(async move { asked.await.unwrap_or_default() })
    })
}
