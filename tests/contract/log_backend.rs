//! What the contract of the event log starts from. A broker is shared by all tests: each has topics and groups of its own.

use std::sync::Arc;
use std::time::Duration;

use dispatcher::ports::BoxFuture;
use dispatcher::ports::event_log::EventLog;

use crate::fixture::{Backend, EmbeddedBackend};

/// A log, open.
pub(crate) struct OpenLog {
    pub(crate) log: Arc<dyn EventLog>,
    names: String,
    /// After this time nothing comes any more of what was written.
    quiet: Duration,
    close: BoxFuture<'static, ()>,
}

impl OpenLog {
    /// A source topic.
    pub(crate) fn topic(&self, collection: &str) -> String {
        format!("{}.db.{collection}", self.names)
    }

    /// A group.
    pub(crate) fn group(&self, name: &str) -> String {
        format!("{}-{name}", self.names)
    }

    /// Whether this waits, now that all that was written is known.
    pub(crate) async fn waits<T>(&self, future: impl Future<Output = T>) -> bool {
        tokio::time::timeout(self.quiet, future).await.is_err()
    }

    /// Closes it, as a process does that stops.
    pub(crate) async fn close(self) {
        self.close.await;
    }
}

/// A log under test. Empty at first; what was written is there when it is opened again.
pub(crate) trait LogBackend {
    fn open(&self) -> BoxFuture<'_, OpenLog>;
}

impl LogBackend for EmbeddedBackend {
    fn open(&self) -> BoxFuture<'_, OpenLog> {
        Box::pin(async {
            let stores = Backend::open(self).await;
            OpenLog {
                log: stores.log.clone(),
                names: "mongo".to_owned(),
                quiet: Duration::from_millis(50),
                close: Box::pin(stores.close()),
            }
        })
    }
}

#[cfg(feature = "cluster")]
pub(crate) use on_kafka::KafkaBackend;

#[cfg(feature = "cluster")]
mod on_kafka {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use dispatcher::backends::kafka::{KafkaEventLog, KafkaOptions, Start};
    use dispatcher::metrics::Metrics;
    use dispatcher::ports::StoreResult;
    use dispatcher::ports::clock::SystemClock;
    use dispatcher::ports::log_registry::{KnownLog, LogRegistry};

    use super::*;
    use crate::services;

    pub(crate) struct KafkaBackend {
        options: KafkaOptions,
        registry: Arc<Registry>,
    }

    impl KafkaBackend {
        pub(crate) fn new() -> Self {
            let kafka = services::kafka();
            let names = services::unique("contract");
            let options = KafkaOptions {
                brokers: format!("{}:{}", kafka.host(), kafka.port()),
                options: BTreeMap::new(),
                transfer_topic: format!("{names}-transfer"),
                dead_topic: format!("{names}-dead"),
                source_prefix: names,
                start: Start::Earliest,
                partitions: 12,
                retention: Duration::from_secs(3600),
                session_timeout: Duration::from_secs(10),
            };
            Self { options, registry: Arc::default() }
        }
    }

    impl LogBackend for KafkaBackend {
        fn open(&self) -> BoxFuture<'_, OpenLog> {
            Box::pin(async {
                let (options, registry) = (self.options.clone(), self.registry.clone());
                let log =
                    KafkaEventLog::open(options, registry, Arc::new(SystemClock), Metrics::new()).await;
                let log = Arc::new(log.unwrap());
                OpenLog {
                    log: log.clone(),
                    names: self.options.source_prefix.clone(),
                    quiet: Duration::from_millis(1_500),
                    close: Box::pin(async move { log.close().await }),
                }
            })
        }
    }

    /// A registry in memory.
    #[derive(Default)]
    struct Registry {
        logs: Mutex<BTreeMap<String, KnownLog>>,
        groups: Mutex<Vec<String>>,
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
}
