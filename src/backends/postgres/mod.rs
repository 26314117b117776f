//! The stash, the states of clients, the decisions of operators, leases, heavy jobs, operational events, attempts, and what is remembered of logs, in
//! PostgreSQL.
//!
//! Everything stands in one schema of the database, `<prefix>dispatcher`. `database` runs all work; the other files implement
//! one port each.

/// Milliseconds since 1970 by the clock of the server, at this moment.
macro_rules! store_now_ms {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}

mod attempts;
mod audit;
mod client_states;
mod connect;
mod database;
mod decisions;
mod errors;
mod heavy_jobs;
mod locks;
mod log_registry;
mod migrations;
mod operational_events;
mod options;
mod probe;
mod schema;
mod session_keys;
mod stash;
mod tls;

use std::sync::Arc;

use diesel::sql_types::{BigInt, Bool, Text};
use diesel_async::RunQueryDsl as _;
use tokio::runtime::Handle;

use self::attempts::PgAttempts;
use self::audit::PgAuditLog;
use self::client_states::PgClientStates;
use self::connect::Connector;
use self::database::Database;
use self::decisions::PgDecisions;
use self::heavy_jobs::PgHeavyJobs;
use self::locks::PgLocks;
use self::log_registry::PgLogRegistry;
use self::operational_events::PgOperationalEvents;
pub use self::options::{OpenError, PostgresOptions, TlsMode};
pub use self::probe::probe;
use self::session_keys::PgSessionKeys;
use self::stash::{PgStash, PgStashRows};
use crate::domain::config::ClientId;
use crate::ports::attempts::Attempts;
use crate::ports::audit::AuditLog;
use crate::ports::client_states::ClientStates;
use crate::ports::clock::{Clock as _, SystemClock};
use crate::ports::decisions::Decisions;
use crate::ports::heavy_jobs::HeavyJobs;
use crate::ports::locks::Locks;
use crate::ports::log_registry::LogRegistry;
use crate::ports::operational_events::OperationalEvents;
use crate::ports::session_keys::SessionKeys;
use crate::ports::stash::Stash;
use crate::ports::stash_rows::StashRows;
use crate::ports::{StoreError, StoreResult};

/// The stores in PostgreSQL.
pub struct Postgres {
    database: Arc<Database>,
    stash: Arc<PgStash>,
    states: Arc<PgClientStates>,
    decisions: Arc<PgDecisions>,
    locks: Arc<PgLocks>,
    registry: Arc<PgLogRegistry>,
    events: Arc<PgOperationalEvents>,
    attempts: Arc<PgAttempts>,
    audit: Arc<PgAuditLog>,
    session_keys: Arc<PgSessionKeys>,
    stash_rows: Arc<PgStashRows>,
    heavy_jobs: Arc<PgHeavyJobs>,
}

/// What PostgreSQL says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Its version, as `15.8`.
    pub version: String,
    /// Its clock minus ours, in milliseconds.
    pub clock_skew_ms: i64,
}

#[derive(diesel::QueryableByName)]
struct HealthRow {
    #[diesel(sql_type = Text)]
    version: String,
    #[diesel(sql_type = BigInt)]
    now_ms: i64,
    #[diesel(sql_type = Bool)]
    read_only: bool,
}

impl Postgres {
    /// Connects, and brings the tables up to date. Everything, also what is asked later, runs on `runtime`, which drives
    /// time and I/O: a caller's thread that hangs stops no connection.
    ///
    /// # Errors
    /// [`OpenError::is_transient`] tells whether it is worth trying again.
    pub async fn open(options: PostgresOptions, runtime: Handle) -> Result<Arc<Self>, OpenError> {
        let connector = Arc::new(Connector::new(&options)?);
        migrations::run(Arc::clone(&connector), &runtime).await?;
        let database = Arc::new(Database::new(connector, options.pool_size, runtime));
        Ok(Arc::new(Self {
            stash: Arc::new(PgStash::new(Arc::clone(&database))),
            states: Arc::new(PgClientStates::new(Arc::clone(&database))),
            decisions: Arc::new(PgDecisions::new(Arc::clone(&database))),
            locks: Arc::new(PgLocks::new(Arc::clone(&database))),
            registry: Arc::new(PgLogRegistry::new(Arc::clone(&database))),
            events: Arc::new(PgOperationalEvents::new(Arc::clone(&database))),
            attempts: Arc::new(PgAttempts::new(Arc::clone(&database))),
            audit: Arc::new(PgAuditLog::new(Arc::clone(&database))),
            session_keys: Arc::new(PgSessionKeys::new(Arc::clone(&database))),
            stash_rows: Arc::new(PgStashRows::new(Arc::clone(&database))),
            heavy_jobs: Arc::new(PgHeavyJobs::new(Arc::clone(&database))),
            database,
        }))
    }

    /// Brings the tables up to date, as `open` does. Returns the names of the migrations that it ran.
    ///
    /// # Errors
    /// As those of `open`.
    pub async fn migrate(options: &PostgresOptions, runtime: &Handle) -> Result<Vec<String>, OpenError> {
        migrations::run(Arc::new(Connector::new(options)?), runtime).await
    }

    /// The stash.
    pub fn stash(&self) -> Arc<dyn Stash> {
        Arc::clone(&self.stash) as _
    }

    /// The client states.
    pub fn states(&self) -> Arc<dyn ClientStates> {
        Arc::clone(&self.states) as _
    }

    /// What operators decided.
    pub fn decisions(&self) -> Arc<dyn Decisions> {
        Arc::clone(&self.decisions) as _
    }

    /// The locks.
    pub fn locks(&self) -> Arc<dyn Locks> {
        Arc::clone(&self.locks) as _
    }

    /// What is remembered of logs.
    pub fn registry(&self) -> Arc<dyn LogRegistry> {
        Arc::clone(&self.registry) as _
    }

    /// The operational events.
    pub fn operational_events(&self) -> Arc<dyn OperationalEvents> {
        Arc::clone(&self.events) as _
    }

    /// The attempts to deliver.
    pub fn attempts(&self) -> Arc<dyn Attempts> {
        Arc::clone(&self.attempts) as _
    }

    /// What operators did.
    pub fn audit(&self) -> Arc<dyn AuditLog> {
        Arc::clone(&self.audit) as _
    }

    /// The key of browsers' sessions.
    pub fn session_keys(&self) -> Arc<dyn SessionKeys> {
        Arc::clone(&self.session_keys) as _
    }

    /// The rows of the stash as an operator sees them.
    pub fn stash_rows(&self) -> Arc<dyn StashRows> {
        Arc::clone(&self.stash_rows) as _
    }

    /// The heavy jobs.
    pub fn heavy_jobs(&self) -> Arc<dyn HeavyJobs> {
        Arc::clone(&self.heavy_jobs) as _
    }

    /// Whether it can be used right now, and how its clock goes.
    ///
    /// # Errors
    /// It is away, or takes no writes.
    pub async fn health(&self) -> StoreResult<Health> {
        const HEALTH: &str = "SELECT current_setting('server_version') AS version,
            (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms,
            current_setting('transaction_read_only')::bool AS read_only";
        self.database
            .run(|connection| {
                Box::pin(async {
                    let before_ms = SystemClock.now_ms();
                    let row: HealthRow = diesel::sql_query(HEALTH).get_result(connection).await?;
                    let middle_ms = before_ms + (SystemClock.now_ms() - before_ms) / 2;
                    if row.read_only {
                        return Err(StoreError::Unavailable("it takes no writes now".into()).into());
                    }
                    Ok(Health { version: row.version, clock_skew_ms: row.now_ms - middle_ms })
                })
            })
            .await
    }
}

/// A btree entry holds 2,704 bytes. No real id comes near this.
const LONGEST_KEY: usize = 1024;

/// Text as it stands in a column that has an index.
fn key(text: &str) -> StoreResult<&[u8]> {
    if text.len() > LONGEST_KEY {
        return Err(StoreError::Refused(format!("an id of {} bytes is too long", text.len())));
    }
    Ok(text.as_bytes())
}

/// Text that stands in a column of bytes.
fn text(bytes: Vec<u8>, what: &str) -> StoreResult<String> {
    String::from_utf8(bytes).map_err(|_| StoreError::Refused(format!("stored {what} is broken")))
}

fn client_id(bytes: Vec<u8>) -> StoreResult<ClientId> {
    Ok(ClientId::new(&text(bytes, "client")?))
}
