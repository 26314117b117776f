//! Embedded mode: a data folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dispatcher::backends::embedded::{Embedded, EmbeddedOptions, OpenError};
use dispatcher::domain::config::{ClientId, Status};
use dispatcher::ports::clock::SystemClock;
use dispatcher::ports::event_log::{BatchLimits, NewRecord};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::changes::{Change, ClientConfig, EVENT_MS, TOPIC, Writer};
use crate::clock::now_us;

/// Partitions of the transfer log, as in `config/default.toml`.
const PARTITIONS: u32 = 12;

/// Configs that are written at a time.
const PUTS: usize = 64;

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

    pub(super) async fn put_clients(&self, clients: &[ClientConfig]) -> anyhow::Result<()> {
        let embedded = self.open().await?;
        let configs = embedded.configs();
        let puts = clients.iter().map(|ClientConfig { id, value }| {
            let configs = configs.clone();
            async move {
                configs.put(&ClientId::new(id.as_str()), Status::Active, value.to_string(), EVENT_MS).await?;
                anyhow::Ok(())
            }
        });
        stream::iter(puts).buffer_unordered(PUTS).try_collect::<()>().await?;
        embedded.close().await;
        Ok(())
    }

    /// Appends to the source log, as the service does that answers a POST.
    pub(super) async fn load(
        &self,
        writer: &Writer,
        changes: impl Iterator<Item = Change>,
    ) -> anyhow::Result<()> {
        let embedded = self.open().await?;
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

    async fn open(&self) -> Result<Embedded, OpenError> {
        let options = EmbeddedOptions {
            data_dir: self.0.clone(),
            partitions: PARTITIONS,
            // What follows matters to a service only.
            retention: Duration::MAX,
            tail: BatchLimits { records: 1, bytes: 1 },
            clock: Arc::new(SystemClock),
        };
        Embedded::open(options).await
    }
}
