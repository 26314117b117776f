//! PostgreSQL: its stores for the contracts, and what only it can do wrong.

mod fencing;
mod outages;
mod plans;
mod tls;

use std::sync::Arc;

use dispatcher::backends::postgres::{Postgres, PostgresOptions, TlsMode};
use dispatcher::ports::BoxFuture;
use tokio::runtime::Handle;

use crate::fixture::{Backend, EmbeddedBackend, Stores};
use crate::log_registry::{Registered, RegistryBackend};
use crate::services::{self, Service};

/// A schema of its own on the server that all tests share. The log and the configs are embedded ones.
pub(crate) struct PostgresBackend {
    embedded: EmbeddedBackend,
    options: PostgresOptions,
}

impl PostgresBackend {
    pub(crate) fn new() -> Self {
        Self { embedded: EmbeddedBackend::new(), options: options(services::postgres()) }
    }

    async fn postgres(&self) -> Arc<Postgres> {
        Postgres::open(self.options.clone(), Handle::current()).await.unwrap()
    }
}

impl Backend for PostgresBackend {
    fn open(&self) -> BoxFuture<'_, Stores> {
        Box::pin(async {
            let (postgres, embedded) = (self.postgres().await, self.embedded.open().await);
            Stores { stash: postgres.stash(), states: postgres.states(), locks: postgres.locks(), ..embedded }
        })
    }
}

impl RegistryBackend for PostgresBackend {
    fn open(&self) -> BoxFuture<'_, Registered> {
        Box::pin(async {
            let postgres = self.postgres().await;
            Registered { registry: postgres.registry(), stash: postgres.stash() }
        })
    }
}

/// A schema of its own.
fn options(server: &Service) -> PostgresOptions {
    PostgresOptions {
        host: server.host().into(),
        port: server.port(),
        prefix: services::unique("test-"),
        tls: TlsMode::Disable,
        ..Default::default()
    }
}

/// A session of the test's own, which sees the tables of the options.
async fn client(options: &PostgresOptions) -> tokio_postgres::Client {
    let mut config = tokio_postgres::Config::new();
    config.host(&options.host).port(options.port).user("postgres").dbname(&options.database);
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("SET search_path TO \"{}dispatcher\"", options.prefix)).await.unwrap();
    client
}
