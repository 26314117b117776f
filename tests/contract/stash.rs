//! The contract of the stash. Clients here live on partition 3.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dispatcher::domain::dead_row::OwnRow;
use dispatcher::domain::delivery::FailureClass;
use dispatcher::domain::stash::{Backlog, Claim, NewRow, RowFailure, RowState, StashRow, StashWrite};
use dispatcher::domain::transfer::{NewTransfer, Sequence, Transfer, TransferKind};
use dispatcher::ports::clock::{Clock as _, SystemClock};
use dispatcher::ports::stash::{LOOKED_AT, Ownership, Stash, StashBatch};
use dispatcher::ports::{StoreError, StoreResult};

use crate::fixture::{Backend, Stores, client, new_transfer, transfer};

const ALL: usize = 1_000;
/// Of a lease.
const LONG: i64 = 3_600_000;
const NO_BYTE_LIMIT: usize = usize::MAX;

/// No document is held: it is late, and no claim is ours.
const NOTHING_HELD: (i64, Claim) = (i64::MAX, Claim(0));

/// The stash of client `a`, under one owner.
pub(crate) struct Owned {
    pub(crate) stores: Stores,
    pub(crate) owner: Ownership,
    pub(crate) incarnation: u32,
}

impl Owned {
    pub(crate) async fn open(backend: &impl Backend) -> Self {
        let stores = backend.open().await;
        let incarnation = stores.log.incarnation();
        let owner = stores.stash.take_ownership(incarnation, 3, 0).await.unwrap();
        Self { stores, owner, incarnation }
    }

    /// Somebody takes the partition over, of which this is committed.
    pub(crate) async fn next_owner(&self, next_offset: i64) -> Ownership {
        self.stash().take_ownership(self.incarnation, 3, next_offset).await.unwrap()
    }

    pub(crate) fn stash(&self) -> &dyn Stash {
        &*self.stores.stash
    }

    pub(crate) fn change(&self, document: &str, offset: i64) -> Arc<Transfer> {
        transfer(self.incarnation, "a", document, offset)
    }

    pub(crate) fn batch(&self, writes: Vec<StashWrite>) -> StashBatch {
        StashBatch { client: client("a"), ownership: self.owner, lease: None, writes }
    }

    pub(crate) async fn try_write(&self, batch: StashBatch) -> StoreResult<()> {
        self.stash().apply(vec![batch]).await.unwrap().remove(0)
    }

    pub(crate) async fn write(&self, writes: Vec<StashWrite>) {
        self.try_write(self.batch(writes)).await.unwrap();
    }

    pub(crate) async fn commit(&self, next_offset: i64) {
        self.stash().committed(self.owner, next_offset).await.unwrap();
    }

    pub(crate) async fn rows(&self) -> Vec<StashRow> {
        self.stash().drainable(&client("a"), None, NOTHING_HELD, ALL, NO_BYTE_LIMIT).await.unwrap().rows
    }

    pub(crate) async fn offsets(&self) -> Vec<i64> {
        self.rows().await.iter().map(|row| row.transfer.sequence.offset).collect()
    }

    pub(crate) async fn backlog(&self) -> Backlog {
        self.stash().backlog(&client("a")).await.unwrap()
    }
}

pub(crate) fn waiting(transfer: &Arc<Transfer>) -> StashWrite {
    StashWrite::Insert(NewRow { transfer: Arc::clone(transfer), failure: None, claim: None })
}

pub(crate) fn failure(class: FailureClass, next_attempt_at_ms: i64) -> RowFailure {
    RowFailure { class, reason: "status_500".into(), status: Some(500), next_attempt_at_ms }
}

pub(crate) fn failed(transfer: &Arc<Transfer>, next_attempt_at_ms: i64) -> StashWrite {
    let failure = Some(failure(FailureClass::Endpoint, next_attempt_at_ms));
    StashWrite::Insert(NewRow { transfer: Arc::clone(transfer), failure, claim: None })
}

pub(crate) fn dead(transfer: &Arc<Transfer>) -> StashWrite {
    StashWrite::Dead { event_id: transfer.event_id.clone(), failure: failure(FailureClass::Payload, 0) }
}

pub(crate) fn delivered(transfer: &Arc<Transfer>) -> StashWrite {
    StashWrite::Delivered { transfer: Arc::clone(transfer) }
}

pub(crate) async fn stashing_twice_is_one_row(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let change = owned.change("d", 5);
    owned.write(vec![failed(&change, 700)]).await;
    owned.write(vec![waiting(&change), waiting(&change)]).await;
    owned.commit(6).await;
    let rows = owned.rows().await;
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].attempts, rows[0].next_attempt_at_ms), (1, 700), "the first stays");
    assert_eq!(owned.backlog().await.pending, 1);
}

pub(crate) async fn a_row_comes_back_as_it_was(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let long = format!("nul\u{0}-{}", "é".repeat(1_500));
    let content = NewTransfer {
        kind: TransferKind::Replay,
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        body: Bytes::from(vec![b'\xfe'; 5 << 20]),
        ..new_transfer("a", &long, 7)
    };
    let sequence = Sequence { incarnation: owned.incarnation, partition: 3, offset: 7 };
    let change = Arc::new(Transfer { sequence, content });
    let claim = Some(Claim(u64::MAX - 1));
    owned.write(vec![StashWrite::Insert(NewRow { transfer: change.clone(), failure: None, claim })]).await;
    owned.commit(8).await;
    let rows = owned.rows().await;
    assert_eq!(rows[0].transfer, change);
    assert_eq!((rows[0].attempts, rows[0].payload_failures, rows[0].next_attempt_at_ms), (0, 0, 0));
    assert_eq!(rows[0].claim, claim);
    let known = owned
        .stash()
        .check(&client("a"), vec![change.document_hash], vec![change.event_id.clone()])
        .await
        .unwrap();
    assert!(known.waiting.contains(&change.document_hash) && known.stashed.contains_key(&change.event_id));
}

pub(crate) async fn only_rows_below_the_committed_offset_are_drained(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    owned.write([7, 5, 6].map(|offset| waiting(&owned.change("d", offset))).into()).await;
    assert!(owned.offsets().await.is_empty());
    owned.commit(6).await;
    assert_eq!(owned.offsets().await, [5]);
    let page = owned.stash().drainable(&client("a"), None, NOTHING_HELD, ALL, NO_BYTE_LIMIT).await.unwrap();
    assert_eq!(
        page.end.map(|end| end.offset),
        Some(5),
        "what is committed a moment later is not passed over"
    );
    owned.commit(8).await;
    assert_eq!(owned.offsets().await, [5, 6, 7]);
    owned.commit(6).await;
    assert_eq!(owned.offsets().await, [5, 6, 7], "the committed offset never goes back");
}

/// The group lost its place, or somebody set it back: what is read again may belong before rows that were free already.
pub(crate) async fn rows_that_are_read_again_wait_for_their_turn(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    owned.write([5, 6, 7].map(|offset| waiting(&owned.change("d", offset))).into()).await;
    owned.commit(8).await;
    let next = owned.next_owner(6).await;
    assert_eq!(owned.offsets().await, [5]);
    let late = owned.stash().committed(owned.owner, 8).await;
    assert!(matches!(late, Err(StoreError::Fenced(_))));
    assert_eq!(owned.offsets().await, [5], "the owner before knows of another place");
    owned.stash().committed(next, 7).await.unwrap();
    assert_eq!(owned.offsets().await, [5, 6]);
    // Further than what was known: an earlier owner ended between its commit and the copy.
    owned.next_owner(8).await;
    assert_eq!(owned.offsets().await, [5, 6, 7]);
}

pub(crate) async fn rows_of_an_earlier_log_come_first(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let earlier = transfer(owned.incarnation - 1, "a", "d", 900);
    owned.write(vec![waiting(&owned.change("d", 5)), waiting(&earlier)]).await;
    assert_eq!(owned.offsets().await, [900], "nothing of the earlier log is read again");
    owned.commit(6).await;
    assert_eq!(owned.offsets().await, [900, 5]);
}

pub(crate) async fn drained_pages_follow_each_other(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let large = |offset| {
        let content = NewTransfer { body: Bytes::from(vec![b'x'; 10_000]), ..new_transfer("a", "d", offset) };
        let sequence = Sequence { incarnation: owned.incarnation, partition: 3, offset };
        Arc::new(Transfer { sequence, content })
    };
    owned.write((0..10).map(|offset| waiting(&large(offset))).collect()).await;
    owned.commit(10).await;
    let page = async |after: Option<Sequence>, limit, bytes| {
        let rows =
            owned.stash().drainable(&client("a"), after, NOTHING_HELD, limit, bytes).await.unwrap().rows;
        rows.iter().map(|row| row.transfer.sequence).collect::<Vec<_>>()
    };
    let first = page(None, 4, NO_BYTE_LIMIT).await;
    assert_eq!(first.iter().map(|sequence| sequence.offset).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let second = page(first.last().copied(), 4, 25_000).await;
    assert_eq!(second.iter().map(|sequence| sequence.offset).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(page(second.last().copied(), 4, 1).await.len(), 1, "a large one is a page of its own");
}

pub(crate) async fn an_old_owner_is_fenced(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let new = owned.next_owner(0).await;
    assert!(new.epoch > owned.owner.epoch);
    let change = owned.change("d", 5);
    let batches = vec![
        owned.batch(vec![waiting(&change)]),
        StashBatch { ownership: new, ..owned.batch(vec![waiting(&owned.change("e", 6))]) },
    ];
    let results = owned.stash().apply(batches).await.unwrap();
    assert!(matches!(results[0], Err(StoreError::Fenced(_))));
    assert_eq!(results[1], Ok(()));
    let stash = owned.stash();
    let a = client("a");
    assert!(matches!(stash.committed(owned.owner, 9).await, Err(StoreError::Fenced(_))));
    assert!(matches!(stash.lease_drain(&a, owned.owner, None, LONG).await, Err(StoreError::Fenced(_))));
    assert!(matches!(stash.bury(&a, owned.owner, "gone").await, Err(StoreError::Fenced(_))));
    stash.committed(new, 9).await.unwrap();
    assert_eq!(owned.offsets().await, [6]);
    // A partition that nobody took, and one of another log.
    let unknown = Ownership { partition: 4, ..new };
    let batch = StashBatch { ownership: unknown, ..owned.batch(vec![]) };
    assert!(matches!(owned.try_write(batch).await, Err(StoreError::Fenced(_))));
}

pub(crate) async fn a_batch_is_all_or_nothing(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let foreign = transfer(owned.incarnation, "b", "d", 6);
    let batch = owned.batch(vec![waiting(&owned.change("d", 5)), waiting(&foreign)]);
    assert!(matches!(owned.try_write(batch).await, Err(StoreError::Refused(_))));
    owned.commit(10).await;
    assert!(owned.offsets().await.is_empty());
}

pub(crate) async fn a_drain_lease_is_of_one_owner(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let (stash, a) = (owned.stash(), client("a"));
    let lease = stash.lease_drain(&a, owned.owner, None, LONG).await.unwrap();
    assert_eq!(stash.lease_drain(&a, owned.owner, Some(lease.token), LONG).await.unwrap(), lease);
    // The permission to send of the owner before has ended, whatever the clocks say: nobody waits for its lease.
    let owner = owned.next_owner(0).await;
    let next = stash.lease_drain(&a, owner, None, LONG).await.unwrap();
    assert!(next.token > lease.token);
    let lost = stash.lease_drain(&a, owner, Some(lease.token), LONG).await;
    assert!(matches!(lost, Err(StoreError::Fenced(_))));
    assert_eq!(stash.lease_drain(&a, owner, Some(next.token), LONG).await.unwrap(), next);
    assert!(stash.lease_drain(&client("b"), owner, None, LONG).await.is_ok());
}

pub(crate) async fn an_owner_takes_its_own_lease_over(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let (stash, a) = (owned.stash(), client("a"));
    let old = stash.lease_drain(&a, owned.owner, None, LONG).await.unwrap();
    let new = stash.lease_drain(&a, owned.owner, None, LONG).await.unwrap();
    assert!(new.token > old.token, "what the actor before still writes is refused");
    let lost = stash.lease_drain(&a, owned.owner, Some(old.token), LONG).await;
    assert!(matches!(lost, Err(StoreError::Fenced(_))));
}

/// An owner that was stopped, and goes on behind the next one: what it renews, takes, writes or gives back changes nothing.
pub(crate) async fn a_late_owner_takes_no_lease_back(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let (stash, a) = (owned.stash(), client("a"));
    let change = owned.change("d", 5);
    owned.write(vec![waiting(&change)]).await;
    let old = stash.lease_drain(&a, owned.owner, None, LONG).await.unwrap();
    let owner = owned.next_owner(6).await;
    let new = stash.lease_drain(&a, owner, None, LONG).await.unwrap();
    for held in [Some(old.token), Some(new.token), None] {
        let late = stash.lease_drain(&a, owned.owner, held, LONG).await;
        assert!(matches!(late, Err(StoreError::Fenced(_))), "{held:?}");
        let batch = StashBatch { lease: held, ..owned.batch(vec![delivered(&change)]) };
        assert!(matches!(owned.try_write(batch).await, Err(StoreError::Fenced(_))), "{held:?}");
    }
    stash.release_drain(&a, old.token).await.unwrap();
    assert_eq!(stash.lease_drain(&a, owner, Some(new.token), LONG).await.unwrap(), new);
    assert_eq!(owned.offsets().await, [5]);
}

pub(crate) async fn a_lease_is_given_back_by_who_holds_it(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let (stash, a) = (owned.stash(), client("a"));
    let lease = stash.lease_drain(&a, owned.owner, None, LONG).await.unwrap();
    stash.release_drain(&a, lease.token - 1).await.unwrap();
    let held = stash.lease_drain(&a, owned.owner, Some(lease.token), LONG).await;
    assert_eq!(held, Ok(lease), "it was not its to give");
    stash.release_drain(&a, lease.token).await.unwrap();
    let gone = stash.lease_drain(&a, owned.owner, Some(lease.token), LONG).await;
    assert!(matches!(gone, Err(StoreError::Fenced(_))));
    let free = stash.lease_drain(&a, owned.owner, None, LONG).await.unwrap();
    assert!(free.token > lease.token);
}

pub(crate) async fn a_lost_lease_cannot_write(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let (stash, a) = (owned.stash(), client("a"));
    let change = owned.change("d", 5);
    owned.write(vec![waiting(&change)]).await;
    owned.commit(6).await;
    let never = StashBatch { lease: Some(1), ..owned.batch(vec![delivered(&change)]) };
    assert!(matches!(owned.try_write(never).await, Err(StoreError::Fenced(_))));
    let lease = stash.lease_drain(&a, owned.owner, None, LONG).await.unwrap();
    stash.lease_drain(&a, owned.owner, None, LONG).await.unwrap();
    let late = StashBatch { lease: Some(lease.token), ..owned.batch(vec![delivered(&change)]) };
    assert!(matches!(owned.try_write(late.clone()).await, Err(StoreError::Fenced(_))));
    assert_eq!(owned.offsets().await, [5]);
    let lease = stash.lease_drain(&a, owned.owner, None, LONG).await.unwrap();
    owned.try_write(StashBatch { lease: Some(lease.token), ..late.clone() }).await.unwrap();
    assert!(owned.offsets().await.is_empty());
    stash.release_drain(&a, lease.token).await.unwrap();
    let released = StashBatch { lease: Some(lease.token), ..late };
    assert!(matches!(owned.try_write(released).await, Err(StoreError::Fenced(_))));
}

pub(crate) async fn check_tells_what_waits(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let [pending, gone, gone_too, fresh] =
        [("p", 1), ("x", 2), ("x", 3), ("f", 4)].map(|(document, offset)| owned.change(document, offset));
    owned.write([&pending, &gone, &gone_too].map(waiting).into()).await;
    owned.write(vec![dead(&gone)]).await;
    let all = [&pending, &gone, &gone_too, &fresh];
    let documents: Vec<_> = all.iter().map(|change| change.document_hash).collect();
    let events: Vec<_> = all.iter().map(|change| change.event_id.clone()).collect();
    let known = owned.stash().check(&client("a"), documents.clone(), events.clone()).await.unwrap();
    assert_eq!(known.waiting, [pending.document_hash, gone_too.document_hash].into());
    assert_eq!(known.dead, [gone.document_hash].into());
    let row = |state, newer_waits| OwnRow { state, newer_waits };
    let expected = [
        (&pending, row(RowState::Pending, false)),
        (&gone, row(RowState::Dead, true)),
        (&gone_too, row(RowState::Pending, false)),
    ];
    assert_eq!(known.stashed, expected.map(|(change, row)| (change.event_id.clone(), row)).into());
    let other = owned.stash().check(&client("b"), documents, events).await.unwrap();
    assert!(other.waiting.is_empty() && other.dead.is_empty() && other.stashed.is_empty());
}

pub(crate) async fn a_failure_counts_and_frees(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let change = owned.change("d", 5);
    let claim = Some(Claim(7));
    owned.write(vec![StashWrite::Insert(NewRow { transfer: change.clone(), failure: None, claim })]).await;
    owned.commit(6).await;
    let event_id = change.event_id.clone();
    for (class, next) in
        [(FailureClass::Endpoint, 100), (FailureClass::Payload, 200), (FailureClass::Config, 300)]
    {
        let failure = failure(class, next);
        owned.write(vec![StashWrite::Failed { event_id: event_id.clone(), failure }]).await;
    }
    let row = owned.rows().await.remove(0);
    assert_eq!((row.attempts, row.payload_failures, row.next_attempt_at_ms), (3, 1, 300));
    assert_eq!(row.claim, None);
}

pub(crate) async fn a_claim_stays_when_the_row_is_stashed_again(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let change = owned.change("d", 5);
    let claim = Some(Claim(7));
    owned.write(vec![StashWrite::Insert(NewRow { transfer: change.clone(), failure: None, claim })]).await;
    owned.write(vec![waiting(&change)]).await;
    owned.commit(6).await;
    assert_eq!(owned.rows().await[0].claim, claim);
}

pub(crate) async fn a_delivery_supersedes_older_dead_rows_of_its_document(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let [old, newer, other] =
        [("d", 5), ("d", 9), ("e", 6)].map(|(document, offset)| owned.change(document, offset));
    let earlier = transfer(owned.incarnation - 1, "a", "d", 900);
    for change in [&old, &newer, &other, &earlier] {
        owned.write(vec![waiting(change), dead(change)]).await;
    }
    assert_eq!(owned.backlog().await.dead, 4);
    let between = owned.change("d", 7);
    owned.write(vec![delivered(&between)]).await;
    // `newer` is of a newer change, `other` of another document.
    assert_eq!(owned.backlog().await.dead, 2);
    let hash = newer.document_hash;
    let known = owned.stash().check(&client("a"), vec![hash], vec![old.event_id.clone()]).await.unwrap();
    assert!(known.dead.contains(&hash) && known.waiting.is_empty());
    assert_eq!(known.stashed[&old.event_id].state, RowState::Superseded, "it stays, for who looks");
    // A dead row that is delivered after all (it came again from the log) goes.
    owned.write(vec![delivered(&newer)]).await;
    assert_eq!(owned.backlog().await.dead, 1);
}

pub(crate) async fn a_row_goes_in_place_of_its_documents_older_ones(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let changes = [("d", 5), ("d", 6), ("e", 7), ("d", 8), ("d", 9)]
        .map(|(document, offset)| owned.change(document, offset));
    let earlier = transfer(owned.incarnation - 1, "a", "d", 900);
    owned.write(changes.iter().chain([&earlier]).map(waiting).collect()).await;
    owned.write(vec![dead(&changes[1])]).await;
    owned.commit(10).await;
    owned.write(vec![StashWrite::Coalesced { transfer: changes[3].clone() }]).await;
    assert_eq!(
        owned.offsets().await,
        [7, 8, 9],
        "it stays itself, and what is newer, or of another document"
    );
    let backlog = owned.backlog().await;
    assert_eq!((backlog.pending, backlog.dead), (3, 1), "the dead letter stays, too");
}

pub(crate) async fn a_dead_row_is_not_drained(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let (first, second) = (owned.change("d", 5), owned.change("d", 6));
    owned.write(vec![waiting(&first), waiting(&second), dead(&first)]).await;
    owned.commit(10).await;
    assert_eq!(owned.offsets().await, [6]);
    // What comes late for a dead row does not bring it back.
    let late = failure(FailureClass::Endpoint, 1);
    owned.write(vec![StashWrite::Failed { event_id: first.event_id.clone(), failure: late }]).await;
    owned.write(vec![waiting(&first)]).await;
    assert_eq!(owned.offsets().await, [6]);
    let backlog = owned.backlog().await;
    assert_eq!((backlog.pending, backlog.dead), (1, 1));
}

pub(crate) async fn burying_leaves_nothing_pending(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    owned.write((0..5).map(|offset| waiting(&owned.change("d", offset))).collect()).await;
    let b = StashBatch {
        client: client("b"),
        ..owned.batch(vec![waiting(&transfer(owned.incarnation, "b", "d", 6))])
    };
    owned.try_write(b).await.unwrap();
    assert_eq!(owned.stash().bury(&client("a"), owned.owner, "client_gone").await.unwrap(), 5);
    assert_eq!(owned.stash().bury(&client("a"), owned.owner, "client_gone").await.unwrap(), 0);
    assert_eq!(owned.backlog().await, Backlog { dead: 5, ..Backlog::default() });
    assert_eq!(owned.stash().backlog(&client("b")).await.unwrap().pending, 1);
}

/// The client may come back in the middle of it.
pub(crate) async fn a_burial_goes_part_by_part(backend: &impl Backend) {
    const ROWS: u64 = 5_100;
    let owned = Owned::open(backend).await;
    owned.write((0..ROWS as i64).map(|offset| waiting(&owned.change("d", offset))).collect()).await;
    owned.commit(ROWS as i64).await;
    let part = owned.stash().bury(&client("a"), owned.owner, "client_gone").await.unwrap();
    assert!((1..ROWS).contains(&part), "{part}");
    let (rest, backlog) = (ROWS - part, owned.backlog().await);
    assert_eq!((backlog.pending, backlog.dead), (rest, part));
    assert_eq!(owned.offsets().await.first(), Some(&(part as i64)), "the oldest are first");
    let mut dead = part;
    loop {
        match owned.stash().bury(&client("a"), owned.owner, "client_gone").await.unwrap() {
            0 => break,
            part => dead += part,
        }
    }
    assert_eq!(dead, ROWS);
}

pub(crate) async fn only_what_is_old_and_not_needed_is_purged(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let changes: Vec<_> = (1..5).map(|offset| owned.change("d", offset)).collect();
    let other = owned.change("e", 5);
    owned.write(changes.iter().chain([&other]).map(waiting).collect()).await;
    // 1 to 3: superseded; 5: dead.
    owned.write(changes[..3].iter().chain([&other]).map(dead).collect()).await;
    owned.write(vec![delivered(&changes[3])]).await;
    let pending = owned.change("f", 6);
    owned.write(vec![failed(&pending, 0)]).await;
    let purge = async |older_than, limit| owned.stash().purge(older_than, limit).await.unwrap();
    assert_eq!(purge(Duration::from_secs(3600), ALL).await, 0, "it is young");
    assert_eq!(purge(Duration::ZERO, 3).await, 3);
    assert_eq!(purge(Duration::ZERO, ALL).await, 1);
    assert_eq!(purge(Duration::ZERO, ALL).await, 0);
    let backlog = owned.backlog().await;
    assert_eq!((backlog.pending, backlog.dead), (1, 0));
}

pub(crate) async fn a_backlog_is_counted(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    assert_eq!(owned.backlog().await, Backlog::default());
    assert_eq!(owned.stash().backlogs().await.unwrap(), []);
    let changes: Vec<_> = (5..9).map(|offset| owned.change(&format!("d{offset}"), offset)).collect();
    let times = [400, 300, 200, 900];
    owned.write(changes.iter().zip(times).map(|(change, time)| failed(change, time)).collect()).await;
    let bytes = |changes: &[Arc<Transfer>]| changes.iter().map(|change| change.weight() as u64).sum::<u64>();
    let expected = Backlog {
        pending: 4,
        pending_bytes: bytes(&changes),
        dead: 0,
        oldest_ts_ms: Some(changes[0].ts_ms),
        next_attempt_at_ms: Some(200),
    };
    assert_eq!(owned.backlog().await, expected);
    assert_eq!(owned.stash().backlogs().await.unwrap(), [(client("a"), expected)]);
    owned.write(vec![delivered(&changes[0]), dead(&changes[2])]).await;
    let expected = Backlog {
        pending: 2,
        pending_bytes: bytes(&[changes[1].clone(), changes[3].clone()]),
        dead: 1,
        oldest_ts_ms: Some(changes[1].ts_ms),
        next_attempt_at_ms: Some(300),
    };
    assert_eq!(owned.backlog().await, expected);
    owned.write([1, 2, 3].map(|index| delivered(&changes[index])).into()).await;
    assert_eq!(owned.stash().backlogs().await.unwrap(), []);
}

pub(crate) async fn the_next_attempt_is_the_earliest_that_is_set(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let (first, behind, other) = (owned.change("d", 5), owned.change("d", 6), owned.change("e", 7));
    owned.write(vec![failed(&first, 800), waiting(&behind), failed(&other, 900)]).await;
    assert_eq!(owned.backlog().await.next_attempt_at_ms, Some(800), "not 0: that one waits for the first");
    owned.write(vec![delivered(&first)]).await;
    assert_eq!(owned.backlog().await.next_attempt_at_ms, Some(900));
}

pub(crate) async fn a_held_document_is_left_out(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let [early, early_too, claimed, claimed_too, free] =
        [("e", 1), ("e", 2), ("c", 3), ("c", 4), ("f", 5)].map(|(id, offset)| owned.change(id, offset));
    let (mine, now_ms) = (Claim(7), SystemClock.now_ms());
    let in_hand = NewRow { transfer: claimed, failure: None, claim: Some(mine) };
    owned.write(vec![failed(&early, now_ms + 3_600_000), waiting(&early_too), waiting(&free)]).await;
    owned.write(vec![StashWrite::Insert(in_hand), waiting(&claimed_too)]).await;
    owned.commit(10).await;
    let offsets = async |now_ms, claim| {
        let a = client("a");
        let rows = owned.stash().drainable(&a, None, (now_ms, claim), ALL, NO_BYTE_LIMIT);
        rows.await.unwrap().rows.iter().map(|row| row.transfer.sequence.offset).collect::<Vec<_>>()
    };
    assert_eq!(offsets(now_ms + 3_599_999, mine).await, [5]);
    assert_eq!(offsets(now_ms + 3_600_000, mine).await, [1, 2, 5], "its time has come");
    assert_eq!(offsets(now_ms, Claim(8)).await, [3, 4, 5], "the claim of another life counts as none");
    assert_eq!(offsets(now_ms - 30_000, mine).await, [5], "a small step of the clock changes nothing");
    assert_eq!(
        offsets(now_ms - 90_000, mine).await,
        [1, 2, 5],
        "the clock was set back: its time means nothing"
    );
}

/// However many rows are held, no question reads more than a part of them; what can be sent behind them is found.
pub(crate) async fn what_is_free_is_found_behind_very_many_that_are_held(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let held = LOOKED_AT as i64 + 100;
    let in_an_hour = SystemClock.now_ms() + 3_600_000;
    let mut writes = vec![failed(&owned.change("d", 0), in_an_hour)];
    writes.extend((1..held).map(|offset| waiting(&owned.change("d", offset))));
    writes.extend([held, held + 1].map(|offset| waiting(&owned.change("free", offset))));
    owned.write(writes).await;
    owned.commit(held + 2).await;
    let as_of_now = (SystemClock.now_ms(), Claim(0));
    let (mut after, mut pages, mut found) = (None, 0, Vec::new());
    loop {
        let page = owned.stash().drainable(&client("a"), after, as_of_now, 1, NO_BYTE_LIMIT).await.unwrap();
        found.extend(page.rows.iter().map(|row| row.transfer.sequence.offset));
        let Some(end) = page.end else { break };
        assert!(after.is_none_or(|after| end > after), "it goes on");
        pages += usize::from(page.rows.is_empty());
        after = Some(end);
    }
    assert_eq!((found, pages), (vec![held, held + 1], 1), "one page was held whole");
}

pub(crate) async fn rows_outlive_a_restart(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let changes: Vec<_> = (5..8).map(|offset| owned.change("d", offset)).collect();
    owned.write(changes.iter().map(waiting).collect()).await;
    owned.commit(7).await;
    let before = owned.owner;
    owned.stores.close().await;
    let owned = Owned::open(backend).await;
    assert!(owned.owner.epoch > before.epoch);
    owned.next_owner(7).await;
    assert_eq!(owned.offsets().await, [5, 6]);
    assert_eq!(owned.backlog().await.pending, 3);
}
