//! The tables, made and brought up to date.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::migration::MigrationSource;
use diesel::pg::Pg;
use diesel::sql_types::{BigInt, Bool, Text};
use diesel_async::async_connection_wrapper::AsyncConnectionWrapper;
use diesel_async::{AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness as _, embed_migrations};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;

use super::connect::Connector;
use super::options::OpenError;

const MIGRATIONS: EmbeddedMigrations = embed_migrations!("migrations/postgres");

/// Another replica may be at it: its statements may take long on large tables.
const PATIENCE: &str =
    "SET statement_timeout = 0; SET lock_timeout = '120s'; SET idle_in_transaction_session_timeout = 0";

/// The same time: whatever fails later may have waited in vain for a lock.
const LOCK_PATIENCE: Duration = Duration::from_secs(120);

#[derive(diesel::QueryableByName)]
struct Exists {
    #[diesel(sql_type = Bool)]
    found: bool,
}

/// Runs what is missing, one process at a time. Returns the names of what it ran.
pub(super) async fn run(connector: Arc<Connector>, runtime: &Handle) -> Result<Vec<String>, OpenError> {
    let ended = |error: tokio::task::JoinError| OpenError::Migrations(error.to_string());
    let task = runtime.spawn(async move {
        let mut connection = connector.connect().await?.connection;
        let began = Instant::now();
        if let Err(error) = prepare(&mut connection, connector.schema()).await {
            let answers = connection.batch_execute("SELECT 1").await.is_ok();
            return Err(why(error.to_string(), answers, began.elapsed()));
        }
        // Blocking, so on a thread that may block. The lock is of the session: it goes when this ends, in whatever way.
        let migrated = tokio::task::spawn_blocking(move || {
            let mut connection = AsyncConnectionWrapper::<AsyncPgConnection>::from(connection);
            let ran = connection.run_pending_migrations(MIGRATIONS);
            let ran = ran.map(|ran| ran.iter().map(ToString::to_string).collect());
            ran.map_err(|error| {
                let answers = SimpleConnection::batch_execute(&mut connection, "SELECT 1").is_ok();
                why(error.to_string(), answers, began.elapsed())
            })
        });
        migrated.await.map_err(ended)?
    });
    task.await.map_err(ended)?
}

/// An error that nobody has to mend: the server went away, or somebody had a lock for longer than we wait. The driver keeps no codes, and
/// messages are in the server's language; so what fails late is tried again, and is told as what it is if it fails at once then.
fn why(error: String, answers: bool, took: Duration) -> OpenError {
    if answers && took < LOCK_PATIENCE {
        OpenError::Migrations(error)
    } else {
        OpenError::Unavailable(format!("migrations: {error}"))
    }
}

/// The versions of all that this build knows, as the table of the applied has them.
pub(super) fn versions() -> BTreeSet<String> {
    let known = MigrationSource::<Pg>::migrations(&MIGRATIONS).unwrap_or_default();
    known.iter().map(|migration| migration.name().version().to_string()).collect()
}

/// Waits until nobody else migrates, and makes the schema. It is asked for first: to create what is there needs the
/// right to create.
async fn prepare(connection: &mut AsyncPgConnection, schema: &str) -> diesel::QueryResult<()> {
    connection.batch_execute(PATIENCE).await?;
    diesel::sql_query("SELECT pg_advisory_lock($1)")
        .bind::<BigInt, _>(lock_number(schema))
        .execute(connection)
        .await?;
    let exists: Exists =
        diesel::sql_query("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1) AS found")
            .bind::<Text, _>(schema)
            .get_result(connection)
            .await?;
    if !exists.found {
        connection.batch_execute(&format!("CREATE SCHEMA \"{schema}\"")).await?;
    }
    Ok(())
}

/// Advisory locks have numbers, one space for the whole database.
fn lock_number(schema: &str) -> i64 {
    let hash = Sha256::digest(format!("dispatcher migrations {schema}"));
    let mut number = [0; 8];
    number.copy_from_slice(&hash[..8]);
    i64::from_be_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_somebody_must_mend_ends_the_start() {
        let second = Duration::from_secs(1);
        let of = |answers, took| why("permission denied".into(), answers, took).is_transient();
        assert!(!of(true, second), "it was told at once, by a server that lives");
        assert!(of(false, second), "the server is away");
        assert!(of(true, LOCK_PATIENCE), "a lock was not let go");
        assert!(PATIENCE.contains(&format!("lock_timeout = '{}s'", LOCK_PATIENCE.as_secs())));
    }
}
