//! That leases go by the clock of the server, and by none where an owner follows another; that back-offs go by that of the replica.

use dispatcher::domain::delivery::FailureClass;
use dispatcher::domain::stash::{Claim, StashWrite};
use dispatcher::ports::StoreError;
use dispatcher::ports::clock::{Clock as _, SystemClock};

use super::{PostgresBackend, client};
use crate::stash::{Owned, failed, failure, waiting};

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

/// The time of the next attempt is the replica's, and so is the time against which it is held.
#[tokio::test]
async fn a_replica_whose_clock_is_behind_the_servers_keeps_its_back_offs() {
    let backend = PostgresBackend::new();
    let owned = Owned::open(&backend).await;
    let [first, again] = [("d", 5), ("e", 6)].map(|(document, offset)| owned.change(document, offset));
    let now_ms = SystemClock.now_ms();
    owned.write(vec![failed(&first, now_ms + LONG), waiting(&again)]).await;
    let failure = failure(FailureClass::Endpoint, now_ms + LONG);
    owned.write(vec![StashWrite::Failed { event_id: again.event_id.clone(), failure }]).await;
    owned.commit(10).await;
    let other = client(&backend.options).await;
    other.batch_execute("UPDATE stash SET last_failed_at_ms = last_failed_at_ms + 36000000").await.unwrap();
    let page = async |now_ms| {
        let a = crate::fixture::client("a");
        let rows = owned.stash().drainable(&a, None, (now_ms, Claim(0)), 10, usize::MAX);
        rows.await.unwrap().rows.len()
    };
    assert_eq!(page(now_ms).await, 0, "the server is ten hours ahead");
    assert_eq!(page(now_ms - 90_000).await, 2, "the replica's clock was set back");
}
