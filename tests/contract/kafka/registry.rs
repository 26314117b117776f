//! A registry in memory.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use dispatcher::ports::log_registry::{GroupBegin, KnownLog, LogRegistry};
use dispatcher::ports::{BoxFuture, StoreResult};

#[derive(Default)]
pub(crate) struct Registry {
    logs: Mutex<BTreeMap<String, KnownLog>>,
    /// When somebody set out to begin it; `None`: it has begun.
    groups: Mutex<BTreeMap<String, Option<Instant>>>,
}

impl Registry {
    /// As the owner of a partition does after a commit.
    pub(super) fn committed(&self, name: &str, partition: u32, next: i64) {
        self.logs.lock().unwrap().get_mut(name).unwrap().committed.insert(partition, next);
    }
}

impl Registry {
    /// As a replica does that set out to begin a group so long ago, and died on the way.
    pub(super) fn left(&self, group: &str, ago: Duration) {
        let asked = Instant::now().checked_sub(ago).unwrap();
        self.groups.lock().unwrap().insert(group.to_owned(), Some(asked));
    }

    pub(super) fn has_begun(&self, group: &str) -> bool {
        self.groups.lock().unwrap().get(group).is_some_and(Option::is_none)
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

    fn begin_group<'a>(&'a self, group: &'a str, within: Duration) -> BoxFuture<'a, StoreResult<GroupBegin>> {
        Box::pin(async move {
            let mut groups = self.groups.lock().unwrap();
            let Some(asked) = groups.get(group).copied() else {
                groups.insert(group.to_owned(), Some(Instant::now()));
                return Ok(GroupBegin::Ours);
            };
            Ok(match asked {
                None => GroupBegin::Known,
                Some(asked) if asked.elapsed() < within => GroupBegin::Others,
                Some(_) => {
                    groups.insert(group.to_owned(), Some(Instant::now()));
                    GroupBegin::Ours
                }
            })
        })
    }

    fn group_begun<'a>(&'a self, group: &'a str) -> BoxFuture<'a, StoreResult<()>> {
        Box::pin(async move {
            self.groups.lock().unwrap().insert(group.to_owned(), None);
            Ok(())
        })
    }
}
