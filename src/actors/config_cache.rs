//! `ConfigCacheActor`: the configs of all clients in memory, for routing and delivery.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::watch;

use super::delivery_fleet::ConfigChanged;
use crate::domain::config::{ClientConfig, ClientId};
use crate::metrics::Metrics;
use crate::ports::StoreResult;
use crate::ports::client_configs::{ClientConfigs, StoredConfig};
use crate::runtime::Cell;

/// How often everything is read again, in case a notification was missed.
const RELOAD_EVERY: Duration = Duration::from_secs(60);

type Table = HashMap<ClientId, Arc<ClientConfig>>;

/// Reads the cached configs; any thread.
#[derive(Clone)]
pub struct ConfigTable(watch::Receiver<Arc<Table>>);

impl ConfigTable {
    /// The config of a client, as of now.
    pub fn get(&self, client: &ClientId) -> Option<Arc<ClientConfig>> {
        self.0.borrow().get(client).cloned()
    }

    /// All configs as of now: a batch is routed by one state.
    pub fn snapshot(&self) -> Arc<Table> {
        self.0.borrow().clone()
    }
}

/// Writes the cached configs.
#[derive(Clone)]
pub struct ConfigTableWriter(Arc<watch::Sender<Arc<Table>>>);

/// An empty table.
pub fn config_table() -> (ConfigTableWriter, ConfigTable) {
    let (writer, reader) = watch::channel(Arc::default());
    (ConfigTableWriter(Arc::new(writer)), ConfigTable(reader))
}

/// Keeps the table equal to the store.
pub struct ConfigCacheActor {
    cell: Cell,
    store: Arc<dyn ClientConfigs>,
    table: ConfigTableWriter,
    changes: Recipient<ConfigChanged>,
    metrics: Metrics,
}

impl ConfigCacheActor {
    /// `changes` hears of every client whose config is another.
    pub fn new(
        cell: Cell,
        store: Arc<dyn ClientConfigs>,
        table: ConfigTableWriter,
        changes: Recipient<ConfigChanged>,
        metrics: Metrics,
    ) -> Self {
        Self { cell, store, table, changes, metrics }
    }

    /// Replaces the configs of `read` clients, and tells which are others now.
    fn replace(&self, clients: Option<&ClientId>, read: Vec<StoredConfig>) {
        let mut changed = Vec::new();
        self.table.0.send_modify(|table| {
            let mut next = if clients.is_some() { Table::clone(table) } else { Table::new() };
            if let Some(client) = clients {
                next.remove(client);
            }
            next.extend(read.into_iter().map(|stored| (stored.config.client.clone(), stored.config)));
            for (client, config) in &next {
                if table.get(client) != Some(config) {
                    changed.push(client.clone());
                }
            }
            changed.extend(table.keys().filter(|client| !next.contains_key(*client)).cloned());
            *table = Arc::new(next);
        });
        self.cell.publish(serde_json::json!({ "clients": self.table.0.borrow().len() }));
        for client in changed {
            self.changes.do_send(ConfigChanged(client));
        }
    }
}

impl Actor for ConfigCacheActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(RELOAD_EVERY, |_, ctx| ctx.notify(Reload));
        ctx.notify(Reload);
    }
}

impl Supervised for ConfigCacheActor {}

/// Reads all configs again. Answered when the table has them.
#[derive(Message)]
#[rtype(result = "StoreResult<()>")]
pub struct Reload;

impl Handler<Reload> for ConfigCacheActor {
    type Result = AtomicResponse<Self, StoreResult<()>>;

    fn handle(&mut self, _: Reload, _: &mut Self::Context) -> Self::Result {
        self.cell.handling("Reload");
        let store = self.store.clone();
        let read = async move { store.load().await }.into_actor(self);
        AtomicResponse::new(Box::pin(read.map(|read, actor, _| match read {
            Ok(configs) => {
                actor.replace(None, configs);
                Ok(())
            }
            Err(err) => {
                actor.metrics.store_errors.with_label_values(&["configs"]).inc();
                log::warn!("configs were not read again, the ones in memory stay err={err}");
                Err(err)
            }
        })))
    }
}

/// One client's config changed in the store. Answered when the table has it.
#[derive(Message)]
#[rtype(result = "StoreResult<()>")]
pub struct Refresh(pub ClientId);

impl Handler<Refresh> for ConfigCacheActor {
    type Result = AtomicResponse<Self, StoreResult<()>>;

    fn handle(&mut self, Refresh(client): Refresh, _: &mut Self::Context) -> Self::Result {
        self.cell.handling("Refresh");
        let store = self.store.clone();
        let read = async move {
            let read = store.get(&client).await;
            (client, read)
        };
        AtomicResponse::new(Box::pin(read.into_actor(self).map(|(client, read), actor, _| match read {
            Ok(config) => {
                actor.replace(Some(&client), config.into_iter().collect());
                Ok(())
            }
            Err(err) => {
                actor.metrics.store_errors.with_label_values(&["configs"]).inc();
                Err(err)
            }
        })))
    }
}
