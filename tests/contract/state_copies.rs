//! Copies of client states in Redis.

use std::time::Duration;

use dispatcher::backends::redis::StateCopies;
use dispatcher::domain::client_state::ClientState;
use dispatcher::metrics::Metrics;
use dispatcher::ports::client_states::ClientStates;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::fixture::{Backend, EmbeddedBackend, client, soon};
use crate::platform::Platform;
use crate::services;

async fn until<T: redis::FromRedisValue + PartialEq + std::fmt::Debug>(
    keys: &mut MultiplexedConnection,
    key: &str,
    wanted: Option<T>,
) {
    soon(async {
        loop {
            let found: Option<T> = keys.get(key).await.unwrap();
            if found == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn others_see_the_state_and_since_when_it_fails() {
    let platform = Platform::new().await;
    let embedded = EmbeddedBackend::new();
    let stores = embedded.open().await;
    let states = StateCopies::new(stores.states, platform.redis(&Metrics::new()));
    let mut keys = platform.keys().await;
    let failing = format!("{}:dsp:failing:a", platform.prefix);
    let mut state = ClientState { failing_since_ms: Some(17), ..ClientState::new(1) };
    states.put(&client("a"), state.clone()).await.unwrap();
    until(&mut keys, &failing, Some(17)).await;
    let json: String = keys.get(format!("{}:dsp:state:a", platform.prefix)).await.unwrap();
    assert_eq!(serde_json::from_str::<ClientState>(&json).unwrap(), state);
    let seconds: i64 = keys.ttl(&failing).await.unwrap();
    assert!(seconds > 0);
    state.failing_since_ms = None;
    states.put(&client("a"), state.clone()).await.unwrap();
    until::<i64>(&mut keys, &failing, None).await;
    assert_eq!(states.get(&client("a")).await.unwrap(), Some(state));
}

#[tokio::test]
async fn the_truth_does_not_wait_for_redis_and_copies_follow_when_it_is_back() {
    let service = tokio::task::spawn_blocking(services::own_redis).await.unwrap();
    let platform = Platform::new().await.with_redis(&service);
    let embedded = EmbeddedBackend::new();
    let stores = embedded.open().await;
    let redis = platform.redis(&Metrics::new());
    let states = StateCopies::new(stores.states, redis);
    service.kill();
    let puts = async {
        for since_ms in 1..=50 {
            let state = ClientState { failing_since_ms: Some(since_ms), ..ClientState::new(1) };
            states.put(&client("a"), state).await.unwrap();
        }
    };
    // Waiting a second each time, it would take longer.
    soon(puts).await;
    service.start_again();
    let mut keys = platform.keys().await;
    until(&mut keys, &format!("{}:dsp:failing:a", platform.prefix), Some(50)).await;
}
