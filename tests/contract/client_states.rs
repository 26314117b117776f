//! The contract of the client states.

use std::time::Duration;

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

pub(crate) async fn the_failure_clock_runs_from_the_first_failure(backend: &impl Backend) {
    let stores = backend.open().await;
    let (states, a) = (&stores.states, client("a"));
    let failing = |since_ms, rounds| ClientState {
        failing_since_ms: since_ms,
        failed_rounds: rounds,
        ..state(Phase::Degraded, 7)
    };
    assert_eq!(states.failing_for(&a).await.unwrap(), None);
    states.put(&a, failing(None, 0)).await.unwrap();
    assert_eq!(states.failing_for(&a).await.unwrap(), None);
    // What time the replica thinks it is does not count.
    states.put(&a, failing(Some(1_000), 1)).await.unwrap();
    let began = std::time::Instant::now();
    let within = |clock: Option<Duration>| {
        clock.is_some_and(|clock| clock <= began.elapsed() + Duration::from_millis(50))
    };
    assert!(within(states.failing_for(&a).await.unwrap()));
    tokio::time::sleep(Duration::from_millis(30)).await;
    states.put(&a, failing(Some(1_000), 2)).await.unwrap();
    assert!(states.failing_for(&a).await.unwrap() >= Some(Duration::from_millis(25)), "it goes on");
    states.put(&a, failing(Some(2_000), 1)).await.unwrap();
    assert!(
        states.failing_for(&a).await.unwrap() < Some(Duration::from_millis(25)),
        "there was a success in between"
    );
    states.put(&a, failing(None, 0)).await.unwrap();
    assert_eq!(states.failing_for(&a).await.unwrap(), None);
}

pub(crate) async fn states_outlive_a_restart(backend: &impl Backend) {
    let stores = backend.open().await;
    stores.states.put(&client("a"), state(Phase::Paused, 2)).await.unwrap();
    stores.close().await;
    let stores = backend.open().await;
    assert_eq!(stores.states.get(&client("a")).await.unwrap(), Some(state(Phase::Paused, 2)));
}

pub(crate) async fn what_a_resync_made_good_is_told_with_the_state(backend: &impl Backend) {
    let states = backend.open().await.states;
    let dropped = |dropped| ClientState { dropped, ..state(Phase::Healthy, 1) };
    let missing = async || states.get(&client("a")).await.unwrap().unwrap().missing();
    states.put(&client("a"), dropped(5)).await.unwrap();
    states.resynced(&client("a"), 5).await.unwrap();
    assert_eq!(missing().await, 0);
    // Its delivery actor does not know that yet, and stores what it has.
    states.put(&client("a"), dropped(7)).await.unwrap();
    assert_eq!(missing().await, 2);
    states.resynced(&client("a"), 3).await.unwrap();
    assert_eq!(missing().await, 2, "an older resync takes nothing back");
    assert_eq!(states.list().await.unwrap()[0].1.resynced, 5);
    states.resynced(&client("nobody"), 3).await.unwrap();
}
