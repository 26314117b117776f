//! The contract of the locks.

use crate::fixture::Backend;

pub(crate) async fn a_lease_is_of_one(backend: &impl Backend) {
    let locks = backend.open().await.locks;
    let lease = locks.acquire("k", 1_000, 500).await.unwrap().unwrap();
    assert_eq!(lease.deadline_ms, 1_500);
    assert_eq!(locks.acquire("k", 1_499, 500).await.unwrap(), None);
    let renewed = locks.renew(&lease, 1_400, 500).await.unwrap().unwrap();
    assert_eq!((renewed.token, renewed.deadline_ms), (lease.token, 1_900));
    assert_eq!(locks.acquire("k", 1_600, 500).await.unwrap(), None);
}

pub(crate) async fn tokens_rise_with_each_holder(backend: &impl Backend) {
    let stores = backend.open().await;
    let first = stores.locks.acquire("k", 1_000, 500).await.unwrap().unwrap();
    stores.locks.release(&first).await.unwrap();
    let second = stores.locks.acquire("k", 1_000, 500).await.unwrap().unwrap();
    assert!(second.token > first.token);
    stores.close().await;
    let stores = backend.open().await;
    let third = stores.locks.acquire("k", 2_000, 500).await.unwrap().unwrap();
    assert!(third.token > second.token);
}

pub(crate) async fn a_lease_that_was_given_back_cannot_be_renewed(backend: &impl Backend) {
    let locks = backend.open().await.locks;
    let lease = locks.acquire("k", 1_000, 500).await.unwrap().unwrap();
    locks.release(&lease).await.unwrap();
    assert_eq!(locks.renew(&lease, 1_000, 500).await.unwrap(), None);
    let next = locks.acquire("k", 1_000, 500).await.unwrap().unwrap();
    // Another's by now: left alone.
    locks.release(&lease).await.unwrap();
    assert_eq!(locks.acquire("k", 1_000, 500).await.unwrap(), None);
    assert!(locks.renew(&next, 1_000, 500).await.unwrap().is_some());
}

pub(crate) async fn an_expired_lease_is_taken_over(backend: &impl Backend) {
    let locks = backend.open().await.locks;
    let old = locks.acquire("k", 1_000, 500).await.unwrap().unwrap();
    let new = locks.acquire("k", 1_500, 500).await.unwrap().unwrap();
    assert!(new.token > old.token);
    assert_eq!(locks.renew(&old, 1_500, 500).await.unwrap(), None);
}

pub(crate) async fn keys_are_independent(backend: &impl Backend) {
    let locks = backend.open().await.locks;
    assert!(locks.acquire("k", 1_000, 500).await.unwrap().is_some());
    assert!(locks.acquire("l", 1_000, 500).await.unwrap().is_some());
}
