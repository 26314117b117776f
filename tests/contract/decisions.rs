//! The contract of what operators decided.

use dispatcher::domain::decision::{Decision, DecisionKind, Subject};

use crate::fixture::Backend;

const BLOCKED: DecisionKind = DecisionKind::BlockedOwner;

fn decision(subject: &str, by: &str, reason: &str, since_ms: i64) -> Decision {
    Decision::new(Subject::parse(subject).unwrap(), by, reason, since_ms).unwrap()
}

pub(crate) async fn a_decision_holds_since_it_was_made_first(backend: &impl Backend) {
    let decisions = backend.open().await.decisions;
    assert_eq!(decisions.list(BLOCKED).await, Ok(vec![]));
    let made = decision("o", "ann", "", 5);
    assert_eq!(decisions.put(BLOCKED, made.clone()).await, Ok(made));
    let again = decisions.put(BLOCKED, decision("o", "bob", "unpaid", 9)).await;
    assert_eq!(again, Ok(decision("o", "bob", "unpaid", 5)));
    assert_eq!(decisions.list(BLOCKED).await, Ok(vec![decision("o", "bob", "unpaid", 5)]));
}

pub(crate) async fn kinds_are_independent(backend: &impl Backend) {
    let decisions = backend.open().await.decisions;
    decisions.put(BLOCKED, decision("same", "ann", "", 1)).await.unwrap();
    decisions.put(DecisionKind::PausedQueue, decision("same", "bob", "", 2)).await.unwrap();
    assert_eq!(decisions.list(BLOCKED).await, Ok(vec![decision("same", "ann", "", 1)]));
    let subject = Subject::parse("same").unwrap();
    assert_eq!(decisions.remove(BLOCKED, &subject).await, Ok(true));
    assert_eq!(decisions.list(DecisionKind::PausedQueue).await, Ok(vec![decision("same", "bob", "", 2)]));
}

pub(crate) async fn what_is_taken_back_is_gone(backend: &impl Backend) {
    let decisions = backend.open().await.decisions;
    let subject = Subject::parse("o").unwrap();
    assert_eq!(decisions.remove(BLOCKED, &subject).await, Ok(false));
    decisions.put(BLOCKED, decision("o", "ann", "", 1)).await.unwrap();
    assert_eq!(decisions.remove(BLOCKED, &subject).await, Ok(true));
    assert_eq!(decisions.list(BLOCKED).await, Ok(vec![]));
    // What is decided anew holds since then.
    decisions.put(BLOCKED, decision("o", "ann", "", 7)).await.unwrap();
    assert_eq!(decisions.list(BLOCKED).await, Ok(vec![decision("o", "ann", "", 7)]));
}

pub(crate) async fn decisions_outlive_a_restart(backend: &impl Backend) {
    let stores = backend.open().await;
    // As long, and as strange, as they come.
    let longest = decision(&"é".repeat(128), &"漢".repeat(100), &"\u{1f980}".repeat(500), i64::MAX);
    let odd = decision("a' -- \\ %_", "\u{202e}x", "\"{}\"", i64::MIN);
    for made in [&longest, &odd] {
        stores.decisions.put(BLOCKED, made.clone()).await.unwrap();
    }
    stores.close().await;
    let mut kept = backend.open().await.decisions.list(BLOCKED).await.unwrap();
    kept.sort_by(|one, other| one.subject().cmp(other.subject()));
    assert_eq!(kept, [odd, longest]);
}
