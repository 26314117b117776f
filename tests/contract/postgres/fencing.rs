//! An old owner whose write hangs while another takes its partition.

use std::time::Duration;

use dispatcher::backends::postgres::Postgres;
use dispatcher::domain::stash::{NewRow, StashWrite};
use dispatcher::ports::StoreError;
use dispatcher::ports::stash::{Ownership, StashBatch};

use super::{PostgresBackend, client};
use crate::fixture::{soon, transfer, waits};

fn insert(owner: Ownership, offset: i64) -> Vec<StashBatch> {
    let row = NewRow { transfer: transfer(owner.incarnation, "a", "d", offset), failure: None, claim: None };
    vec![StashBatch {
        client: crate::fixture::client("a"),
        ownership: owner,
        lease: None,
        writes: vec![StashWrite::Insert(row)],
    }]
}

/// The write began under its epoch: the next owner waits for it, and then sees its row.
#[tokio::test]
async fn the_next_owner_waits_for_a_write_that_began() {
    let backend = PostgresBackend::new();
    let (old, new) = (backend.postgres().await, backend.postgres().await);
    let owner = old.stash().take_ownership(1, 3, 0).await.unwrap();
    let other = client(&backend.options).await;
    other.batch_execute("BEGIN; LOCK TABLE stash IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let stash = old.stash();
    let writing = tokio::spawn(async move { stash.apply(insert(owner, 5)).await });
    until_one_waits(&backend, "INSERT INTO stash%").await;
    let stash = new.stash();
    let mut taking = tokio::spawn(async move { stash.take_ownership(1, 3, 0).await });
    assert!(waits(&mut taking).await, "the epoch rises only when no write of the one before can land");
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(soon(writing).await.unwrap().unwrap(), [Ok(())]);
    let next = soon(taking).await.unwrap().unwrap();
    assert!(next.epoch > owner.epoch);
    let (a, event) = (crate::fixture::client("a"), transfer(1, "a", "d", 5).event_id.clone());
    let known = new.stash().check(&a, vec![], vec![event]).await.unwrap();
    assert_eq!(known.stashed.len(), 1, "it reads what is there after it took over");
}

/// The write is behind the next owner: it looks at the epoch as it is when it gets the row, not as it was when it began.
#[tokio::test]
async fn a_write_that_waits_behind_the_next_owner_is_refused() {
    let backend = PostgresBackend::new();
    let old = backend.postgres().await;
    let owner = old.stash().take_ownership(1, 3, 0).await.unwrap();
    let next = client(&backend.options).await;
    next.batch_execute("BEGIN; UPDATE partitions SET epoch = epoch + 1").await.unwrap();
    let stash = old.stash();
    let writing = tokio::spawn(async move { stash.apply(insert(owner, 5)).await });
    let stash = old.stash();
    let committing = tokio::spawn(async move { stash.committed(owner, 9).await });
    until_one_waits(&backend, "%FOR SHARE%").await;
    until_one_waits(&backend, "UPDATE partitions SET committed%").await;
    next.batch_execute("COMMIT").await.unwrap();
    let written = soon(writing).await.unwrap().unwrap();
    assert!(matches!(written[..], [Err(StoreError::Fenced(_))]), "{written:?}");
    assert!(matches!(soon(committing).await.unwrap(), Err(StoreError::Fenced(_))));
    let rows = next.query_one("SELECT count(*) FROM stash", &[]).await.unwrap();
    assert_eq!(rows.get::<_, i64>(0), 0);
}

/// A process that is stopped in the middle of a transaction keeps the next owner waiting for some seconds only, and what it
/// wrote is gone.
#[tokio::test]
async fn a_stopped_owner_is_thrown_out() {
    let backend = PostgresBackend::new();
    let new = backend.postgres().await;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let stopped = Postgres::open(backend.options.clone(), runtime.handle().clone()).await.unwrap();
    let owner = stopped.stash().take_ownership(1, 3, 0).await.unwrap();
    let other = client(&backend.options).await;
    other.batch_execute("BEGIN; LOCK TABLE stash IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let stash = stopped.stash();
    let writing = tokio::spawn(async move { stash.apply(insert(owner, 5)).await });
    until_one_waits(&backend, "INSERT INTO stash%").await;
    let (resume, stop) = std::sync::mpsc::channel::<()>();
    let (stopping, is_stopped) = tokio::sync::oneshot::channel();
    runtime.spawn(async move {
        stopping.send(()).unwrap();
        stop.recv()
    });
    is_stopped.await.unwrap();
    // The insert is done, and its process does not commit it.
    other.batch_execute("COMMIT").await.unwrap();
    let stash = new.stash();
    let next = soon(stash.take_ownership(1, 3, 0)).await.unwrap();
    assert!(next.epoch > owner.epoch);
    resume.send(()).unwrap();
    assert!(matches!(soon(writing).await.unwrap(), Err(StoreError::Unavailable(_))));
    let rows = other.query_one("SELECT count(*) FROM stash", &[]).await.unwrap();
    assert_eq!(rows.get::<_, i64>(0), 0);
    runtime.shutdown_background();
}

/// Ready when a statement like this waits for a lock of this test's tables.
async fn until_one_waits(backend: &PostgresBackend, statement: &str) {
    // Outside of a transaction: inside, the first look is the last.
    let observer = client(&backend.options).await;
    let waiting = "SELECT FROM pg_stat_activity JOIN pg_locks USING (pid)
        WHERE wait_event_type = 'Lock' AND query LIKE $1 AND relation IN ('stash'::regclass, 'partitions'::regclass)";
    soon(async {
        while observer.query(waiting, &[&statement]).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
