//! What the service works on, in each mode: how it is told where that is, and how changes get into the source.

#[cfg(feature = "cluster")]
mod cluster;
mod embedded;

use std::path::Path;

use crate::changes::{Change, ClientConfig, Writer};
use crate::service::Service;

/// Which stores are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One SQLite file.
    Embedded,
    /// Kafka, Redis, MongoDB, PostgreSQL.
    #[cfg(feature = "cluster")]
    Cluster,
}

/// Stores of a scenario's own, empty at first.
pub(crate) enum Stores {
    /// A data folder.
    Embedded(embedded::DataFolder),
    /// Names in each store.
    #[cfg(feature = "cluster")]
    Cluster(cluster::Names),
}

impl Mode {
    /// The word in the settings.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            #[cfg(feature = "cluster")]
            Self::Cluster => "cluster",
        }
    }

    /// All modes of this build.
    pub(crate) fn all() -> Vec<Self> {
        vec![
            Self::Embedded,
            #[cfg(feature = "cluster")]
            Self::Cluster,
        ]
    }

    /// Stores that nobody has used. What embedded mode keeps is below `folder`.
    ///
    /// # Errors
    /// The stores of cluster mode cannot be started or reached.
    pub(crate) async fn fresh(self, folder: &Path) -> anyhow::Result<Stores> {
        Ok(match self {
            Self::Embedded => Stores::Embedded(embedded::DataFolder::below(folder)),
            #[cfg(feature = "cluster")]
            Self::Cluster => Stores::Cluster(cluster::Names::fresh().await?),
        })
    }
}

impl Stores {
    /// What the service is started with.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        match self {
            Self::Embedded(data) => data.environment(),
            #[cfg(feature = "cluster")]
            Self::Cluster(names) => names.environment(),
        }
    }

    /// Makes clients while no service runs, ACTIVE.
    ///
    /// # Errors
    /// They are not written.
    pub(crate) async fn put_clients(&self, clients: &[ClientConfig]) -> anyhow::Result<()> {
        match self {
            Self::Embedded(data) => data.put_clients(clients).await,
            #[cfg(feature = "cluster")]
            Self::Cluster(names) => names.put_clients(clients).await,
        }
    }

    /// Puts changes into the source while no service runs.
    ///
    /// # Errors
    /// They are not written.
    pub(crate) async fn load(
        &self,
        writer: &Writer,
        changes: impl Iterator<Item = Change>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Embedded(data) => data.load(writer, changes).await,
            #[cfg(feature = "cluster")]
            Self::Cluster(names) => names.load(writer, changes).await,
        }
    }

    /// Sends changes to the source of a service that runs, each with the time at which it is due, and waits until they are taken.
    ///
    /// # Errors
    /// They are not.
    pub(crate) async fn send(
        &self,
        service: &Service,
        writer: &Writer,
        changes: &[(Change, u64)],
    ) -> anyhow::Result<()> {
        match self {
            Self::Embedded(_) => {
                let records = changes.iter().map(|(change, due_us)| writer.record(*change, *due_us));
                service.post_events(records.collect()).await
            }
            #[cfg(feature = "cluster")]
            Self::Cluster(names) => names.send(writer, changes).await,
        }
    }
}
