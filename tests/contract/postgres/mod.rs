//! PostgreSQL: its stores for the contracts, and what only it can do wrong.

mod clocks;
mod fencing;
mod large;
mod outages;
mod plans;
mod poison;
mod same_as_embedded;
mod tls;

use std::sync::Arc;

use dispatcher::backends::postgres::{OpenError, Postgres, PostgresOptions};
use dispatcher::domain::config::Secret;
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
        open(&self.options).await.unwrap()
    }
}

impl Backend for PostgresBackend {
    fn open(&self) -> BoxFuture<'_, Stores> {
        Box::pin(async {
            let (postgres, embedded) = (self.postgres().await, self.embedded.open().await);
            Stores {
                stash: postgres.stash(),
                states: postgres.states(),
                decisions: postgres.decisions(),
                locks: postgres.locks(),
                events: postgres.operational_events(),
                attempts: postgres.attempts(),
                audit: postgres.audit(),
                session_keys: postgres.session_keys(),
                stash_rows: postgres.stash_rows(),
                heavy_jobs: postgres.heavy_jobs(),
                ..embedded
            }
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
        url: Some(Secret::new(server.url())),
        prefix: services::unique("test_"),
        ..Default::default()
    }
}

/// The same schema at an address that differs from this one.
fn at(options: &PostgresOptions, change: impl FnOnce(&mut url::Url)) -> PostgresOptions {
    let mut url = url::Url::parse(options.url.as_ref().unwrap().expose()).unwrap();
    change(&mut url);
    PostgresOptions { url: Some(Secret::new(url.as_str())), ..options.clone() }
}

async fn open(options: &PostgresOptions) -> Result<Arc<Postgres>, OpenError> {
    Postgres::open(options.clone(), Handle::current()).await
}

/// A session of the test's own, which sees the tables of the options.
async fn client(options: &PostgresOptions) -> tokio_postgres::Client {
    let url = options.url.as_ref().unwrap().expose();
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("SET search_path TO \"{}dispatcher\"", options.prefix)).await.unwrap();
    client
}
