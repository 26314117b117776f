//! What the contract of the event log starts from. A broker is shared by all tests: each has topics and groups of its own.

use std::sync::Arc;
use std::time::Duration;

use dispatcher::ports::BoxFuture;
use dispatcher::ports::event_log::EventLog;

use crate::fixture::{Backend, EmbeddedBackend};

/// A log, open.
pub(crate) struct OpenLog {
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) names: String,
    /// After this time nothing comes any more of what was written.
    pub(crate) quiet: Duration,
    pub(crate) close: BoxFuture<'static, ()>,
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
