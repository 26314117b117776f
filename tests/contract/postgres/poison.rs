//! Data that PostgreSQL does not take: it alone is not written.

use dispatcher::domain::config::ClientId;
use dispatcher::domain::stash::{NewRow, StashWrite};
use dispatcher::domain::transfer::{EventId, NewTransfer, Sequence, Transfer};
use dispatcher::ports::stash::{Ownership, StashBatch};
use dispatcher::ports::{StoreError, StoreResult};

use super::{PostgresBackend, client};
use crate::fixture::new_transfer;

fn batch(owner: Ownership, content: NewTransfer) -> StashBatch {
    let client = content.client.clone();
    let sequence = Sequence { incarnation: 1, partition: 3, offset: content.source.offset };
    let row = NewRow { transfer: Transfer { sequence, content }.into(), failure: None, claim: None };
    StashBatch { client, ownership: owner, lease: None, writes: vec![StashWrite::Insert(row)] }
}

/// Applies these together with good ones before and after, which must be written. Returns what became of each.
async fn between_good_ones(backend: &PostgresBackend, contents: Vec<NewTransfer>) -> Vec<StoreResult<()>> {
    let stash = backend.postgres().await.stash();
    let owner = stash.take_ownership(1, 3, 0).await.unwrap();
    let (first, last) = (new_transfer("a", "first", 1), new_transfer("z", "last", 2));
    let contents = [vec![first], contents, vec![last]].concat();
    let batches = contents.into_iter().map(|content| batch(owner, content)).collect();
    let mut results = stash.apply(batches).await.unwrap();
    assert_eq!((results.remove(0), results.pop()), (Ok(()), Some(Ok(()))));
    for good in ["a", "z"] {
        assert_eq!(stash.backlog(&ClientId::new(good)).await.unwrap().pending, 1, "{good}");
    }
    results
}

#[tokio::test]
async fn ids_with_nul_and_of_any_length_are_data() {
    let backend = PostgresBackend::new();
    let long = "x".repeat(100_000);
    let contents = vec![
        new_transfer("nul \u{0}", "nul \u{0}", 3),
        new_transfer("b", &long, 4),
        NewTransfer { traceparent: Some("\u{0}".into()), ..new_transfer("c", "d", 5) },
        NewTransfer { event_id: EventId::from_stored("evt_\u{0}"), ..new_transfer("d", "d", 6) },
    ];
    assert_eq!(between_good_ones(&backend, contents).await, [Ok(()), Ok(()), Ok(()), Ok(())]);
    let all = backend.postgres().await.stash().backlogs().await.unwrap();
    assert!(all.iter().any(|(client, _)| client.as_str() == "nul \u{0}"), "{all:?}");
}

/// No real id is so long.
#[tokio::test]
async fn a_key_that_no_index_holds_is_refused() {
    let backend = PostgresBackend::new();
    let long = "x".repeat(3_000);
    let event_id = EventId::from_stored(&long);
    let contents = vec![new_transfer(&long, "d", 3), NewTransfer { event_id, ..new_transfer("b", "d", 4) }];
    let results = between_good_ones(&backend, contents).await;
    assert!(matches!(results[..], [Err(StoreError::Refused(_)), Err(StoreError::Refused(_))]), "{results:?}");
}

/// Whatever else PostgreSQL says no to.
#[tokio::test]
async fn what_postgres_refuses_keeps_nothing_else_back() {
    let backend = PostgresBackend::new();
    backend.postgres().await;
    client(&backend.options)
        .await
        .batch_execute(
            "ALTER TABLE stash ADD CHECK (ts_ms > 0);
            CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
            CREATE TRIGGER fail BEFORE INSERT ON stash
                FOR EACH ROW WHEN (new.ts_ms = 1) EXECUTE FUNCTION fail();",
        )
        .await
        .unwrap();
    let contents = vec![
        NewTransfer { ts_ms: -1, ..new_transfer("b", "d", 3) },
        new_transfer("c", "d", 4),
        NewTransfer { ts_ms: 1, ..new_transfer("d", "d", 5) },
    ];
    let results = between_good_ones(&backend, contents).await;
    assert!(
        matches!(results[..], [Err(StoreError::Refused(_)), Ok(()), Err(StoreError::Unavailable(_))]),
        "{results:?}"
    );
}

/// What takes longer than a statement may: each of the others has time of its own.
#[tokio::test]
async fn what_takes_too_long_keeps_nothing_else_back() {
    let backend = PostgresBackend::new();
    backend.postgres().await;
    client(&backend.options)
        .await
        .batch_execute(
            "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN PERFORM pg_sleep(60); RETURN new; END $$;
            CREATE TRIGGER linger BEFORE INSERT ON stash
                FOR EACH ROW WHEN (new.ts_ms = 1) EXECUTE FUNCTION linger();",
        )
        .await
        .unwrap();
    let slow = |client: &str, offset| NewTransfer { ts_ms: 1, ..new_transfer(client, "d", offset) };
    let contents = vec![slow("b", 3), new_transfer("c", "d", 4), new_transfer("b", "e", 5)];
    let results = between_good_ones(&backend, contents).await;
    assert!(
        matches!(results[..], [Err(StoreError::Unavailable(_)), Ok(()), Err(StoreError::Unavailable(_))]),
        "what a client asks for later waits, too: {results:?}"
    );
}
