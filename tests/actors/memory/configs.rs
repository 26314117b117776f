//! The configs of the clients.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};

use dispatcher::domain::config::{ClientConfig, ClientId, Status, read_value};
use dispatcher::ports::client_configs::{ClientConfigs, ConfigHint, ConfigNotice, Put, StoredConfig};
use dispatcher::ports::{BoxFuture, StoreResult};
use tokio::sync::Notify;
use url::Url;

use super::Medium;

/// The rules of the configs. A world without one of them shows what it is good for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConfigRules {
    /// A client that is not known to be active is looked up before it is skipped.
    pub(crate) looks_up: bool,
    /// Only the config that was tried is switched off.
    pub(crate) same_config: bool,
}

impl Default for ConfigRules {
    fn default() -> Self {
        Self { looks_up: true, same_config: true }
    }
}

#[derive(Default)]
pub(crate) struct Configs {
    rules: ConfigRules,
    stored: HashMap<ClientId, StoredConfig>,
    /// All changes so far.
    pub(crate) steps: Vec<ConfigStep>,
    processes: Vec<Weak<Notices>>,
}

/// A client's config became another.
#[derive(Debug, Clone)]
pub(crate) struct ConfigStep {
    pub(crate) at_ms: i64,
    pub(crate) client: ClientId,
    /// ACTIVE, and not deleted.
    pub(crate) active: bool,
    /// Where its changes go.
    pub(crate) webhook: Option<Url>,
    /// By the service itself.
    pub(crate) switched_off: bool,
}

impl Configs {
    pub(crate) fn with(rules: ConfigRules) -> Self {
        Self { rules, ..Self::default() }
    }

    pub(crate) fn is_active(&self, client: &ClientId) -> bool {
        self.stored.get(client).is_some_and(|stored| stored.config.is_active())
    }

    /// Replaces a client's config.
    pub(crate) fn put(&mut self, client: &ClientId, status: Status, value: &str, now_ms: i64) -> Put {
        let before = self.stored.get(client);
        let version = before.map_or(0, |stored| stored.config.version) + 1;
        let known = before.is_some_and(|stored| !stored.config.deleted);
        let owner = Some(owner_of(client));
        let config = Arc::new(read_value(client, status, false, version, now_ms, owner, value));
        self.stored.insert(client.clone(), StoredConfig { config, value: value.to_owned() });
        self.note(client, now_ms, false);
        if known { Put::Replaced } else { Put::Created }
    }

    /// Marks a client's config deleted.
    pub(crate) fn delete(&mut self, client: &ClientId, now_ms: i64) -> bool {
        let Some(stored) = self.stored.get_mut(client) else { return false };
        let known = !stored.config.deleted;
        let config = ClientConfig {
            deleted: true,
            version: stored.config.version + 1,
            ..ClientConfig::clone(&stored.config)
        };
        stored.config = Arc::new(config);
        self.note(client, now_ms, false);
        known
    }

    fn deactivate(&mut self, tried: &ClientConfig, now_ms: i64) -> bool {
        let still = |stored: &&StoredConfig| !self.rules.same_config || stored.config.is_still(tried);
        let Some(stored) = self.stored.get(&tried.client).filter(still) else { return false };
        let value = stored.value.clone();
        self.put(&tried.client, Status::Inactive, &value, now_ms);
        self.steps.pop();
        self.note(&tried.client, now_ms, true);
        self.tell(&tried.client);
        true
    }

    fn note(&mut self, client: &ClientId, at_ms: i64, switched_off: bool) {
        let config = &self.stored[client].config;
        let webhook = config.delivery.as_ref().ok().map(|settings| settings.webhook.clone());
        let (client, active) = (client.clone(), config.is_active());
        self.steps.push(ConfigStep { at_ms, client, active, webhook, switched_off });
    }

    /// Tells all processes.
    fn tell(&mut self, client: &ClientId) {
        self.processes.retain(|process| process.strong_count() > 0);
        for process in self.processes.iter().filter_map(Weak::upgrade) {
            process.tell(ConfigNotice::Changed(client.clone()));
        }
    }
}

/// The configs as one process sees them.
pub(crate) struct MemoryConfigs {
    medium: Arc<Medium<Configs>>,
    notices: Arc<Notices>,
    /// The versions of which this process was told by the source.
    known: Mutex<HashMap<ClientId, i64>>,
}

impl MemoryConfigs {
    pub(crate) fn new(medium: Arc<Medium<Configs>>, notices: Arc<Notices>) -> Self {
        medium.data().processes.push(Arc::downgrade(&notices));
        Self { medium, notices, known: Mutex::default() }
    }
}

/// What a process is told of the configs by the others.
#[derive(Default)]
pub(crate) struct Notices {
    told: Mutex<VecDeque<ConfigNotice>>,
    changed: Notify,
}

impl Notices {
    pub(crate) fn tell(&self, notice: ConfigNotice) {
        self.told.lock().unwrap().push_back(notice);
        self.changed.notify_one();
    }
}

/// Every client has an owner of its own.
pub(crate) fn owner_of(client: &ClientId) -> String {
    format!("owner-of-{client}")
}

impl ClientConfigs for MemoryConfigs {
    fn load(&self) -> BoxFuture<'_, StoreResult<Vec<StoredConfig>>> {
        Box::pin(self.medium.read(|configs| configs.stored.values().cloned().collect()))
    }

    fn get<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<StoredConfig>>> {
        let client = client.clone();
        Box::pin(self.medium.read(move |configs| configs.stored.get(&client).cloned()))
    }

    fn put<'a>(
        &'a self,
        client: &'a ClientId,
        status: Status,
        value: String,
        now_ms: i64,
    ) -> BoxFuture<'a, StoreResult<Put>> {
        let client = client.clone();
        Box::pin(self.medium.write(move |configs| configs.put(&client, status, &value, now_ms)))
    }

    fn delete<'a>(&'a self, client: &'a ClientId, now_ms: i64) -> BoxFuture<'a, StoreResult<bool>> {
        let client = client.clone();
        Box::pin(self.medium.write(move |configs| configs.delete(&client, now_ms)))
    }

    fn deactivate<'a>(&'a self, tried: &'a ClientConfig, now_ms: i64) -> BoxFuture<'a, StoreResult<bool>> {
        let tried = tried.clone();
        Box::pin(self.medium.write(move |configs| configs.deactivate(&tried, now_ms)))
    }

    fn recheck(&self, clients: Vec<ClientId>, _: i64) -> BoxFuture<'_, StoreResult<Vec<StoredConfig>>> {
        Box::pin(self.medium.read(move |configs| {
            let wanted = clients.iter().filter(|_| configs.rules.looks_up);
            wanted.filter_map(|client| configs.stored.get(client).cloned()).collect()
        }))
    }

    fn next_notice(&self) -> BoxFuture<'_, ConfigNotice> {
        Box::pin(async {
            loop {
                if let Some(notice) = self.notices.told.lock().unwrap().pop_front() {
                    return notice;
                }
                self.notices.changed.notified().await;
            }
        })
    }

    /// The id of a client's config document is that of the client.
    fn changed(&self, hint: ConfigHint) -> BoxFuture<'_, StoreResult<Option<ClientId>>> {
        let client = ClientId::new(&hint.document_id);
        Box::pin(async move {
            let asked = client.clone();
            let read = move |configs: &mut Configs| {
                let version = configs.stored.get(&asked).map(|stored| stored.config.version);
                configs.tell(&asked);
                version
            };
            let version = self.medium.write(read).await?;
            let mut known = self.known.lock().unwrap();
            let newer = version.filter(|version| known.insert(client.clone(), *version) != Some(*version));
            Ok(newer.map(|_| client))
        })
    }
}
