//! The contract of the attempts.

use dispatcher::domain::attempt::Attempt;
use dispatcher::domain::transfer::EventId;

use crate::fixture::{Backend, client};

fn attempt(of: &str, at_ms: i64) -> Attempt {
    Attempt {
        at_ms,
        client: client(of),
        event_id: EventId::from_stored("evt_a"),
        document: "identity.users:1".into(),
        attempt: 1,
        delivered: false,
        status: Some(503),
        reason: "status_503".to_owned(),
        latency_ms: 12,
        answer: "busy".to_owned(),
    }
}

fn times(list: &[(i64, Attempt)]) -> Vec<i64> {
    list.iter().map(|(_, attempt)| attempt.at_ms).collect()
}

pub(crate) async fn attempts_come_back_as_they_were_newest_first(backend: &impl Backend) {
    let stores = backend.open().await;
    let odd = Attempt {
        document: "a.b:\u{0}ü".into(),
        attempt: u32::MAX,
        delivered: true,
        status: None,
        reason: String::new(),
        latency_ms: 0,
        answer: "\u{0}\n ü".to_owned(),
        ..attempt("a \u{0}", 2)
    };
    stores.attempts.append(vec![attempt("a \u{0}", 1), odd.clone()], 10).await.unwrap();
    stores.attempts.append(vec![], 10).await.unwrap();
    stores.attempts.append(vec![attempt("b", 3)], 10).await.unwrap();
    stores.close().await;
    let attempts = backend.open().await.attempts;
    let list = attempts.list(&client("a \u{0}"), None, 10).await.unwrap();
    let found: Vec<Attempt> = list.into_iter().map(|(_, attempt)| attempt).collect();
    assert_eq!(found, [odd, attempt("a \u{0}", 1)]);
    assert_eq!(attempts.list(&client("c"), None, 10).await.unwrap(), []);
}

/// The answer to an append may be lost: it is asked for again.
pub(crate) async fn an_attempt_that_is_recorded_twice_is_one(backend: &impl Backend) {
    let attempts = backend.open().await.attempts;
    attempts.append(vec![attempt("a", 1)], 10).await.unwrap();
    attempts.append(vec![attempt("a", 1), attempt("a", 2), attempt("b", 1)], 10).await.unwrap();
    assert_eq!(times(&attempts.list(&client("a"), None, 10).await.unwrap()), [2, 1]);
    assert_eq!(times(&attempts.list(&client("b"), None, 10).await.unwrap()), [1]);
}

pub(crate) async fn the_newest_of_each_client_are_kept(backend: &impl Backend) {
    let attempts = backend.open().await.attempts;
    attempts.append((1..=5).map(|at_ms| attempt("quiet", at_ms)).collect(), 5).await.unwrap();
    attempts.append((1..=9).map(|at_ms| attempt("loud", at_ms)).collect(), 3).await.unwrap();
    attempts.append(vec![attempt("loud", 10), attempt("third", 1)], 3).await.unwrap();
    assert_eq!(times(&attempts.list(&client("loud"), None, 10).await.unwrap()), [10, 9, 8]);
    assert_eq!(times(&attempts.list(&client("quiet"), None, 10).await.unwrap()), [5, 4, 3, 2, 1]);
    attempts.append(vec![attempt("loud", 11)], 0).await.unwrap();
    assert_eq!(attempts.list(&client("loud"), None, 10).await.unwrap(), []);
}

pub(crate) async fn attempts_are_paged(backend: &impl Backend) {
    let attempts = backend.open().await.attempts;
    attempts.append((1..=5).map(|at_ms| attempt("a", at_ms)).collect(), 10).await.unwrap();
    let first = attempts.list(&client("a"), None, 2).await.unwrap();
    assert_eq!(times(&first), [5, 4]);
    let second = attempts.list(&client("a"), Some(first[1].0), 2).await.unwrap();
    assert_eq!(times(&second), [3, 2]);
    let third = attempts.list(&client("a"), Some(second[1].0), usize::MAX).await.unwrap();
    assert_eq!(times(&third), [1]);
}

pub(crate) async fn old_attempts_are_forgotten(backend: &impl Backend) {
    let attempts = backend.open().await.attempts;
    attempts.append((1..=5).map(|at_ms| attempt("a", at_ms)).collect(), 10).await.unwrap();
    assert_eq!(attempts.purge(4).await.unwrap(), 3);
    assert_eq!(attempts.purge(4).await.unwrap(), 0);
    assert_eq!(times(&attempts.list(&client("a"), None, 10).await.unwrap()), [5, 4]);
}
