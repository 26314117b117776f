//! The configs of all clients, and the block list, as of one moment after another.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;

use crate::domain::config::{ClientConfig, ClientId};
use crate::domain::guard::{Decided, DecisionList, Subscriber};
use crate::ports::blocked_owners::BlockedOwners;
use crate::ports::client_configs::StoredConfig;
use crate::ports::paused_queues::PausedQueues;
use crate::ports::{BoxFuture, StoreResult};

type Table = HashMap<ClientId, Entry>;

/// What is known of one client.
#[derive(Debug, Clone)]
struct Entry {
    /// Its config; `None`: it has none.
    config: Option<Arc<ClientConfig>>,
    /// When the store was asked, milliseconds since 1970: what changed since is not known.
    read_at_ms: i64,
}

/// The configs and the block list as of one moment.
#[derive(Debug, Clone, Default)]
pub struct ConfigSnapshot {
    table: Arc<Table>,
    decided: Decided,
    /// When all were read: a client that is not in the table had no config then.
    loaded_at_ms: i64,
}

impl ConfigSnapshot {
    /// A client, with what is decided about its owner. `None`: it has no config.
    pub fn get(&self, client: &ClientId) -> Option<Subscriber> {
        self.stored(client).map(|config| self.decided.judge(config))
    }

    /// The blocked owners.
    pub fn blocked(&self) -> &DecisionList {
        &self.decided.blocked
    }

    /// What operators decided.
    pub fn decided(&self) -> &Decided {
        &self.decided
    }

    /// A config as it was read: to compare it with another.
    pub(in crate::actors) fn stored(&self, client: &ClientId) -> Option<&Arc<ClientConfig>> {
        self.table.get(client)?.config.as_ref()
    }

    /// When the client's config, or that it has none, was read, milliseconds since 1970.
    pub(in crate::actors) fn read_at_ms(&self, client: &ClientId) -> i64 {
        self.table.get(client).map_or(self.loaded_at_ms, |entry| entry.read_at_ms)
    }

    /// Of how many clients the changes go to a webhook.
    pub fn served(&self) -> usize {
        let configs = self.table.values().filter_map(|entry| entry.config.as_ref());
        configs.filter(|config| self.decided.judge(config).is_served()).count()
    }

    /// The configs of all clients, deleted ones too.
    pub(in crate::actors) fn configs(&self) -> impl Iterator<Item = &Arc<ClientConfig>> {
        self.table.values().filter_map(|entry| entry.config.as_ref())
    }

    /// How many clients have a config.
    pub(super) fn clients(&self) -> usize {
        self.table.values().filter(|entry| entry.config.is_some()).count()
    }
}

/// Reads the table; any thread.
#[derive(Clone)]
pub struct ConfigTable(watch::Receiver<ConfigSnapshot>);

impl ConfigTable {
    /// A client, as of now. `None`: it has no config.
    pub fn get(&self, client: &ClientId) -> Option<Subscriber> {
        self.0.borrow().get(client)
    }

    /// Everything as of now: a batch is routed by one state.
    pub fn snapshot(&self) -> ConfigSnapshot {
        self.0.borrow().clone()
    }
}

/// The guard of the workers. It never waits, and works while the stores are away.
impl BlockedOwners for ConfigTable {
    fn blocked<'a>(
        &'a self,
        owner: Option<&'a str>,
        client: &'a ClientId,
    ) -> BoxFuture<'a, StoreResult<Option<String>>> {
        let table = self.0.borrow();
        let decision = match owner {
            Some(owner) => table.decided.blocked.get(owner).map(|decision| decision.subject().to_string()),
            None => {
                table.get(client).and_then(|client| client.blocked().map(|made| made.subject().to_string()))
            }
        };
        Box::pin(std::future::ready(Ok(decision)))
    }
}

/// A queue that lost its pause gives jobs away; what was decided is known here.
impl PausedQueues for ConfigTable {
    fn is_paused(&self, queue: &str) -> bool {
        self.0.borrow().decided.queues.get(queue).is_some()
    }
}

/// Writes the table.
#[derive(Clone)]
pub struct ConfigTableWriter(Arc<watch::Sender<ConfigSnapshot>>);

/// An empty table.
pub fn config_table() -> (ConfigTableWriter, ConfigTable) {
    let (writer, reader) = watch::channel(ConfigSnapshot::default());
    (ConfigTableWriter(Arc::new(writer)), ConfigTable(reader))
}

impl ConfigTableWriter {
    /// The table as of now.
    pub(super) fn snapshot(&self) -> ConfigSnapshot {
        self.0.borrow().clone()
    }

    /// Puts what was read of these clients into the table. `asked`: `None`: all were read. Returns those that are others now.
    pub(in crate::actors) fn put(
        &self,
        asked: Option<&[ClientId]>,
        read: Vec<StoredConfig>,
        read_at_ms: i64,
    ) -> Vec<ClientId> {
        let mut changed = Vec::new();
        self.0.send_modify(|snapshot| {
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
        changed
    }

    /// From now on this is decided. Returns the clients for which that is something else.
    pub(in crate::actors) fn decide(&self, decided: Decided) -> Vec<ClientId> {
        let mut changed = Vec::new();
        self.0.send_if_modified(|snapshot| {
            if snapshot.decided == decided {
                return false;
            }
            let before = std::mem::replace(&mut snapshot.decided, decided);
            let others = snapshot.table.iter().filter(|(_, entry)| {
                let config = entry.config.as_ref();
                config.is_some_and(|config| before.judge(config) != snapshot.decided.judge(config))
            });
            changed.extend(others.map(|(client, _)| client.clone()));
            true
        });
        changed
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::domain::config::{Status, read_value};
    use crate::domain::decision::{Decision, Subject};

    fn stored(client: &str, owner: Option<&str>) -> StoredConfig {
        let value = r#"{"webhook": "http://a.test"}"#;
        let owner = owner.map(str::to_owned);
        let config = read_value(&ClientId::new(client), Status::Active, false, 1, 0, owner, value);
        StoredConfig { config: Arc::new(config), value: value.to_owned() }
    }

    fn blocked(owners: &[(&str, &str)]) -> Decided {
        Decided { blocked: list(owners), ..Decided::default() }
    }

    fn list(owners: &[(&str, &str)]) -> DecisionList {
        let made = owners
            .iter()
            .map(|(owner, reason)| Decision::new(Subject::parse(owner).unwrap(), "ops", reason, 0).unwrap());
        DecisionList::new(made)
    }

    #[test]
    fn only_clients_of_owners_with_another_decision_are_others() {
        let (writer, table) = config_table();
        writer.put(None, vec![stored("a", Some("one")), stored("b", Some("two")), stored("c", None)], 0);
        let changed = |owners: &[(&str, &str)]| {
            let mut clients = writer.decide(blocked(owners));
            clients.sort();
            clients.iter().map(|client| client.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(changed(&[("one", "x"), ("three", "x")]), ["a"]);
        assert!(table.get(&ClientId::new("a")).unwrap().blocked().is_some());
        assert!(changed(&[("one", "x"), ("three", "x")]).is_empty());
        assert_eq!(changed(&[("one", "y"), ("two", "y")]), ["a", "b"]);
        assert_eq!(changed(&[]), ["a", "b"]);
        assert!(table.get(&ClientId::new("a")).unwrap().blocked().is_none());
    }

    #[test]
    fn a_paused_client_is_another_and_nobody_else() {
        let (writer, table) = config_table();
        writer.put(None, vec![stored("a", Some("one")), stored("b", None)], 0);
        let paused = Decided { paused: list(&[("b", "tired"), ("unknown", "")]), ..Decided::default() };
        assert_eq!(writer.decide(paused.clone()), [ClientId::new("b")]);
        assert_eq!(table.get(&ClientId::new("b")).unwrap().paused().unwrap().reason(), "tired");
        assert!(!table.get(&ClientId::new("b")).unwrap().is_served());
        assert!(table.get(&ClientId::new("a")).unwrap().is_served());
        assert!(writer.decide(paused).is_empty());
        assert_eq!(writer.decide(Decided::default()), [ClientId::new("b")]);
    }

    #[test]
    fn the_guard_knows_who_owns_what() {
        let (writer, table) = config_table();
        writer.put(None, vec![stored("a", Some("bad")), stored("b", Some("good")), stored("c", None)], 0);
        writer.decide(blocked(&[("bad", "")]));
        let blocked = |owner: Option<&str>, client: &str| {
            table.blocked(owner, &ClientId::new(client)).now_or_never().unwrap().unwrap()
        };
        let bad = Some("bad".to_owned());
        assert_eq!(blocked(None, "a"), bad);
        assert_eq!(blocked(Some("bad"), "b"), bad, "the one whom the job names");
        assert_eq!(blocked(Some("good"), "a"), None);
        for client in ["b", "c", "unknown"] {
            assert_eq!(blocked(None, client), None, "{client}");
        }
    }
}
