//! That leases go by the clock of the server, and by none where an owner follows another.

use dispatcher::ports::StoreError;

use super::{PostgresBackend, client};

const LONG: i64 = 3_600_000;

#[tokio::test]
async fn an_owner_by_another_log_waits_until_the_lease_has_expired() {
    let backend = PostgresBackend::new();
    let stash = backend.postgres().await.stash();
    let (a, one, two) = (
        crate::fixture::client("a"),
        stash.take_ownership(1, 3, 0).await.unwrap(),
        stash.take_ownership(2, 3, 0).await.unwrap(),
    );
    let mut last = 0;
    for (holder, other) in [(one, two), (two, one)] {
        let held = stash.lease_drain(&a, holder, None, LONG).await.unwrap();
        assert!(held.token > last);
        let early = stash.lease_drain(&a, other, None, LONG).await;
        assert!(matches!(early, Err(StoreError::Fenced(_))));
        stash.lease_drain(&a, holder, Some(held.token), 0).await.unwrap();
        let taken = stash.lease_drain(&a, other, None, LONG).await.unwrap();
        assert!(taken.token > held.token);
        stash.release_drain(&a, taken.token).await.unwrap();
        last = taken.token;
    }
}

/// As a replica whose clock was an hour ahead left it behind.
#[tokio::test]
async fn no_deadline_keeps_the_next_owner_from_the_rows() {
    let backend = PostgresBackend::new();
    let stash = backend.postgres().await.stash();
    let (a, owner) = (crate::fixture::client("a"), stash.take_ownership(1, 3, 0).await.unwrap());
    let lease = stash.lease_drain(&a, owner, None, LONG).await.unwrap();
    let other = client(&backend.options).await;
    other.batch_execute("UPDATE drain_leases SET deadline_ms = deadline_ms + 36000000").await.unwrap();
    let next = stash.take_ownership(1, 3, 0).await.unwrap();
    assert!(stash.lease_drain(&a, next, None, LONG).await.unwrap().token > lease.token);
}

/// A server took over whose clock is hours behind, or its clock was set back.
#[tokio::test]
async fn a_server_whose_clock_is_set_back_keeps_no_lock_longer_than_one_lasts() {
    let backend = PostgresBackend::new();
    let locks = backend.postgres().await.locks();
    let lease = locks.acquire("k", 200).await.unwrap().unwrap();
    let other = client(&backend.options).await;
    other.batch_execute("UPDATE locks SET deadline_ms = deadline_ms + 36000000").await.unwrap();
    assert_eq!(locks.acquire("k", 200).await.unwrap(), None, "its holder may live");
    let next = crate::fixture::soon(async {
        loop {
            if let Some(next) = locks.acquire("k", 200).await.unwrap() {
                break next;
            }
        }
    });
    assert!(next.await.token > lease.token);
}
