//! The threads, the group commit, and what SQLite's errors do.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error};
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::super::TABLES;
use super::super::database::{Database, GROUP};
use super::super::errors::JobError;
use super::super::lock_file::LockFile;
use super::super::schema::locks;
use super::{Embedded, options, record};
use crate::ports::event_log::BatchLimits;
use crate::ports::{StoreError, StoreResult};

fn open(folder: &tempfile::TempDir) -> Database {
    let lock = Arc::new(LockFile::take(folder.path()).unwrap());
    Database::open(&folder.path().join("dispatcher.db"), lock, TABLES, 2).unwrap()
}

fn insert(connection: &mut SqliteConnection, key: &str) -> Result<(), JobError> {
    diesel::insert_into(locks::table)
        .values((locks::key.eq(key), locks::token.eq(1), locks::deadline_ms.eq(0)))
        .execute(connection)?;
    Ok(())
}

async fn keys(database: &Database) -> Vec<String> {
    database
        .read(|connection| Ok(locks::table.select(locks::key).order(locks::key).load(connection)?))
        .await
        .unwrap()
}

/// Keeps the writer busy until the sender is dropped: the jobs that are sent meanwhile become one group.
async fn hold(database: &Database) -> (mpsc::Sender<()>, impl Future<Output = Result<(), StoreError>>) {
    let (go, wait) = mpsc::channel::<()>();
    let (starts, started) = oneshot::channel();
    let mut held = Box::pin(database.write(move |_| {
        let _ = starts.send(());
        let _ = wait.recv();
        Ok(())
    }));
    assert!((&mut held).now_or_never().is_none(), "sent, and waits");
    started.await.unwrap();
    (go, held)
}

#[tokio::test]
async fn a_failing_job_rolls_back_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder);
    let (go, held) = hold(&database).await;
    let (held, first, twice, refused, panicked, last, ()) = tokio::join!(
        held,
        database.write(|connection| insert(connection, "first")),
        database.write(|connection| {
            insert(connection, "twice")?;
            insert(connection, "first")
        }),
        database.write(|connection| {
            insert(connection, "refused")?;
            Err::<(), _>(JobError::fenced("no"))
        }),
        database.write(|connection| {
            insert(connection, "panicked")?;
            if connection.batch_execute("SELECT 1").is_ok() {
                panic!("a mistake in a job");
            }
            Ok(())
        }),
        database.write(|connection| insert(connection, "last")),
        async { drop(go) },
    );
    held.unwrap();
    first.unwrap();
    last.unwrap();
    assert!(matches!(twice, Err(StoreError::Refused(_))));
    assert_eq!(refused, Err(StoreError::Fenced("no".into())));
    assert!(panicked.unwrap_err().is_transient());
    assert_eq!(keys(&database).await, ["first", "last"]);
    database.close().await;
}

#[tokio::test]
async fn jobs_that_wait_are_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder);
    let (go, held) = hold(&database).await;
    let (held, first, second, third, ()) = tokio::join!(
        held,
        database.write(|connection| insert(connection, "a")),
        database.write(|connection| insert(connection, "b")),
        database.write(|connection| {
            // Ends the transaction, and with it the group.
            connection.batch_execute("ROLLBACK")?;
            Ok(())
        }),
        async { drop(go) },
    );
    held.unwrap();
    for answer in [first, second, third] {
        assert!(answer.unwrap_err().is_transient(), "none of the group is written");
    }
    assert!(keys(&database).await.is_empty());
    database.write(|connection| insert(connection, "c")).await.unwrap();
    assert_eq!(keys(&database).await, ["c"], "the writer goes on");
    database.close().await;
}

#[tokio::test]
async fn bulk_lets_others_go_first() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder);
    let ran = Arc::new(Mutex::new(Vec::new()));
    let job = |name: &'static str| {
        let ran = Arc::clone(&ran);
        move |connection: &mut SqliteConnection| {
            ran.lock().unwrap().push(name);
            insert(connection, name)
        }
    };
    let (go, held) = hold(&database).await;
    let all = tokio::join!(
        held,
        database.write_bulk(job("bulk 1")),
        database.write_bulk(job("bulk 2")),
        database.write(job("other 1")),
        database.write(job("other 2")),
        async {
            drop(go);
            Ok(())
        },
    );
    for result in <[StoreResult<()>; 6]>::from(all) {
        result.unwrap();
    }
    // What held the writer was one of the others, so that it was a bulk job's turn.
    assert_eq!(*ran.lock().unwrap(), ["bulk 1", "other 1", "other 2", "bulk 2"]);
}

#[tokio::test]
async fn of_what_nobody_waits_for_one_goes_before_other_bulk() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder);
    let ran = Arc::new(Mutex::new(Vec::new()));
    let job = |name: String| {
        let ran = Arc::clone(&ran);
        move |connection: &mut SqliteConnection| {
            insert(connection, &name)?;
            ran.lock().unwrap().push(name);
            Ok(())
        }
    };
    let (go, held) = hold(&database).await;
    let spare = (0..20).map(|number| database.write_in_spare_time(job(format!("spare {number}"))));
    let (held, spare, bulk, ()) = tokio::join!(
        held,
        futures_util::future::try_join_all(spare),
        database.write_bulk(job("bulk".to_owned())),
        async { drop(go) },
    );
    held.and(bulk).unwrap();
    assert_eq!(spare.unwrap().len(), 20);
    assert_eq!(ran.lock().unwrap().iter().position(|name| name == "bulk"), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_has_its_turn_however_much_else_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder);
    let is_done = AtomicBool::new(false);
    let crowd = async {
        while !is_done.load(Relaxed) {
            // So many that whenever one commit has ended some wait for the next.
            futures_util::future::try_join_all((0..2 * GROUP).map(|_| database.write(|_| Ok(()))))
                .await
                .unwrap();
        }
    };
    let bulk = async {
        for number in 0..10 {
            database.write_bulk(move |connection| insert(connection, &number.to_string())).await.unwrap();
        }
        is_done.store(true, Relaxed);
    };
    tokio::time::timeout(Duration::from_secs(30), async { tokio::join!(crowd, bulk) }).await.unwrap();
    assert_eq!(keys(&database).await.len(), 10);
}

#[tokio::test]
async fn no_bulk_is_lost_when_the_file_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder);
    let (go, held) = hold(&database).await;
    let close = async {
        drop(go);
        database.close().await;
    };
    let more =
        (0..6).map(|number| database.write_bulk(move |connection| insert(connection, &format!("{number}"))));
    let (held, written, ()) = tokio::join!(held, futures_util::future::join_all(more), close);
    held.unwrap();
    let kept = written.iter().filter(|written| written.is_ok()).count();
    assert!(kept >= 4, "those that were sent: {written:?}");
    let database = open(&folder);
    assert_eq!(keys(&database).await.len(), kept, "what was answered is there, and nothing else");
}

#[tokio::test]
async fn a_write_is_done_when_nobody_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder);
    let (go, held) = hold(&database).await;
    let mut dropped = Box::pin(database.write(|connection| insert(connection, "a")));
    assert!((&mut dropped).now_or_never().is_none(), "sent, and waits");
    drop((held, dropped));
    drop(go);
    database.write(|_| Ok(())).await.unwrap();
    assert_eq!(keys(&database).await, ["a"]);
    database.close().await;
}

#[tokio::test]
async fn a_reader_cannot_write() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder);
    assert!(database.read(|connection| insert(connection, "a")).await.is_err());
    assert!(database.read(|_| -> Result<(), JobError> { panic!("a mistake") }).await.is_err());
    assert!(keys(&database).await.is_empty());
    database.close().await;
}

#[tokio::test]
async fn a_full_disk_writes_nothing_and_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(options(folder.path())).await.unwrap();
    let log = embedded.log();
    let consumer = log.source("g", BatchLimits { records: 100, bytes: 1 << 20 }).await.unwrap();
    log.append(vec![record("1")]).await.unwrap();
    let limit = |pages: &'static str| {
        embedded.database.write(move |connection| {
            Ok(connection.batch_execute(&format!("PRAGMA max_page_count = {pages}"))?)
        })
    };
    limit("1").await.unwrap(); // SQLite takes the size that it has
    let large = "x".repeat(1 << 20);
    let full = log.append(vec![record("2"), record(&large)]).await.unwrap_err();
    assert_eq!(full, StoreError::Unavailable("database or disk is full".into()));
    limit("1000000").await.unwrap();
    let positions = log.append(vec![record("3")]).await.unwrap();
    assert_eq!(positions[0].offset, 1, "the failed one took no place");
    let mut values = Vec::new();
    while values.len() < 2 {
        values.extend(consumer.next().await.unwrap().into_iter().filter_map(|record| record.value));
    }
    assert_eq!(values, ["1", "3"]);
    embedded.close().await;
}

#[tokio::test]
async fn a_connection_that_broke_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder);
    // It lives as long as the connection.
    let temporary = |sql: &'static str| database.write(move |connection| Ok(connection.batch_execute(sql)?));
    temporary("CREATE TEMP TABLE life (x)").await.unwrap();
    temporary("INSERT INTO life VALUES (1)").await.unwrap();
    let broken = database.write(|connection| {
        insert(connection, "a")?;
        let error = Box::new("disk I/O error".to_owned());
        Err::<(), _>(JobError::from(Error::DatabaseError(DatabaseErrorKind::Unknown, error)))
    });
    assert!(broken.await.unwrap_err().is_transient());
    assert!(temporary("INSERT INTO life VALUES (2)").await.is_err(), "it is another connection");
    database.write(|connection| insert(connection, "b")).await.unwrap();
    assert_eq!(keys(&database).await, ["b"]);
    database.close().await;
}
