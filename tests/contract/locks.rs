//! The contract of the locks.

use std::time::Duration;

use crate::fixture::{Backend, soon};

const LONG: i64 = 3_600_000;

pub(crate) async fn a_lease_is_of_one(backend: &impl Backend) {
    let locks = backend.open().await.locks;
    let lease = locks.acquire("k", LONG).await.unwrap().unwrap();
    assert_eq!(locks.acquire("k", LONG).await.unwrap(), None);
    assert!(locks.renew(&lease, LONG).await.unwrap());
    assert_eq!(locks.acquire("k", LONG).await.unwrap(), None);
}

pub(crate) async fn tokens_rise_with_each_holder(backend: &impl Backend) {
    let stores = backend.open().await;
    let first = stores.locks.acquire("k", LONG).await.unwrap().unwrap();
    stores.locks.release(&first).await.unwrap();
    let second = stores.locks.acquire("k", 0).await.unwrap().unwrap();
    assert!(second.token > first.token);
    stores.close().await;
    let stores = backend.open().await;
    let third = stores.locks.acquire("k", LONG).await.unwrap().unwrap();
    assert!(third.token > second.token);
}

pub(crate) async fn a_lease_that_was_given_back_cannot_be_renewed(backend: &impl Backend) {
    let locks = backend.open().await.locks;
    let lease = locks.acquire("k", LONG).await.unwrap().unwrap();
    locks.release(&lease).await.unwrap();
    assert!(!locks.renew(&lease, LONG).await.unwrap());
    let next = locks.acquire("k", LONG).await.unwrap().unwrap();
    // Another's by now: left alone.
    locks.release(&lease).await.unwrap();
    assert_eq!(locks.acquire("k", LONG).await.unwrap(), None);
    assert!(locks.renew(&next, LONG).await.unwrap());
}

pub(crate) async fn an_expired_lease_is_taken_over(backend: &impl Backend) {
    let locks = backend.open().await.locks;
    let began = std::time::Instant::now();
    let old = locks.acquire("k", 300).await.unwrap().unwrap();
    let new = soon(async {
        loop {
            if let Some(new) = locks.acquire("k", LONG).await.unwrap() {
                break new;
            }
        }
    })
    .await;
    // Both clocks count whole milliseconds.
    assert!(began.elapsed() >= Duration::from_millis(298), "{:?}", began.elapsed());
    assert!(new.token > old.token);
    assert!(!locks.renew(&old, LONG).await.unwrap());
}

pub(crate) async fn a_renewed_lease_lasts_from_then_on(backend: &impl Backend) {
    let locks = backend.open().await.locks;
    let lease = locks.acquire("k", LONG).await.unwrap().unwrap();
    assert!(locks.renew(&lease, 0).await.unwrap());
    let next = locks.acquire("k", 0).await.unwrap().unwrap();
    assert!(locks.renew(&next, LONG).await.unwrap(), "nobody else took it");
    assert_eq!(locks.acquire("k", LONG).await.unwrap(), None);
}

pub(crate) async fn keys_are_independent(backend: &impl Backend) {
    let locks = backend.open().await.locks;
    assert!(locks.acquire("k", LONG).await.unwrap().is_some());
    assert!(locks.acquire("l", LONG).await.unwrap().is_some());
}
