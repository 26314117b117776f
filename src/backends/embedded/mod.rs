//! Everything in two SQLite files, `<data_dir>/dispatcher.db` and, for the queues, `queues.db` beside it: durable, and fit for use on
//! one machine.
//!
//! `database` runs all statements; the other files implement one port each.

mod attempts;
mod audit;
mod client_configs;
mod client_states;
mod database;
mod decisions;
mod errors;
mod event_log;
mod heavy_jobs;
mod job;
mod job_queue;
mod lock_file;
mod locks;
mod operational_events;
mod probe;
mod schema;
mod session_keys;
mod stash;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use diesel::dsl::update;
use diesel::prelude::*;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};

use self::attempts::SqliteAttempts;
use self::audit::SqliteAuditLog;
use self::client_configs::SqliteClientConfigs;
use self::client_states::SqliteClientStates;
use self::database::Database;
use self::decisions::SqliteDecisions;
use self::event_log::SqliteEventLog;
use self::heavy_jobs::SqliteHeavyJobs;
use self::job_queue::SqliteQueues;
use self::lock_file::LockFile;
use self::locks::SqliteLocks;
use self::operational_events::SqliteOperationalEvents;
pub use self::probe::probe;
use self::schema::{health, locks as locks_table};
use self::session_keys::SqliteSessionKeys;
use self::stash::{SqliteStash, SqliteStashRows};
use crate::ports::attempts::Attempts;
use crate::ports::audit::AuditLog;
use crate::ports::client_configs::ClientConfigs;
use crate::ports::client_states::ClientStates;
use crate::ports::clock::Clock;
use crate::ports::decisions::Decisions;
use crate::ports::event_log::{BatchLimits, EventLog};
use crate::ports::heavy_jobs::HeavyJobs;
use crate::ports::job_queue::JobQueues;
use crate::ports::locks::Locks;
use crate::ports::operational_events::OperationalEvents;
use crate::ports::session_keys::SessionKeys;
use crate::ports::stash::Stash;
use crate::ports::stash_rows::StashRows;
use crate::ports::{BoxFuture, StoreError, StoreResult};

const TABLES: EmbeddedMigrations = embed_migrations!("migrations/sqlite");
const QUEUE_TABLES: EmbeddedMigrations = embed_migrations!("migrations/sqlite-queues");

/// How to open the embedded stores.
#[derive(Clone)]
pub struct EmbeddedOptions {
    /// The folder; it is made when it is missing.
    pub data_dir: PathBuf,
    /// Partitions of the transfer log, when this creates it: they stay as they are afterwards.
    pub partitions: u32,
    /// How long records that every group has committed are kept.
    pub retention: Duration,
    /// How much of the newest of each stream stays in memory, so that it is handed over without reading the file.
    pub tail: BatchLimits,
    /// The time of appended records, of the stash and of the queues.
    pub clock: Arc<dyn Clock>,
}

/// Why the stores could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process works there: a data folder has one.
    #[error("data folder {} is in use by another process", .0.display())]
    DataDirInUse(PathBuf),
    /// The folder or a file in it cannot be used.
    #[error("{}: {error}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// SQLite cannot use a file; says which.
    #[error("{0}")]
    Database(String),
}

/// The embedded stores.
pub struct Embedded {
    database: Arc<Database>,
    log: Arc<SqliteEventLog>,
    stash: Arc<SqliteStash>,
    configs: Arc<SqliteClientConfigs>,
    states: Arc<SqliteClientStates>,
    decisions: Arc<SqliteDecisions>,
    locks: Arc<SqliteLocks>,
    events: Arc<SqliteOperationalEvents>,
    attempts: Arc<SqliteAttempts>,
    audit: Arc<SqliteAuditLog>,
    session_keys: Arc<SqliteSessionKeys>,
    stash_rows: Arc<SqliteStashRows>,
    heavy_jobs: Arc<SqliteHeavyJobs>,
    queue_database: Arc<Database>,
    queues: Arc<SqliteQueues>,
}

impl Embedded {
    /// Opens or creates the stores.
    ///
    /// # Errors
    /// Another process has the folder, or it cannot be used.
    pub async fn open(options: EmbeddedOptions) -> Result<Self, OpenError> {
        let data_dir = std::path::absolute(&options.data_dir)
            .map_err(|error| OpenError::Folder { path: options.data_dir.clone(), error })?;
        make_folder(&data_dir)?;
        let lock = Arc::new(LockFile::take(&data_dir)?);
        let path = data_dir.join("dispatcher.db");
        let database = Arc::new(Database::open(&path, Arc::clone(&lock), TABLES, 2)?);
        let path = data_dir.join("queues.db");
        let queue_database = Arc::new(Database::open(&path, lock, QUEUE_TABLES, 1)?);
        let failed = |error: StoreError| OpenError::Database(format!("dispatcher.db: {error}"));
        expire_leases(&database).await.map_err(failed)?;
        let log = SqliteEventLog::open(Arc::clone(&database), &options).await.map_err(failed)?;
        let stash = SqliteStash::new(Arc::clone(&database), log.incarnation(), Arc::clone(&options.clock));
        let queues = SqliteQueues::open(Arc::clone(&queue_database), Arc::clone(&options.clock)).await;
        let queues = queues.map_err(|error| OpenError::Database(format!("queues.db: {error}")))?;
        Ok(Self {
            log: Arc::new(log),
            stash: Arc::new(stash),
            configs: Arc::new(SqliteClientConfigs::new(Arc::clone(&database))),
            states: Arc::new(SqliteClientStates::new(Arc::clone(&database))),
            decisions: Arc::new(SqliteDecisions::new(Arc::clone(&database))),
            locks: Arc::new(SqliteLocks::new(Arc::clone(&database), Arc::clone(&options.clock))),
            events: Arc::new(SqliteOperationalEvents::new(Arc::clone(&database))),
            attempts: Arc::new(SqliteAttempts::new(Arc::clone(&database))),
            audit: Arc::new(SqliteAuditLog::new(Arc::clone(&database), Arc::clone(&options.clock))),
            session_keys: Arc::new(SqliteSessionKeys::new(Arc::clone(&database))),
            stash_rows: Arc::new(SqliteStashRows::new(Arc::clone(&database))),
            heavy_jobs: Arc::new(SqliteHeavyJobs::new(Arc::clone(&database))),
            queues: Arc::new(queues),
            queue_database,
            database,
        })
    }

    /// The event log.
    pub fn log(&self) -> Arc<dyn EventLog> {
        Arc::clone(&self.log) as _
    }

    /// The stash.
    pub fn stash(&self) -> Arc<dyn Stash> {
        Arc::clone(&self.stash) as _
    }

    /// The client configs.
    pub fn configs(&self) -> Arc<dyn ClientConfigs> {
        Arc::clone(&self.configs) as _
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

    /// The queues.
    pub fn queues(&self) -> Arc<dyn JobQueues> {
        Arc::clone(&self.queues) as _
    }

    /// How often the log was read from the file instead of from memory: after a restart, or by who fell behind.
    pub fn log_file_reads(&self) -> u64 {
        self.log.file_reads()
    }

    /// Writes and reads a row, and has the queues' file open: whether the files can be used right now.
    pub fn health(&self) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async {
            self.queue_database.write(|_| Ok(())).await?;
            let asked = self
                .database
                .write(|connection| {
                    Ok(diesel::insert_into(health::table)
                        .values((health::id.eq(1), health::asked.eq(1)))
                        .on_conflict(health::id)
                        .do_update()
                        .set(health::asked.eq(health::asked + 1))
                        .returning(health::asked)
                        .get_result::<i64>(connection)?)
                })
                .await?;
            self.database
                .read(move |connection| {
                    let found: i64 = health::table.select(health::asked).first(connection)?;
                    debug_assert!(found >= asked);
                    Ok(())
                })
                .await
        })
    }

    /// Removes what every group has committed and what is older than the retention, a part at a time. Returns how many
    /// records went; with nothing to do it costs a look at the oldest ones.
    pub fn housekeeping(&self, now_ms: i64) -> BoxFuture<'_, StoreResult<u64>> {
        Box::pin(self.log.remove_old(now_ms))
    }

    /// Finishes what waits, wakes consumers with an error, closes the files and lets the folder go. Later calls of any
    /// store are `Unavailable`.
    pub async fn close(&self) {
        self.log.close();
        self.queue_database.close().await;
        self.database.close().await;
    }
}

/// Only this process may hold a lease in this folder, and it has just begun: what an earlier life held is free.
async fn expire_leases(database: &Database) -> StoreResult<()> {
    database
        .write(|connection| {
            update(locks_table::table)
                .set((locks_table::token.eq(locks_table::token + 1), locks_table::deadline_ms.eq(0)))
                .execute(connection)?;
            Ok(())
        })
        .await
}

/// Tokens of webhooks stand in the file: a new folder is for its owner only.
fn make_folder(path: &Path) -> Result<(), OpenError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|error| OpenError::Folder { path: path.to_owned(), error })
}
