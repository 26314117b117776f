//! That rows outlive a clock that jumps.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::{Embedded, EmbeddedOptions, HandClock, options, transfer};
use crate::domain::config::ClientId;
use crate::domain::delivery::FailureClass;
use crate::domain::stash::{NewRow, RowFailure, StashWrite};
use crate::domain::transfer::{Sequence, Transfer};
use crate::ports::stash::{Ownership, StashBatch};

const DAY_MS: i64 = 24 * 3_600_000;
const HUNDRED_DAYS: Duration = Duration::from_secs(100 * 24 * 3_600);

async fn give_one_up(embedded: &Embedded, ownership: Ownership, offset: i64) {
    let content = transfer("a", offset, Bytes::new());
    let event_id = content.event_id.clone();
    let sequence = Sequence { incarnation: 1, partition: 1, offset };
    let row = NewRow { transfer: Arc::new(Transfer { sequence, content }), failure: None, claim: None };
    let failure = RowFailure {
        class: FailureClass::Payload,
        reason: "status_400".into(),
        status: Some(400),
        next_attempt_at_ms: 0,
    };
    let writes = vec![StashWrite::Insert(row), StashWrite::Dead { event_id, failure }];
    let batch = StashBatch { client: ClientId::new("a"), ownership, lease: None, writes };
    assert_eq!(embedded.stash().apply(vec![batch]).await.unwrap(), [Ok(())]);
}

#[tokio::test]
async fn a_clock_that_jumps_ahead_removes_two_days_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(HandClock(AtomicI64::new(1_764_435_600_000)));
    let options = EmbeddedOptions { clock: clock.clone(), ..options(folder.path()) };
    let embedded = Embedded::open(options).await.unwrap();
    let stash = embedded.stash();
    let ownership = stash.take_ownership(1, 1, 0).await.unwrap();
    assert_eq!(stash.purge(HUNDRED_DAYS, 100).await, Ok(0));
    for day in 0..10 {
        give_one_up(&embedded, ownership, day).await;
        clock.0.fetch_add(DAY_MS, Ordering::Relaxed);
    }
    clock.0.fetch_add(1_000 * DAY_MS, Ordering::Relaxed);
    // In parts: they are one time.
    assert_eq!(stash.purge(HUNDRED_DAYS, 2).await, Ok(2));
    assert_eq!(stash.purge(HUNDRED_DAYS, 2).await, Ok(1), "the first, and those of two days behind it");
    assert_eq!(stash.purge(HUNDRED_DAYS, 100).await, Ok(2), "and so each day");
    clock.0.fetch_sub(1_000 * DAY_MS, Ordering::Relaxed);
    assert_eq!(stash.purge(HUNDRED_DAYS, 100).await, Ok(0), "they are young again");
    clock.0.fetch_add(91 * DAY_MS, Ordering::Relaxed);
    assert_eq!(stash.purge(HUNDRED_DAYS, 100).await, Ok(0), "those that are old were removed too early");
    clock.0.fetch_add(4 * DAY_MS, Ordering::Relaxed);
    assert_eq!(stash.purge(HUNDRED_DAYS, 100).await, Ok(1), "the first of those that are left");
    // Nobody falls behind for ever.
    clock.0.fetch_add(100 * DAY_MS, Ordering::Relaxed);
    let mut times = 0;
    while stash.backlog(&ClientId::new("a")).await.unwrap().dead > 0 {
        stash.purge(HUNDRED_DAYS, 100).await.unwrap();
        times += 1;
        assert!(times < 60);
    }
    embedded.close().await;
}

#[tokio::test]
async fn a_clock_that_had_stood_at_nought_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(HandClock(AtomicI64::new(0)));
    let options = EmbeddedOptions { clock: clock.clone(), ..options(folder.path()) };
    let embedded = Embedded::open(options).await.unwrap();
    let stash = embedded.stash();
    let ownership = stash.take_ownership(1, 1, 0).await.unwrap();
    give_one_up(&embedded, ownership, 0).await;
    clock.0.store(1_764_435_600_000, Ordering::Relaxed);
    give_one_up(&embedded, ownership, 1).await;
    clock.0.fetch_add(101 * DAY_MS, Ordering::Relaxed);
    for _ in 0..2 {
        assert_eq!(stash.purge(HUNDRED_DAYS, 100).await, Ok(1), "one of 1970, and one of now");
    }
    embedded.close().await;
}
