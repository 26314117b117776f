//! The contract of the rows of the stash as operators see them. Clients here live on partition 3.

use std::sync::Arc;

use dispatcher::domain::dead_row::GivenUp;
use dispatcher::domain::stash::{RowState, StashWrite};
use dispatcher::domain::stash_view::{RowQuery, RowView, named_document};
use dispatcher::domain::transfer::{EventId, Transfer, TransferKind};
use dispatcher::ports::clock::{Clock as _, SystemClock};
use dispatcher::ports::stash::StashBatch;

use crate::fixture::{Backend, client, transfer};
use crate::stash::{Owned, dead, delivered, failed, waiting};

fn all() -> RowQuery {
    RowQuery { client: client("a"), state: None, document: None, after: None, limit: 100 }
}

impl Owned {
    async fn seen(&self, query: RowQuery) -> Vec<RowView> {
        self.stores.stash_rows.rows(query).await.unwrap()
    }

    async fn offsets_seen(&self, query: RowQuery) -> Vec<i64> {
        self.seen(query).await.iter().map(|row| row.sequence.offset).collect()
    }

    /// Of documents d to h at offsets 1 to 5: dead, waiting, superseded, failed, dead; and one of another client.
    async fn mixed(&self) -> Vec<Arc<Transfer>> {
        let changes: Vec<_> =
            ["d", "e", "f", "g", "h"].iter().zip(1..).map(|(id, offset)| self.change(id, offset)).collect();
        let mut writes = vec![waiting(&changes[1]), failed(&changes[3], 900)];
        for place in [0, 2, 4] {
            writes.extend([failed(&changes[place], 0), dead(&changes[place])]);
        }
        writes.push(delivered(&self.change("f", 9)));
        self.write(writes).await;
        let b = transfer(self.incarnation, "b", "d", 6);
        let of_b = StashBatch { client: client("b"), ..self.batch(vec![waiting(&b), dead(&b)]) };
        self.try_write(of_b).await.unwrap();
        changes
    }
}

pub(crate) async fn rows_of_all_states_come_in_their_order(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let begin_ms = SystemClock.now_ms() - 1_000;
    let changes = owned.mixed().await;
    let rows = owned.seen(all()).await;
    let states: Vec<_> = rows.iter().map(|row| (row.sequence.offset, row.state)).collect();
    use RowState::{Dead, Pending, Superseded};
    assert_eq!(states, [(1, Dead), (2, Pending), (3, Superseded), (4, Pending), (5, Dead)]);
    let row = &rows[3];
    let change = &changes[3];
    assert_eq!(
        (&row.event_id, &row.document, &row.source),
        (&change.event_id, &change.document, &change.source)
    );
    assert_eq!((row.kind, row.ts_ms, row.bytes), (TransferKind::Live, change.ts_ms, change.weight() as u64));
    assert_eq!((row.attempts, row.payload_failures, row.next_attempt_at_ms), (1, 0, 900));
    assert_eq!((row.reason.as_deref(), row.status), (Some("status_500"), Some(500)));
    assert!((begin_ms..begin_ms + 60_000).contains(&row.stashed_at_ms), "{}", row.stashed_at_ms);
    assert_eq!(row.first_failed_at_ms, row.last_failed_at_ms);
    let unsent = &rows[1];
    assert_eq!((unsent.attempts, unsent.first_failed_at_ms, unsent.reason.as_deref()), (0, None, None));
}

pub(crate) async fn rows_are_filtered_and_paged(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let changes = owned.mixed().await;
    owned.write(vec![waiting(&owned.change("d", 8))]).await;
    let of = |state| RowQuery { state: Some(state), ..all() };
    assert_eq!(owned.offsets_seen(of(RowState::Pending)).await, [2, 4, 8]);
    assert_eq!(owned.offsets_seen(of(RowState::Dead)).await, [1, 5]);
    assert_eq!(owned.offsets_seen(of(RowState::Superseded)).await, [3]);
    assert_eq!(owned.offsets_seen(RowQuery { client: client("c"), ..all() }).await, [0; 0]);
    let document = named_document(&changes[0].document);
    assert_eq!(document, Some(changes[0].document_hash));
    assert_eq!(owned.offsets_seen(RowQuery { document, ..all() }).await, [1, 8]);
    assert_eq!(owned.offsets_seen(RowQuery { document, ..of(RowState::Dead) }).await, [1]);
    for query in [all(), of(RowState::Pending)] {
        let (mut offsets, mut after) = (Vec::new(), None);
        loop {
            let page = owned.seen(RowQuery { after, limit: 2, ..query.clone() }).await;
            assert!(page.len() <= 2);
            let Some(last) = page.last() else { break };
            after = Some(last.sequence);
            offsets.extend(page.iter().map(|row| row.sequence.offset));
        }
        assert_eq!(offsets, owned.offsets_seen(query).await);
    }
}

pub(crate) async fn a_row_is_shown_with_its_body_apart(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let rows = owned.stores.stash_rows.clone();
    let changes = owned.mixed().await;
    let seen = owned.seen(all()).await;
    for (change, expected) in changes.iter().zip(seen) {
        let row = rows.row(&client("a"), &change.event_id).await.unwrap();
        assert_eq!(row, Some(expected));
        let body = rows.body(&client("a"), &change.event_id).await.unwrap();
        assert_eq!(body.as_ref(), Some(&change.body));
    }
    for (who, event) in [("b", changes[0].event_id.clone()), ("a", EventId::from_stored("none"))] {
        assert_eq!(rows.row(&client(who), &event).await.unwrap(), None);
        assert_eq!(rows.body(&client(who), &event).await.unwrap(), None);
    }
}

pub(crate) async fn what_was_given_up_is_purged_and_nothing_else(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let rows = owned.stores.stash_rows.clone();
    let changes = owned.mixed().await;
    let a = client("a");
    let before_all = SystemClock.now_ms() - 3_600_000;
    assert_eq!(rows.purge_given_up(&a, GivenUp::Dead, before_all, 100).await.unwrap(), 0);
    assert_eq!(rows.purge_given_up(&a, GivenUp::Dead, i64::MAX, 1).await.unwrap(), 1);
    assert_eq!(owned.offsets_seen(all()).await.len(), 4);
    assert_eq!(rows.purge_given_up(&a, GivenUp::Dead, i64::MAX, 100).await.unwrap(), 1);
    assert_eq!(owned.offsets_seen(all()).await, [2, 3, 4]);
    assert_eq!(rows.purge_given_up(&a, GivenUp::Superseded, i64::MAX, 100).await.unwrap(), 1);
    assert_eq!(owned.offsets_seen(all()).await, [2, 4]);
    let backlog = owned.backlog().await;
    assert_eq!((backlog.pending, backlog.dead), (2, 0));
    let of_b = RowQuery { client: client("b"), ..all() };
    assert_eq!(owned.offsets_seen(of_b).await, [6], "another's stay");
    // It was replayed meanwhile: it waits, and is owed.
    owned.write(vec![dead(&changes[1])]).await;
    let replay = StashWrite::Replay { transfer: changes[1].clone() };
    owned.write(vec![replay]).await;
    assert_eq!(rows.purge_given_up(&a, GivenUp::Dead, i64::MAX, 100).await.unwrap(), 0);
}
