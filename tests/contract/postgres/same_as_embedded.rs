//! Many writes of many clients at once: the same rows as in the embedded stash, which does them one after the other.

use std::sync::Arc;

use dispatcher::domain::dead_row::{ByAge, DeadRow, DeadRowQuery, GivenUp};
use dispatcher::domain::delivery::FailureClass;
use dispatcher::domain::stash::{Claim, NewRow, RowFailure, StashCheck, StashWrite};
use dispatcher::domain::transfer::{Transfer, TransferKind};
use dispatcher::ports::stash::{Ownership, Stash, StashBatch};

use super::PostgresBackend;
use crate::fixture::{Backend as _, EmbeddedBackend, client, transfer};

const CLIENTS: [&str; 3] = ["a", "b", "c"];
const EVENTS: i64 = 8;

/// Event `offset` of a client: of one of three documents.
fn change(client: &str, offset: i64) -> Arc<Transfer> {
    transfer(1, client, &format!("d{}", offset % 3), offset)
}

fn random_write(random: &mut fastrand::Rng, client: &str) -> StashWrite {
    let transfer = change(client, random.i64(0..EVENTS));
    let class = random.choice([FailureClass::Endpoint, FailureClass::Config, FailureClass::Payload]).unwrap();
    let next_attempt_at_ms = random.i64(0..3);
    let failure = RowFailure { class, reason: "status_500".into(), status: Some(500), next_attempt_at_ms };
    match random.u8(0..8) {
        0 => StashWrite::Delivered { transfer },
        5 => StashWrite::Coalesced { transfer },
        1 => StashWrite::Failed { event_id: transfer.event_id.clone(), failure },
        2 => StashWrite::Dead { event_id: transfer.event_id.clone(), failure },
        3 => StashWrite::Replay { transfer: replay(&transfer, random) },
        _ => StashWrite::Insert(NewRow {
            transfer,
            failure: random.bool().then_some(failure),
            claim: random.bool().then_some(Claim(7)),
        }),
    }
}

fn replay(transfer: &Transfer, random: &mut fastrand::Rng) -> Arc<Transfer> {
    let mut replay = transfer.clone();
    replay.content.kind = random.choice([TransferKind::Replay, TransferKind::ForcedReplay]).unwrap();
    // Each at a place of its own.
    replay.sequence.offset = random.i64(EVENTS..1_000_000);
    Arc::new(replay)
}

fn random_batches(random: &mut fastrand::Rng, owner: Ownership) -> Vec<StashBatch> {
    let batch = |random: &mut fastrand::Rng| {
        let name = random.choice(CLIENTS).unwrap();
        let writes = (0..random.usize(0..8)).map(|_| random_write(random, name)).collect();
        StashBatch { client: client(name), ownership: owner, lease: None, writes }
    };
    (0..random.usize(1..6)).map(|_| batch(random)).collect()
}

/// All that can be seen of the stash.
async fn seen(stash: &dyn Stash) -> Vec<String> {
    let mut seen = Vec::new();
    for name in CLIENTS {
        let id = client(name);
        let rows = stash.drainable(&id, None, (i64::MAX, Claim(0)), 1_000, usize::MAX).await.unwrap().rows;
        seen.extend(rows.iter().map(|row| format!("{row:?}")));
        let changes: Vec<_> = (0..EVENTS).map(|offset| change(name, offset)).collect();
        let documents = changes.iter().map(|change| change.document_hash).collect();
        let events = changes.iter().map(|change| change.event_id.clone()).collect();
        let known = stash.check(&id, documents, events).await.unwrap();
        let of = |flag: fn(&StashCheck, &Transfer) -> bool| {
            changes.iter().map(|change| u8::from(flag(&known, change))).collect::<Vec<_>>()
        };
        seen.push(format!(
            "{:?} {:?} {:?}",
            of(|known, change| known.waiting.contains(&change.document_hash)),
            of(|known, change| known.dead.contains(&change.document_hash)),
            changes.iter().map(|change| known.stashed.get(&change.event_id)).collect::<Vec<_>>(),
        ));
        seen.push(format!("{:?}", stash.backlog(&id).await.unwrap()));
        for kind in [GivenUp::Dead, GivenUp::Superseded] {
            let order = ByAge::OldestFirst;
            let client = Some(id.clone());
            let query =
                DeadRowQuery { client, kind, from_ms: 0, until_ms: i64::MAX, after: None, order, limit: 100 };
            let rows = stash.dead_rows(query).await.unwrap();
            // Each store has a clock of its own.
            let timeless =
                rows.into_iter().map(|row| DeadRow { first_failed_at_ms: 0, last_failed_at_ms: None, ..row });
            let mut shown: Vec<_> = timeless.map(|row| format!("{row:?}")).collect();
            shown.sort();
            seen.extend(shown);
        }
    }
    seen
}

#[tokio::test]
async fn batches_do_what_their_writes_do_one_by_one() {
    let (postgres, embedded) = (PostgresBackend::new(), EmbeddedBackend::new());
    let (postgres, embedded) = (postgres.postgres().await.stash(), embedded.open().await.stash);
    let mut owners = Vec::new();
    for stash in [&postgres, &embedded] {
        let owner = stash.take_ownership(1, 3, 0).await.unwrap();
        stash.committed(owner, 1_000_000).await.unwrap();
        owners.push(owner);
    }
    assert_eq!(owners[0], owners[1]);
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let batches = random_batches(&mut random, owners[0]);
        let shown = format!("seed {seed}: {batches:?}");
        assert_eq!(postgres.apply(batches.clone()).await, embedded.apply(batches).await, "{shown}");
        assert_eq!(seen(&*postgres).await, seen(&*embedded).await, "{shown}");
    }
}
