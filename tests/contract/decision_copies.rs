//! The block list in Redis: a copy, and notices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dispatcher::backends::redis::DecisionCopies;
use dispatcher::domain::decision::{Decision, DecisionKind, Subject};
use dispatcher::metrics::Metrics;
use dispatcher::ports::decisions::Decisions;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::fixture::{Backend, EmbeddedBackend, soon, waits};
use crate::platform::Platform;
use crate::services;

const BLOCKED: DecisionKind = DecisionKind::BlockedOwner;

fn decision(subject: &str) -> Decision {
    Decision::new(Subject::parse(subject).unwrap(), "ann", "unpaid", 5).unwrap()
}

/// The copy, once it holds these.
async fn until_copied(keys: &mut MultiplexedConnection, prefix: &str, wanted: &[&str]) {
    soon(async {
        loop {
            let found: BTreeMap<String, String> =
                keys.hgetall(format!("{prefix}:dsp:blocked-owners")).await.unwrap();
            let expected = wanted
                .iter()
                .map(|owner| ((*owner).to_owned(), serde_json::to_string(&decision(owner)).unwrap()));
            if found == expected.collect() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn every_replica_hears_of_a_block_and_others_see_it() {
    let platform = Platform::new().await;
    let embedded = EmbeddedBackend::new();
    let truth = embedded.open().await.decisions;
    let replica = || DecisionCopies::new(Arc::clone(&truth), platform.redis(&Metrics::new()));
    let (one, two) = (replica(), replica());
    // Both have connected: they may have missed something.
    soon(async { tokio::join!(one.changed(), two.changed()) }).await;
    assert!(waits(two.changed()).await);
    let mut keys = platform.keys().await;
    for (made, expected) in [(true, vec!["bad"]), (false, vec![])] {
        if made {
            assert_eq!(one.put(BLOCKED, decision("bad")).await, Ok(decision("bad")));
        } else {
            assert_eq!(one.remove(BLOCKED, decision("bad").subject()).await, Ok(true));
        }
        soon(async { tokio::join!(one.changed(), two.changed()) }).await;
        assert_eq!(two.list(BLOCKED).await.unwrap().len(), expected.len());
        until_copied(&mut keys, &platform.prefix, &expected).await;
    }
    // A paused queue is no block, and told all the same.
    one.put(DecisionKind::PausedQueue, decision("queue")).await.unwrap();
    soon(async { tokio::join!(one.changed(), two.changed()) }).await;
    one.list(DecisionKind::PausedQueue).await.unwrap();
    until_copied(&mut keys, &platform.prefix, &[]).await;
}

#[tokio::test]
async fn without_redis_decisions_are_made_and_the_copy_is_back_with_it() {
    let service = tokio::task::spawn_blocking(services::own_redis).await.unwrap();
    let platform = Platform::new().await.with_redis(&service);
    let embedded = EmbeddedBackend::new();
    let truth = embedded.open().await.decisions;
    let decisions = DecisionCopies::new(truth, platform.redis(&Metrics::new()));
    soon(decisions.changed()).await;
    service.kill();
    soon(decisions.put(BLOCKED, decision("bad"))).await.unwrap();
    assert_eq!(soon(decisions.list(BLOCKED)).await, Ok(vec![decision("bad")]));
    soon(decisions.changed()).await;
    service.start_again();
    soon(decisions.changed()).await;
    decisions.list(BLOCKED).await.unwrap();
    until_copied(&mut platform.keys().await, &platform.prefix, &["bad"]).await;
    // Emptied: nothing but the copy was there.
    let _: () = redis::cmd("FLUSHALL").query_async(&mut platform.keys().await).await.unwrap();
    decisions.list(BLOCKED).await.unwrap();
    until_copied(&mut platform.keys().await, &platform.prefix, &["bad"]).await;
}
