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
use crate::ports::client_configs::{ClientConfigs, ConfigNotice, StoredConfig};
use crate::ports::clock::Clock;
use crate::runtime::Cell;

/// How often everything is read again, in case a notification was missed.
const RELOAD_EVERY: Duration = Duration::from_secs(60);

/// The wait before the store is asked again about what a notice told of; it doubles up to the second.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

type Table = HashMap<ClientId, Entry>;

/// What is known of one client.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its config; `None`: it has none.
    pub config: Option<Arc<ClientConfig>>,
    /// When the store was asked, milliseconds since 1970: what changed since is not known.
    pub read_at_ms: i64,
}

/// The configs as of one moment.
#[derive(Debug, Clone, Default)]
pub struct ConfigSnapshot {
    table: Arc<Table>,
    /// When all were read: a client that is not in the table had no config then.
    loaded_at_ms: i64,
}

impl ConfigSnapshot {
    /// The config of a client.
    pub fn get(&self, client: &ClientId) -> Option<&Arc<ClientConfig>> {
        self.table.get(client)?.config.as_ref()
    }

    /// When the client's config, or that it has none, was read, milliseconds since 1970.
    pub fn read_at_ms(&self, client: &ClientId) -> i64 {
        self.table.get(client).map_or(self.loaded_at_ms, |entry| entry.read_at_ms)
    }
}

/// Reads the cached configs; any thread.
#[derive(Clone)]
pub struct ConfigTable(watch::Receiver<ConfigSnapshot>);

impl ConfigTable {
    /// The config of a client, as of now.
    pub fn get(&self, client: &ClientId) -> Option<Arc<ClientConfig>> {
        self.0.borrow().get(client).cloned()
    }

    /// All configs as of now: a batch is routed by one state.
    pub fn snapshot(&self) -> ConfigSnapshot {
        self.0.borrow().clone()
    }
}

/// Writes the cached configs.
#[derive(Clone)]
pub struct ConfigTableWriter(Arc<watch::Sender<ConfigSnapshot>>);

/// An empty table.
pub fn config_table() -> (ConfigTableWriter, ConfigTable) {
    let (writer, reader) = watch::channel(ConfigSnapshot::default());
    (ConfigTableWriter(Arc::new(writer)), ConfigTable(reader))
}

/// Keeps the table equal to the store.
pub struct ConfigCacheActor {
    cell: Cell,
    store: Arc<dyn ClientConfigs>,
    table: ConfigTableWriter,
    changes: Recipient<ConfigChanged>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    /// That the store cannot be read: said once.
    said_away: bool,
}

impl ConfigCacheActor {
    /// `changes` hears of every client whose config is another.
    pub fn new(
        cell: Cell,
        store: Arc<dyn ClientConfigs>,
        table: ConfigTableWriter,
        changes: Recipient<ConfigChanged>,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
    ) -> Self {
        Self { cell, store, table, changes, clock, metrics, said_away: false }
    }

    /// Puts what was read of these clients into the table, and tells which are others now. `asked`: `None`: all were read.
    fn replace(&self, asked: Option<&[ClientId]>, read: Vec<StoredConfig>, read_at_ms: i64) {
        let mut changed = Vec::new();
        self.table.0.send_modify(|snapshot| {
            let table = &snapshot.table;
            let mut next = if asked.is_some() { Table::clone(table) } else { Table::new() };
            // Of whom there is nothing it is known that there is nothing.
            let nothing = asked.unwrap_or_default().iter().map(|client| (client.clone(), None));
            let something =
                read.into_iter().map(|stored| (stored.config.client.clone(), Some(stored.config)));
            for (client, config) in nothing.chain(something) {
                next.insert(client, Entry { config, read_at_ms });
            }
            let config = |table: &Table, client: &ClientId| table.get(client)?.config.clone();
            let touched = match asked {
                Some(asked) => asked.to_vec(),
                None => next
                    .keys()
                    .chain(table.keys().filter(|client| !next.contains_key(*client)))
                    .cloned()
                    .collect(),
            };
            changed
                .extend(touched.into_iter().filter(|client| config(table, client) != config(&next, client)));
            if asked.is_none() {
                snapshot.loaded_at_ms = read_at_ms;
            }
            snapshot.table = Arc::new(next);
        });
        let count = self.table.0.borrow().table.values().filter(|entry| entry.config.is_some()).count();
        self.cell.publish(serde_json::json!({ "clients": count }));
        for client in changed {
            self.changes.do_send(ConfigChanged(client));
        }
    }

    /// Reads again what other replicas say has changed, for ever.
    fn follow_notices(&self, ctx: &mut Context<Self>) {
        let (store, actor) = (self.store.clone(), ctx.address());
        let follow = async move {
            loop {
                let notice = store.next_notice().await;
                let mut wait = ASK_AGAIN.0;
                loop {
                    let read = match &notice {
                        ConfigNotice::Changed(client) => actor.send(Refresh(client.clone())).await,
                        ConfigNotice::Missed => actor.send(Reload).await,
                    };
                    match read {
                        Ok(Ok(())) => break,
                        Ok(Err(_)) => {}
                        // The actor ends.
                        Err(_) => return,
                    }
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(ASK_AGAIN.1);
                }
            }
        };
        ctx.spawn(follow.into_actor(self));
    }
}

impl Actor for ConfigCacheActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(RELOAD_EVERY, |_, ctx| ctx.notify(Reload));
        ctx.notify(Reload);
        self.follow_notices(ctx);
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
        let (store, read_at_ms) = (self.store.clone(), self.clock.now_ms());
        let read = async move { store.load().await }.into_actor(self);
        AtomicResponse::new(Box::pin(read.map(move |read, actor, _| match read {
            Ok(configs) => {
                actor.replace(None, configs, read_at_ms);
                if std::mem::take(&mut actor.said_away) {
                    log::info!("configs are read again");
                }
                Ok(())
            }
            Err(err) => {
                actor.metrics.store_errors.with_label_values(&["configs"]).inc();
                if !std::mem::replace(&mut actor.said_away, true) {
                    log::warn!("configs were not read again, the ones in memory stay err={err}");
                }
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
        let (store, read_at_ms) = (self.store.clone(), self.clock.now_ms());
        let read = async move {
            let read = store.get(&client).await;
            (client, read)
        };
        AtomicResponse::new(Box::pin(read.into_actor(self).map(move |(client, read), actor, _| match read {
            Ok(config) => {
                actor.replace(Some(&[client]), config.into_iter().collect(), read_at_ms);
                Ok(())
            }
            Err(err) => {
                actor.metrics.store_errors.with_label_values(&["configs"]).inc();
                Err(err)
            }
        })))
    }
}

/// Configs that somebody read from the store. Answered when the table has them, unless it has newer ones.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Learn {
    /// What was read.
    pub configs: Vec<StoredConfig>,
    /// When it was asked for, milliseconds since 1970.
    pub read_at_ms: i64,
}

impl Handler<Learn> for ConfigCacheActor {
    type Result = ();

    fn handle(&mut self, Learn { mut configs, read_at_ms }: Learn, _: &mut Self::Context) {
        self.cell.handling("Learn");
        let snapshot = self.table.0.borrow().clone();
        configs.retain(|stored| snapshot.read_at_ms(&stored.config.client) <= read_at_ms);
        let clients: Vec<_> = configs.iter().map(|stored| stored.config.client.clone()).collect();
        self.replace(Some(&clients), configs, read_at_ms);
    }
}
