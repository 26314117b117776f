//! The client configs in MongoDB, where the platform keeps them: `<prefix>-context.configs`, documents with key `CQRS`.
//!
//! What MongoDB says now is the truth. Change events are hints to read it again, so an old event that comes again brings no
//! old value back. Redis spares MongoDB questions that another replica has asked (`recheck`), and carries the notices; it
//! may be away.
//!
//! Beside them stand the documents of all its databases, for resyncs to read.

mod check;
mod debezium_json;
mod documents;
mod link;
mod memory;
mod options;
mod probe;
mod reads;
mod source_documents;
mod writes;

use std::sync::Arc;

use tokio::runtime::Handle;

pub use self::check::{MongoServer, PreImages, Topology};
pub use self::options::{MongoOptions, MongoOptionsError};
pub use self::probe::probe;

use self::link::MongoLink;
use self::memory::Memory;
use self::source_documents::MongoDocuments;
use crate::backends::redis::Redis;
use crate::domain::config::{ClientConfig, ClientId, Status};
use crate::ports::client_configs::{ClientConfigs, ConfigHint, ConfigNotice, Put, StoredConfig};
use crate::ports::clock::Clock;
use crate::ports::documents::Documents;
use crate::ports::{BoxFuture, StoreError, StoreResult};

/// The configs in MongoDB, with copies and notices in Redis.
pub struct MongoClientConfigs {
    store: Arc<Store>,
    handle: Handle,
}

/// All that a call needs. Calls run on the runtime of the driver: whoever asks may go away.
struct Store {
    link: MongoLink,
    redis: Arc<Redis>,
    clock: Arc<dyn Clock>,
    memory: Memory,
}

impl MongoClientConfigs {
    /// Prepares the connection; MongoDB need not be there. Calls run on `handle`.
    ///
    /// # Errors
    /// The options make no connection string.
    pub fn open(
        options: &MongoOptions,
        redis: Arc<Redis>,
        clock: Arc<dyn Clock>,
        handle: Handle,
    ) -> Result<Self, MongoOptionsError> {
        let link = MongoLink::new(options)?;
        Ok(Self { store: Arc::new(Store { link, redis, clock, memory: Memory::default() }), handle })
    }

    /// The documents of the platform's databases.
    pub fn documents(&self) -> Arc<dyn Documents> {
        Arc::new(MongoDocuments::new(self))
    }

    /// Asks it, within seconds.
    ///
    /// # Errors
    /// Why it does not answer.
    pub fn health(&self) -> BoxFuture<'_, StoreResult<()>> {
        self.run(|store| async move { store.link.ping().await })
    }

    /// What the server says of itself.
    ///
    /// # Errors
    /// It does not answer.
    pub fn server(&self) -> BoxFuture<'_, StoreResult<MongoServer>> {
        self.run(|store| async move { check::server(&store.link).await })
    }

    /// The collections of the platform's databases, and whether they keep pre-images.
    ///
    /// # Errors
    /// It does not answer, or listing is not allowed.
    pub fn pre_images(&self) -> BoxFuture<'_, StoreResult<Vec<PreImages>>> {
        self.run(|store| async move { check::pre_images(&store.link).await })
    }

    /// Whether configs may be written. Changes nothing.
    ///
    /// # Errors
    /// It does not answer.
    pub fn can_write(&self) -> BoxFuture<'_, StoreResult<bool>> {
        self.run(|store| async move { check::can_write(&store.link).await })
    }

    fn run<'a, T, F>(
        &'a self,
        call: impl FnOnce(Arc<Store>) -> F + Send + 'a,
    ) -> BoxFuture<'a, StoreResult<T>>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        Box::pin(async {
            let task = self.handle.spawn(call(Arc::clone(&self.store)));
            task.await
                .unwrap_or_else(|err| Err(StoreError::Unavailable(format!("mongodb: call ended: {err}"))))
        })
    }
}

impl ClientConfigs for MongoClientConfigs {
    fn load(&self) -> BoxFuture<'_, StoreResult<Vec<StoredConfig>>> {
        self.run(|store| async move { store.load().await })
    }

    fn get<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<StoredConfig>>> {
        let client = client.clone();
        self.run(|store| async move { store.get(&client).await })
    }

    fn put<'a>(
        &'a self,
        client: &'a ClientId,
        status: Status,
        value: String,
        now_ms: i64,
    ) -> BoxFuture<'a, StoreResult<Put>> {
        let client = client.clone();
        self.run(move |store| async move { store.put(&client, status, &value, now_ms).await })
    }

    fn delete<'a>(&'a self, client: &'a ClientId, now_ms: i64) -> BoxFuture<'a, StoreResult<bool>> {
        let client = client.clone();
        self.run(move |store| async move { store.delete(&client, now_ms).await })
    }

    fn deactivate<'a>(&'a self, tried: &'a ClientConfig, now_ms: i64) -> BoxFuture<'a, StoreResult<bool>> {
        let tried = tried.clone();
        self.run(move |store| async move { store.deactivate(&tried, now_ms).await })
    }

    fn recheck(
        &self,
        clients: Vec<ClientId>,
        as_of_ms: i64,
    ) -> BoxFuture<'_, StoreResult<Vec<StoredConfig>>> {
        self.run(move |store| async move { store.recheck(clients, as_of_ms).await })
    }

    fn next_notice(&self) -> BoxFuture<'_, ConfigNotice> {
        Box::pin(self.store.redis.next_notice())
    }

    fn changed(&self, hint: ConfigHint) -> BoxFuture<'_, StoreResult<Option<ClientId>>> {
        self.run(move |store| async move { store.changed(hint).await })
    }
}
