//! The configs of the clients.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use dispatcher::domain::config::{ClientConfig, ClientId, Status, read_value};
use dispatcher::ports::client_configs::{ClientConfigs, ConfigHint, ConfigNotice, Put, StoredConfig};
use dispatcher::ports::{BoxFuture, StoreResult};
use tokio::sync::Notify;

use super::Medium;

pub(crate) type Configs = HashMap<ClientId, StoredConfig>;

/// The configs as one process sees them.
pub(crate) struct MemoryConfigs {
    medium: Arc<Medium<Configs>>,
    notices: Arc<Notices>,
}

impl MemoryConfigs {
    pub(crate) fn new(medium: Arc<Medium<Configs>>, notices: Arc<Notices>) -> Self {
        Self { medium, notices }
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

/// Replaces a client's config.
pub(crate) fn put(configs: &mut Configs, client: &ClientId, status: Status, value: &str, now_ms: i64) -> Put {
    let before = configs.get(client);
    let version = before.map_or(0, |stored| stored.config.version) + 1;
    let known = before.is_some_and(|stored| !stored.config.deleted);
    let owner = Some(owner_of(client));
    let config = Arc::new(read_value(client, status, false, version, now_ms, owner, value));
    configs.insert(client.clone(), StoredConfig { config, value: value.to_owned() });
    if known { Put::Replaced } else { Put::Created }
}

/// Every client has an owner of its own.
pub(crate) fn owner_of(client: &ClientId) -> String {
    format!("owner-of-{client}")
}

/// Marks a client's config deleted.
pub(crate) fn delete(configs: &mut Configs, client: &ClientId) -> bool {
    let Some(stored) = configs.get_mut(client) else { return false };
    let known = !stored.config.deleted;
    let config = ClientConfig {
        deleted: true,
        version: stored.config.version + 1,
        ..ClientConfig::clone(&stored.config)
    };
    stored.config = Arc::new(config);
    known
}

impl ClientConfigs for MemoryConfigs {
    fn load(&self) -> BoxFuture<'_, StoreResult<Vec<StoredConfig>>> {
        Box::pin(self.medium.read(|configs| configs.values().cloned().collect()))
    }

    fn get<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<StoredConfig>>> {
        let client = client.clone();
        Box::pin(self.medium.read(move |configs| configs.get(&client).cloned()))
    }

    fn put<'a>(
        &'a self,
        client: &'a ClientId,
        status: Status,
        value: String,
        now_ms: i64,
    ) -> BoxFuture<'a, StoreResult<Put>> {
        let client = client.clone();
        Box::pin(self.medium.write(move |configs| put(configs, &client, status, &value, now_ms)))
    }

    fn delete<'a>(&'a self, client: &'a ClientId, _: i64) -> BoxFuture<'a, StoreResult<bool>> {
        let client = client.clone();
        Box::pin(self.medium.write(move |configs| delete(configs, &client)))
    }

    fn deactivate<'a>(&'a self, tried: &'a ClientConfig, now_ms: i64) -> BoxFuture<'a, StoreResult<bool>> {
        let tried = tried.clone();
        Box::pin(self.medium.write(move |configs| {
            let Some(stored) = configs.get(&tried.client).filter(|stored| stored.config.is_still(&tried))
            else {
                return false;
            };
            let value = stored.value.clone();
            put(configs, &tried.client, Status::Inactive, &value, now_ms);
            true
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

    fn changed(&self, _: ConfigHint) -> BoxFuture<'_, StoreResult<Option<ClientId>>> {
        Box::pin(async { Ok(None) }) // no source stage runs here
    }
}
