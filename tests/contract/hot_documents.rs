//! The contract of the stash for documents of which very many rows wait or were given up.

use dispatcher::domain::stash::{RowState, StashWrite};
use dispatcher::ports::stash::StashBatch;

use crate::fixture::{Backend, client, transfer};
use crate::stash::{Owned, dead, delivered, waiting};

/// More than any backend writes by one statement.
const MANY: i64 = 12_000;

/// Applies this to client `a` beside a change of client `b`, until it is done: each time it comes further, and never keeps the other back.
async fn apply(owned: &Owned, write: StashWrite) {
    for time in 0.. {
        let other = StashBatch {
            client: client("b"),
            writes: vec![waiting(&transfer(owned.incarnation, "b", "d", time))],
            ..owned.batch(Vec::new())
        };
        let results = owned.stash().apply(vec![owned.batch(vec![write.clone()]), other]).await.unwrap();
        assert_eq!(results[1], Ok(()));
        if results[0] == Ok(()) {
            return;
        }
        assert!(time < 10, "{results:?}");
    }
}

pub(crate) async fn a_delivery_supersedes_very_many_dead_rows(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let changes: Vec<_> = (0..=MANY).map(|offset| owned.change("d", offset)).collect();
    let (newest, older) = changes.split_last().unwrap();
    owned.write(changes.iter().map(waiting).collect()).await;
    owned.write(older.iter().map(dead).collect()).await;
    assert_eq!(owned.backlog().await.dead, MANY as u64);
    apply(&owned, delivered(newest)).await;
    let backlog = owned.backlog().await;
    assert_eq!((backlog.pending, backlog.dead), (0, 0));
    let events = [0, MANY / 2, MANY - 1, MANY].map(|at| changes[at as usize].event_id.clone());
    let known = owned.stash().check(&client("a"), vec![newest.document_hash], events.into()).await.unwrap();
    assert!(known.dead.is_empty() && known.waiting.is_empty() && known.stashed.len() == 3, "{known:?}");
    assert!(known.stashed.values().all(|row| row.state == RowState::Superseded), "{known:?}");
}

pub(crate) async fn a_change_goes_in_place_of_very_many(backend: &impl Backend) {
    let owned = Owned::open(backend).await;
    let changes: Vec<_> = (0..=MANY).map(|offset| owned.change("d", offset)).collect();
    owned.write(changes.iter().map(waiting).collect()).await;
    owned.write(vec![waiting(&owned.change("e", MANY + 1))]).await;
    owned.commit(MANY + 2).await;
    let newest_but_one = changes[MANY as usize - 1].clone();
    apply(&owned, StashWrite::Coalesced { transfer: newest_but_one }).await;
    assert_eq!(owned.offsets().await, [MANY - 1, MANY, MANY + 1]);
}
