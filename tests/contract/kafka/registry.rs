//! A registry in memory.

use std::collections::BTreeMap;
use std::sync::Mutex;

use dispatcher::ports::log_registry::{KnownLog, LogRegistry};
use dispatcher::ports::{BoxFuture, StoreResult};

#[derive(Default)]
pub(crate) struct Registry {
    logs: Mutex<BTreeMap<String, KnownLog>>,
    groups: Mutex<Vec<String>>,
}

impl Registry {
    /// As the owner of a partition does after a commit.
    pub(super) fn committed(&self, name: &str, partition: u32, next: i64) {
        self.logs.lock().unwrap().get_mut(name).unwrap().committed.insert(partition, next);
    }
}

impl LogRegistry for Registry {
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, StoreResult<Option<KnownLog>>> {
        Box::pin(async move { Ok(self.logs.lock().unwrap().get(name).cloned()) })
    }

    fn register<'a>(
        &'a self,
        name: &'a str,
        partitions: u32,
        known: Option<u32>,
    ) -> BoxFuture<'a, StoreResult<KnownLog>> {
        Box::pin(async move {
            let mut logs = self.logs.lock().unwrap();
            let newest = logs.get(name).map(|log| log.incarnation);
            if newest == known {
                let incarnation = logs.values().map(|log| log.incarnation).max().unwrap_or(0) + 1;
                let log = KnownLog { incarnation, partitions, committed: BTreeMap::new() };
                logs.insert(name.to_owned(), log);
            }
            Ok(logs[name].clone())
        })
    }

    fn is_new_group<'a>(&'a self, group: &'a str) -> BoxFuture<'a, StoreResult<bool>> {
        Box::pin(async move {
            let mut groups = self.groups.lock().unwrap();
            let is_new = !groups.iter().any(|known| known == group);
            groups.push(group.to_owned());
            Ok(is_new)
        })
    }
}
