//! The contract of the stash for rows that were given up: they are listed, shown, brought back and deleted. Clients here
//! live on partition 3.

use std::sync::Arc;

use dispatcher::domain::dead_row::{ByAge, DeadRow, DeadRowPlace, DeadRowQuery, GivenUp};
use dispatcher::domain::delivery::FailureClass;
use dispatcher::domain::stash::{RowState, StashWrite};
use dispatcher::domain::transfer::{EventId, Transfer, TransferKind};
use dispatcher::ports::clock::{Clock as _, SystemClock};
use dispatcher::ports::stash::StashBatch;

use crate::fixture::{Backend, client, transfer};
use crate::stash::{Owned, dead, delivered, failed, failure, waiting};

fn query(kind: GivenUp) -> DeadRowQuery {
    DeadRowQuery {
        client: Some(client("a")),
        kind,
        from_ms: 0,
        until_ms: i64::MAX,
        after: None,
        order: ByAge::OldestFirst,
        limit: 100,
    }
}

/// The replay of a change, at this place in the log.
fn replay(of: &Transfer, kind: TransferKind, offset: i64) -> Arc<Transfer> {
    let mut replay = of.clone();
    (replay.content.kind, replay.sequence.offset) = (kind, offset);
    Arc::new(replay)
}

impl Owned {
    async fn listed(&self, query: DeadRowQuery) -> Vec<DeadRow> {
        self.stash().dead_rows(query).await.unwrap()
    }

    async fn offsets_listed(&self, query: DeadRowQuery) -> Vec<i64> {
        self.listed(query).await.iter().map(|row| row.sequence.offset).collect()
    }

    async fn state(&self, change: &Transfer) -> Option<RowState> {
        let event = change.event_id.clone();
        let known = self.stash().check(&client("a"), Vec::new(), vec![event.clone()]).await.unwrap();
        known.stashed.get(&event).map(|row| row.state)
    }

    async fn replay(&self, of: &Transfer, kind: TransferKind, offset: i64) {
        self.write(vec![StashWrite::Replay { transfer: replay(of, kind, offset) }]).await;
    }

    /// Changes of documents at offsets that died one after the other.
    async fn died(&self, changes: &[(&str, i64)]) -> Vec<Arc<Transfer>> {
        let changes: Vec<_> = changes.iter().map(|(id, offset)| self.change(id, *offset)).collect();
        for change in &changes {
            self.write(vec![failed(change, 0), dead(change)]).await;
        }
        changes
    }
}

pub(crate) async fn rows_that_were_given_up_are_listed_by_page(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let begin_ms = SystemClock.now_ms() - 1_000;
    owned.died(&[("d", 1), ("e", 2), ("f", 3), ("g", 4), ("h", 5)]).await;
    owned.write(vec![delivered(&owned.change("e", 9)), waiting(&owned.change("w", 10))]).await;
    let b = transfer(owned.incarnation, "b", "d", 6);
    let of_b = StashBatch { client: client("b"), ..owned.batch(vec![waiting(&b), dead(&b)]) };
    owned.try_write(of_b).await.unwrap();

    let dead = query(GivenUp::Dead);
    assert_eq!(owned.offsets_listed(dead.clone()).await, [1, 3, 4, 5]);
    assert_eq!(owned.offsets_listed(query(GivenUp::Superseded)).await, [2]);
    let newest = DeadRowQuery { order: ByAge::NewestFirst, ..dead.clone() };
    assert_eq!(owned.offsets_listed(newest.clone()).await, [5, 4, 3, 1]);
    let all = DeadRowQuery { client: None, ..dead.clone() };
    assert_eq!(owned.offsets_listed(all).await, [1, 3, 4, 5, 6]);
    for (query, expected) in [(dead.clone(), vec![1, 3, 4, 5]), (newest, vec![5, 4, 3, 1])] {
        let (mut offsets, mut after) = (Vec::new(), None);
        loop {
            let page = owned.listed(DeadRowQuery { after, limit: 2, ..query.clone() }).await;
            let Some(last) = page.last() else { break };
            after = Some(last.place());
            offsets.extend(page.iter().map(|row| row.sequence.offset));
        }
        assert_eq!(offsets, expected);
    }

    let times: Vec<_> = owned.listed(dead.clone()).await.iter().map(|row| row.first_failed_at_ms).collect();
    assert!(times.iter().all(|time| (begin_ms..begin_ms + 60_000).contains(time)), "{times:?}");
    let range = |from_ms, until_ms| DeadRowQuery { from_ms, until_ms, ..dead.clone() };
    let last = *times.last().unwrap();
    assert_eq!(owned.listed(range(times[0], last + 1)).await.len(), 4);
    assert_eq!(owned.listed(range(last + 1, i64::MAX)).await.len(), 0);
    let before = times.iter().filter(|time| **time < last).count();
    assert_eq!(owned.listed(range(0, last)).await.len(), before, "the end is left out");
    let future = DeadRowPlace { first_failed_at_ms: last + 1, sequence: owned.change("d", 0).sequence };
    assert_eq!(owned.listed(DeadRowQuery { after: Some(future), ..dead }).await.len(), 0);
}

pub(crate) async fn a_row_that_was_given_up_is_shown_and_its_payload_apart(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let (stash, a) = (owned.stash(), client("a"));
    let (change, other) = (owned.change("nul\u{0}", 5), owned.change("e", 6));
    owned.write(vec![failed(&change, 0), waiting(&other)]).await;
    let event_id = change.event_id.clone();
    let refused = failure(FailureClass::Payload, 0);
    owned.write(vec![StashWrite::Failed { event_id, failure: refused }, dead(&change)]).await;
    let row = stash.dead_row(&a, &change.event_id).await.unwrap().unwrap();
    assert_eq!((&row.client, &row.event_id, &row.document), (&a, &change.event_id, &change.document));
    assert_eq!((row.sequence, &row.source, row.ts_ms), (change.sequence, &change.source, change.ts_ms));
    assert_eq!((row.kind, row.attempts, row.payload_failures), (GivenUp::Dead, 3, 2));
    assert_eq!((row.reason.as_deref(), row.status), (Some("status_500"), Some(500)));
    assert!(row.last_failed_at_ms >= Some(row.first_failed_at_ms));
    assert_eq!(owned.listed(query(GivenUp::Dead)).await, [row]);
    let payload = stash.dead_payload(&a, &change.event_id).await.unwrap();
    assert_eq!(payload, Some(change.content.clone()));

    for (who, event) in
        [("a", &other.event_id), ("b", &change.event_id), ("a", &EventId::from_stored("none"))]
    {
        let who = client(who);
        assert_eq!(stash.dead_row(&who, event).await.unwrap(), None);
        assert_eq!(stash.dead_payload(&who, event).await.unwrap(), None);
        assert!(!stash.delete_dead(&who, event).await.unwrap());
    }
    assert!(stash.delete_dead(&a, &change.event_id).await.unwrap());
    assert_eq!(stash.dead_row(&a, &change.event_id).await.unwrap(), None);
    let backlog = owned.backlog().await;
    assert_eq!((backlog.pending, backlog.dead), (1, 0));
}

pub(crate) async fn a_buried_row_has_a_time(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let change = owned.change("d", 5);
    owned.write(vec![waiting(&change)]).await;
    owned.stash().bury(&client("a"), owned.owner, "client_gone").await.unwrap();
    let row = owned.listed(query(GivenUp::Dead)).await.remove(0);
    assert_eq!((row.reason.as_deref(), row.attempts), (Some("client_gone"), 0));
    assert_eq!(row.last_failed_at_ms, Some(row.first_failed_at_ms));
}

pub(crate) async fn a_replayed_row_waits_at_its_old_place(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let changes = owned.died(&[("d", 5), ("d", 7), ("d", 9)]).await;
    owned.commit(10).await;
    owned.replay(&changes[0], TransferKind::Replay, 20).await;
    // In order, so that the newer one is behind it.
    owned.replay(&changes[1], TransferKind::Replay, 21).await;
    let rows = owned.rows().await;
    assert_eq!(rows.iter().map(|row| row.transfer.sequence.offset).collect::<Vec<_>>(), [5, 7]);
    assert_eq!(rows[0].transfer.kind, TransferKind::Replay);
    assert_eq!(rows[0].transfer.body, changes[0].body);
    assert_eq!((rows[0].attempts, rows[0].payload_failures), (2, 1), "what failed is not forgotten");
    assert_eq!((rows[0].next_attempt_at_ms, rows[0].claim), (0, None));
    let backlog = owned.backlog().await;
    assert_eq!((backlog.pending, backlog.dead), (2, 1));
    // Repeated, as after a crash.
    owned.replay(&changes[0], TransferKind::Replay, 20).await;
    assert_eq!(owned.offsets().await, [5, 7]);
    owned.write(vec![dead(&changes[0]), delivered(&changes[1])]).await;
    assert_eq!(owned.state(&changes[0]).await, Some(RowState::Superseded));
    assert_eq!(owned.state(&changes[2]).await, Some(RowState::Dead), "it is of a newer change");
}

pub(crate) async fn a_replay_does_not_pass_what_is_newer(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let changes = owned.died(&[("d", 5), ("e", 6), ("f", 7)]).await;
    let [_, e, f] = &changes[..] else { unreachable!() };
    let newer = owned.change("d", 8);
    owned.write(vec![waiting(&newer), delivered(&owned.change("e", 9))]).await;
    owned.commit(30).await;
    let never = owned.change("n", 12);
    for (number, change) in [&changes[0], e, &newer, &never].into_iter().enumerate() {
        owned.replay(change, TransferKind::Replay, 20 + number as i64).await;
    }
    assert_eq!(owned.offsets().await, [8]);
    assert_eq!(owned.state(&changes[0]).await, Some(RowState::Dead));
    assert_eq!(owned.state(e).await, Some(RowState::Superseded));
    assert_eq!(owned.state(&never).await, None);
    assert_eq!(owned.rows().await[0].transfer.kind, TransferKind::Live, "it waits as before");
    // A newer dead one is no obstacle, and an older one that waits is none.
    owned.write(vec![waiting(&owned.change("f", 3))]).await;
    owned.replay(f, TransferKind::Replay, 25).await;
    assert_eq!(owned.offsets().await, [3, 7, 8]);
}

pub(crate) async fn a_forced_replay_stands_where_it_came(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let changes = owned.died(&[("d", 5), ("d", 6), ("e", 7)]).await;
    let newer = owned.change("e", 9);
    owned.write(vec![delivered(&owned.change("d", 8)), waiting(&newer)]).await;
    owned.commit(20).await;
    owned.replay(&changes[0], TransferKind::ForcedReplay, 20).await;
    owned.replay(&changes[2], TransferKind::ForcedReplay, 21).await;
    assert_eq!(owned.offsets().await, [9], "they came after the commit");
    owned.commit(22).await;
    let rows = owned.rows().await;
    assert_eq!(rows.iter().map(|row| row.transfer.sequence.offset).collect::<Vec<_>>(), [9, 20, 21]);
    assert_eq!(rows[1].transfer.event_id, changes[0].event_id);
    assert_eq!(rows[1].transfer.kind, TransferKind::ForcedReplay);
    owned.replay(&changes[0], TransferKind::ForcedReplay, 20).await;
    owned.replay(&newer, TransferKind::ForcedReplay, 30).await;
    assert_eq!(owned.offsets().await, [9, 20, 21], "repeated, and of a row that waits");
    let backlog = owned.backlog().await;
    assert_eq!((backlog.pending, backlog.dead), (3, 0));
    owned.write(vec![dead(&changes[0])]).await;
    assert_eq!(owned.offsets_listed(query(GivenUp::Dead)).await, [20]);
}
