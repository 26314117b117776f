//! What only this backend promises; what all backends do is in `tests/contract`.

mod database;
mod log;
mod purge;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::{Embedded, EmbeddedOptions, OpenError};
use crate::domain::config::ClientId;
use crate::domain::transfer::{DocumentHash, EventId, NewTransfer, SourcePosition, TransferKind};
use crate::ports::clock::Clock;
use crate::ports::event_log::{BatchLimits, NewRecord};

const HOUR_MS: i64 = 3_600_000;

/// A clock that is set by hand.
struct HandClock(AtomicI64);

impl Clock for HandClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn boot_ms(&self) -> i64 {
        self.now_ms()
    }
}

fn options(folder: &Path) -> EmbeddedOptions {
    EmbeddedOptions {
        data_dir: folder.join("data"),
        partitions: 4,
        retention: Duration::from_secs(3_600),
        tail: BatchLimits { records: 100, bytes: 1 << 20 },
        clock: Arc::new(HandClock(AtomicI64::new(1_764_435_600_000))),
    }
}

fn record(value: &str) -> NewRecord {
    NewRecord {
        topic: "mongo.db.coll".into(),
        key: None,
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        headers: Vec::new(),
    }
}

fn transfer(client: &str, change: i64, body: Bytes) -> NewTransfer {
    let client = ClientId::new(client);
    let source = SourcePosition { topic: "mongo.db.coll".into(), partition: 0, offset: change };
    NewTransfer {
        document: "db.coll:1".into(),
        document_hash: DocumentHash::of("db", "coll", "1"),
        event_id: EventId::derive(&source, 0, &client),
        client,
        kind: TransferKind::Live,
        source,
        traceparent: None,
        ts_ms: change,
        body,
    }
}

#[tokio::test]
async fn a_folder_has_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let first = Embedded::open(options(folder.path())).await.unwrap();
    let second = Embedded::open(options(folder.path())).await;
    assert!(matches!(second, Err(OpenError::DataDirInUse(path)) if path.ends_with("data")));
    first.close().await;
    Embedded::open(options(folder.path())).await.unwrap().close().await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_new_folder_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(options(folder.path())).await.unwrap();
    let mode = std::fs::metadata(folder.path().join("data")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    embedded.close().await;
}

#[tokio::test]
async fn what_is_no_database_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    std::fs::write(&file, "not a folder").unwrap();
    assert!(matches!(Embedded::open(options(folder.path())).await, Err(OpenError::Folder { .. })));
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    std::fs::write(file.join("dispatcher.db"), "x".repeat(10_000)).unwrap();
    assert!(matches!(Embedded::open(options(folder.path())).await, Err(OpenError::Database(_))));
}

#[tokio::test]
async fn a_restart_frees_the_leases_of_the_life_before() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(options(folder.path())).await.unwrap();
    let lease = embedded.locks().acquire("k", HOUR_MS).await.unwrap().unwrap();
    embedded.close().await;
    let embedded = Embedded::open(options(folder.path())).await.unwrap();
    assert!(!embedded.locks().renew(&lease, HOUR_MS).await.unwrap());
    assert!(embedded.locks().acquire("k", HOUR_MS).await.unwrap().unwrap().token > lease.token);
    embedded.close().await;
}

#[tokio::test]
async fn a_clock_that_is_set_back_keeps_no_lease_longer_than_one_lasts() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(HandClock(AtomicI64::new(1_764_435_600_000)));
    let options = EmbeddedOptions { clock: clock.clone(), ..options(folder.path()) };
    let embedded = Embedded::open(options).await.unwrap();
    let locks = embedded.locks();
    let lease = locks.acquire("k", 1_000).await.unwrap().unwrap();
    clock.0.fetch_sub(HOUR_MS, Ordering::Relaxed);
    assert_eq!(locks.acquire("k", 1_000).await.unwrap(), None, "its holder may live");
    clock.0.fetch_add(999, Ordering::Relaxed);
    assert_eq!(locks.acquire("k", 1_000).await.unwrap(), None);
    clock.0.fetch_add(1, Ordering::Relaxed);
    assert!(locks.acquire("k", 1_000).await.unwrap().unwrap().token > lease.token);
    embedded.close().await;
}

#[tokio::test]
async fn a_closed_store_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(options(folder.path())).await.unwrap();
    embedded.health().await.unwrap();
    embedded.health().await.unwrap();
    let consumer = embedded.log().source("g", BatchLimits { records: 1, bytes: 1 }).await.unwrap();
    let (waited, ()) = tokio::join!(consumer.next(), embedded.close());
    assert!(waited.unwrap_err().is_transient());
    assert!(embedded.health().await.unwrap_err().is_transient());
    assert!(embedded.log().append(vec![record("1")]).await.unwrap_err().is_transient());
    embedded.close().await;
    assert!(!folder.path().join("data/dispatcher.db-wal").exists(), "all is in the file");
}

#[tokio::test]
async fn nothing_is_taken_into_a_file_that_was_removed_or_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let embedded = Embedded::open(options(folder.path())).await.unwrap();
    std::fs::rename(&data, folder.path().join("aside")).unwrap();
    let removed = embedded.log().append(vec![record("1")]).await.unwrap_err();
    assert!(removed.is_transient() && removed.to_string().contains("removed"), "{removed}");
    assert!(embedded.health().await.is_err());
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("dispatcher.db"), "").unwrap();
    assert!(embedded.log().append(vec![record("2")]).await.is_err(), "another file of the name");
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(folder.path().join("aside"), &data).unwrap();
    embedded.log().append(vec![record("3")]).await.unwrap();
    embedded.close().await;
}
