//! The contract of the client states.

use dispatcher::domain::client_state::{ClientState, Phase};

use crate::fixture::{Backend, client};

fn state(phase: Phase, since_ms: i64) -> ClientState {
    let members = serde_json::json!({
        "phase": phase,
        "since_ms": since_ms,
        "reason": "status_503",
        "next_attempt_at_ms": since_ms + 5_000,
        "failing_since_ms": since_ms,
        "last_success_ms": null,
        "failed_rounds": 3,
        "paused_by": "operator \u{0}",
    });
    serde_json::from_value(members).unwrap()
}

pub(crate) async fn a_state_comes_back(backend: &impl Backend) {
    let stores = backend.open().await;
    assert_eq!(stores.states.get(&client("a")).await.unwrap(), None);
    stores.states.put(&client("a"), state(Phase::Degraded, 1)).await.unwrap();
    stores.states.put(&client("a"), state(Phase::Paused, 2)).await.unwrap();
    stores.states.put(&client("b \u{0}"), state(Phase::Healthy, 3)).await.unwrap();
    assert_eq!(stores.states.get(&client("a")).await.unwrap(), Some(state(Phase::Paused, 2)));
    let mut all = stores.states.list().await.unwrap();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [(client("a"), state(Phase::Paused, 2)), (client("b \u{0}"), state(Phase::Healthy, 3))];
    assert_eq!(all, expected);
}

pub(crate) async fn states_outlive_a_restart(backend: &impl Backend) {
    let stores = backend.open().await;
    stores.states.put(&client("a"), state(Phase::Paused, 2)).await.unwrap();
    stores.close().await;
    let stores = backend.open().await;
    assert_eq!(stores.states.get(&client("a")).await.unwrap(), Some(state(Phase::Paused, 2)));
}
