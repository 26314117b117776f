//! PostgreSQL away, back, hanging, empty, and not letting us in.

use std::time::{Duration, Instant};

use dispatcher::backends::postgres::{OpenError, Postgres, PostgresOptions};
use dispatcher::ports::StoreError;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;

use super::{PostgresBackend, at, client, open, options};
use crate::fixture::soon;
use crate::services;

#[tokio::test]
async fn it_goes_on_after_postgres_was_killed() {
    let server = services::own_postgres();
    let options = options(&server);
    let postgres = open(&options).await.unwrap();
    let (stash, locks) = (postgres.stash(), postgres.locks());
    // Several sessions, all of which die.
    let owners = (0..4).map(|partition| stash.take_ownership(1, partition, 0));
    futures_util::future::try_join_all(owners).await.unwrap();
    let lease = locks.acquire("k", 60_000).await.unwrap().unwrap();
    server.kill();
    let began = Instant::now();
    assert!(matches!(stash.take_ownership(1, 3, 0).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(postgres.health().await, Err(StoreError::Unavailable(_))));
    assert!(open(&options).await.err().unwrap().is_transient());
    assert!(began.elapsed() < Duration::from_secs(5), "who waits for an answer is told at once");
    server.start_again();
    let back = Instant::now();
    assert_eq!(stash.take_ownership(1, 3, 0).await.unwrap().epoch, 2);
    assert!(locks.renew(&lease, 60_000).await.unwrap());
    assert!(back.elapsed() < Duration::from_secs(2));
    let health = postgres.health().await.unwrap();
    assert!(
        health.clock_skew_ms.abs() < 1_000
            && health.version.starts_with(|digit: char| digit.is_ascii_digit())
    );
}

/// A server that takes connections and says nothing, as one that is stopped or behind a broken network.
#[tokio::test]
async fn a_silent_server_is_unavailable() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = PostgresOptions {
        port: silent.local_addr().unwrap().port(),
        connect_timeout: Duration::from_millis(200),
        ..Default::default()
    };
    assert!(soon(open(&options)).await.err().unwrap().is_transient());
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_no_session_with_it() {
    let backend = PostgresBackend::new();
    let options = PostgresOptions { pool_size: 1, ..backend.options.clone() };
    let stash = open(&options).await.unwrap().stash();
    for _ in 0..5 {
        let (mut call, mut once) = (stash.take_ownership(1, 3, 0), false);
        // Begun, and dropped.
        std::future::poll_fn(|context| {
            let begun = std::mem::replace(&mut once, true) || call.as_mut().poll(context).is_ready();
            if begun { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
    assert_eq!(soon(stash.take_ownership(1, 3, 0)).await.unwrap().epoch, 6, "each was done");
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_no_outage() {
    let backend = PostgresBackend::new();
    let missing = at(&backend.options, |url| url.set_path("nowhere"));
    let error = open(&missing).await.err().unwrap();
    assert!(matches!(&error, OpenError::Rejected(why) if why.contains("nowhere")), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_no_outage() {
    let server = services::own_with_password(services::Kind::Postgres);
    let options = options(&server);
    assert!(open(&options).await.is_ok());
    let wrong = at(&options, |url| url.set_password(Some("wr0ng")).unwrap());
    let error = open(&wrong).await.err().unwrap();
    assert!(matches!(&error, OpenError::Rejected(why) if why.contains("password")), "{error}");
    assert!(!error.to_string().contains("wr0ng"), "{error}");
}

#[tokio::test]
async fn replicas_that_start_at_once_migrate_once() {
    let backend = PostgresBackend::new();
    let runtime = Handle::current();
    let replicas = (0..5).map(|_| Postgres::migrate(&backend.options, &runtime));
    let ran = futures_util::future::try_join_all(replicas).await.unwrap();
    assert_eq!(ran.iter().filter(|ran| !ran.is_empty()).count(), 1, "{ran:?}");
    assert!(Postgres::migrate(&backend.options, &runtime).await.unwrap().is_empty());
}

/// What is lost on the way is waited for, as at the beginning.
#[tokio::test]
async fn a_server_that_dies_during_the_migrations_is_an_outage() {
    for by_advice in [true, false] {
        let server = services::own_postgres();
        let options = options(&server);
        open(&options).await.unwrap();
        let holder = client(&options).await;
        let hold = match by_advice {
            true => {
                format!("SELECT pg_advisory_lock({})", lock_number(&format!("{}dispatcher", options.prefix)))
            }
            false => "BEGIN; LOCK TABLE __diesel_schema_migrations".into(),
        };
        holder.batch_execute(&hold).await.unwrap();
        let opening = tokio::spawn(async move { open(&options).await });
        let waiting = "SELECT FROM pg_locks WHERE NOT granted";
        soon(async {
            while holder.query(waiting, &[]).await.unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        server.kill();
        let error = soon(opening).await.unwrap().err().unwrap();
        assert!(error.is_transient(), "{error}");
    }
}

/// As the service makes it.
fn lock_number(schema: &str) -> i64 {
    let hash = Sha256::digest(format!("dispatcher migrations {schema}"));
    i64::from_be_bytes(hash[..8].try_into().unwrap())
}

/// A role that may not create a schema starts in one that was made for it.
#[tokio::test]
async fn a_schema_that_is_there_needs_no_right_to_create_one() {
    let backend = PostgresBackend::new();
    let (admin, role) = (client(&backend.options).await, services::unique("role"));
    let schema = format!("{}dispatcher", backend.options.prefix);
    admin
        .batch_execute(&format!("CREATE ROLE {role} LOGIN; CREATE SCHEMA \"{schema}\" AUTHORIZATION {role}"))
        .await
        .unwrap();
    let options = at(&backend.options, |url| url.set_username(&role).unwrap());
    assert_eq!(open(&options).await.unwrap().stash().take_ownership(1, 3, 0).await.unwrap().epoch, 1);
    let elsewhere = PostgresOptions { prefix: services::unique("other_"), ..options };
    assert!(
        matches!(open(&elsewhere).await, Err(OpenError::Migrations(why)) if why.contains("permission denied"))
    );
}

/// What one session waits for is bounded, and told as what it is.
#[tokio::test]
async fn a_lock_that_is_never_let_go_is_an_outage() {
    let backend = PostgresBackend::new();
    let stash = backend.postgres().await.stash();
    let holder = client(&backend.options).await;
    holder.batch_execute("BEGIN; LOCK TABLE partitions IN ACCESS EXCLUSIVE MODE").await.unwrap();
    assert!(matches!(soon(stash.take_ownership(1, 3, 0)).await, Err(StoreError::Unavailable(_))));
    holder.batch_execute("COMMIT").await.unwrap();
    assert_eq!(stash.take_ownership(1, 3, 0).await.unwrap().epoch, 1);
}
