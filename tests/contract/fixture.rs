//! What all contracts start from: a backend that opens fresh stores, closes them, and opens them again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dispatcher::backends::embedded::{Embedded, EmbeddedOptions};
use dispatcher::domain::config::ClientId;
use dispatcher::domain::transfer::{
    DocumentHash, EventId, NewTransfer, Sequence, SourcePosition, Transfer, TransferKind,
};
use dispatcher::ports::BoxFuture;
use dispatcher::ports::attempts::Attempts;
use dispatcher::ports::audit::AuditLog;
use dispatcher::ports::client_configs::ClientConfigs;
use dispatcher::ports::client_states::ClientStates;
use dispatcher::ports::clock::SystemClock;
use dispatcher::ports::decisions::Decisions;
use dispatcher::ports::event_log::{BatchLimits, EventLog};
use dispatcher::ports::heavy_jobs::HeavyJobs;
use dispatcher::ports::job_queue::JobQueues;
use dispatcher::ports::locks::Locks;
use dispatcher::ports::operational_events::OperationalEvents;
use dispatcher::ports::session_keys::SessionKeys;
use dispatcher::ports::stash::Stash;
use dispatcher::ports::stash_rows::StashRows;

use crate::job_queue::QueueBackend;

/// The stores of a backend, open.
pub(crate) struct Stores {
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) stash: Arc<dyn Stash>,
    pub(crate) configs: Arc<dyn ClientConfigs>,
    pub(crate) states: Arc<dyn ClientStates>,
    pub(crate) decisions: Arc<dyn Decisions>,
    pub(crate) locks: Arc<dyn Locks>,
    pub(crate) events: Arc<dyn OperationalEvents>,
    pub(crate) attempts: Arc<dyn Attempts>,
    pub(crate) audit: Arc<dyn AuditLog>,
    pub(crate) session_keys: Arc<dyn SessionKeys>,
    pub(crate) stash_rows: Arc<dyn StashRows>,
    pub(crate) heavy_jobs: Arc<dyn HeavyJobs>,
    pub(crate) close: BoxFuture<'static, ()>,
}

impl Stores {
    /// The same with other configs and client states.
    #[cfg(feature = "cluster")]
    pub(crate) fn with(self, configs: Arc<dyn ClientConfigs>, states: Arc<dyn ClientStates>) -> Self {
        Self { configs, states, ..self }
    }

    /// Closes them, as a process does that stops.
    pub(crate) async fn close(self) {
        self.close.await;
    }
}

/// A technology under test. Empty at first; what was written is there when it is opened again.
pub(crate) trait Backend {
    fn open(&self) -> BoxFuture<'_, Stores>;
}

pub(crate) struct EmbeddedBackend {
    folder: tempfile::TempDir,
}

impl EmbeddedBackend {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Where its files are.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Backend for EmbeddedBackend {
    fn open(&self) -> BoxFuture<'_, Stores> {
        Box::pin(async {
            let embedded = open_embedded(self.folder.path()).await;
            Stores {
                log: embedded.log(),
                stash: embedded.stash(),
                configs: embedded.configs(),
                states: embedded.states(),
                decisions: embedded.decisions(),
                locks: embedded.locks(),
                events: embedded.operational_events(),
                attempts: embedded.attempts(),
                audit: embedded.audit(),
                session_keys: embedded.session_keys(),
                stash_rows: embedded.stash_rows(),
                heavy_jobs: embedded.heavy_jobs(),
                close: Box::pin(async move { embedded.close().await }),
            }
        })
    }
}

async fn open_embedded(folder: &Path) -> Embedded {
    let options = EmbeddedOptions {
        data_dir: folder.to_owned(),
        partitions: 12,
        retention: Duration::from_secs(7 * 24 * 3600),
        tail: BatchLimits { records: 4096, bytes: 16 << 20 },
        clock: Arc::new(SystemClock),
    };
    Embedded::open(options).await.unwrap()
}

/// The queues in a file.
pub(crate) struct SqliteQueues {
    embedded: Embedded,
    _folder: tempfile::TempDir,
}

impl SqliteQueues {
    pub(crate) async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { embedded: open_embedded(folder.path()).await, _folder: folder }
    }
}

impl QueueBackend for SqliteQueues {
    fn open(&self) -> Arc<dyn JobQueues> {
        self.embedded.queues()
    }
}

pub(crate) fn client(name: &str) -> ClientId {
    ClientId::new(name)
}

/// A transfer of change number `change` of a document.
pub(crate) fn new_transfer(client: &str, document: &str, change: i64) -> NewTransfer {
    let client = ClientId::new(client);
    let source = SourcePosition { topic: "mongo.wnx-identity.users".into(), partition: 0, offset: change };
    NewTransfer {
        document: format!("identity.users:{document}").into(),
        document_hash: DocumentHash::of("identity", "users", document),
        event_id: EventId::derive(&source, change, &client),
        client,
        kind: TransferKind::Live,
        source,
        traceparent: None,
        ts_ms: 1_764_435_600_000 + change,
        body: Bytes::from(format!("{{\"id\":\"{document}\",\"change\":{change}}}")),
    }
}

/// The same with its place in partition 3 of a log.
pub(crate) fn transfer(incarnation: u32, client: &str, document: &str, offset: i64) -> Arc<Transfer> {
    Arc::new(Transfer {
        sequence: Sequence { incarnation, partition: 3, offset },
        content: new_transfer(client, document, offset),
    })
}

/// Fails the test when this is not ready soon: it waits for what never comes.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("nothing came")
}

/// Whether this waits, now that all that could end it is known.
pub(crate) async fn waits<T>(future: impl Future<Output = T>) -> bool {
    tokio::time::timeout(Duration::from_millis(50), future).await.is_err()
}

#[cfg(feature = "cluster")]
pub(crate) struct BullMqBackend {
    prefix: String,
}

#[cfg(feature = "cluster")]
impl BullMqBackend {
    pub(crate) fn new() -> Self {
        Self { prefix: crate::services::unique("contract") }
    }
}

#[cfg(feature = "cluster")]
impl QueueBackend for BullMqBackend {
    fn open(&self) -> Arc<dyn JobQueues> {
        use dispatcher::backends::bullmq::{BullMq, BullMqOptions};
        let url = dispatcher::domain::config::Secret::new(crate::services::redis().url());
        Arc::new(BullMq::new(BullMqOptions::new(url, &self.prefix, Arc::new(SystemClock))))
    }
}
