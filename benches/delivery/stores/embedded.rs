//! Embedded mode: a data folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dispatcher::backends::embedded::{Embedded, EmbeddedOptions};
use dispatcher::ports::clock::SystemClock;
use dispatcher::ports::event_log::{BatchLimits, NewRecord};

use crate::changes::{Change, TOPIC, Writer};
use crate::clock::now_us;

/// Records that are written in one transaction.
const BATCH: usize = 1000;

/// A data folder.
pub(crate) struct DataFolder(PathBuf);

impl DataFolder {
    pub(super) fn below(folder: &Path) -> Self {
        Self(folder.join("data"))
    }

    pub(super) fn environment(&self) -> Vec<(String, String)> {
        vec![
            ("DISPATCHER_MODE".to_owned(), "embedded".to_owned()),
            ("DISPATCHER_DATA_DIR".to_owned(), self.0.display().to_string()),
        ]
    }

    /// Appends to the source log, as the service does that answers a POST. The service has made the file before.
    pub(super) async fn load(
        &self,
        writer: &Writer,
        changes: impl Iterator<Item = Change>,
    ) -> anyhow::Result<()> {
        let embedded = Embedded::open(EmbeddedOptions {
            data_dir: self.0.clone(),
            // The log exists: it keeps its own number.
            partitions: 1,
            retention: Duration::MAX,
            tail: BatchLimits { records: 1, bytes: 1 },
            clock: Arc::new(SystemClock),
        })
        .await?;
        let sent_us = now_us();
        let mut records = changes
            .map(|change| NewRecord {
                topic: TOPIC.into(),
                key: Some(writer.key(change).into()),
                value: Some(writer.value(change, sent_us).into()),
                headers: vec![],
            })
            .peekable();
        while records.peek().is_some() {
            embedded.log().append(records.by_ref().take(BATCH).collect()).await?;
        }
        embedded.close().await;
        Ok(())
    }
}
