//! What replicas tell and ask each other by Redis.

use std::sync::Arc;
use std::time::Duration;

use dispatcher::backends::redis::{Parts, Redis, Restarts};
use dispatcher::domain::replica::ReplicaName;
use dispatcher::metrics::Metrics;
use dispatcher::ports::actor_restarts::{ActorRestarts, NobodyActed, RestartAnswer, RestartWish};
use dispatcher::ports::dashboard_parts::{DashboardParts, LONGEST_PART, PartTexts};
use redis::AsyncCommands;

use crate::fixture::soon;
use crate::platform::Platform;
use crate::services;

const TTL: Duration = Duration::from_secs(30);

fn name(text: &str) -> ReplicaName {
    ReplicaName::parse(text).unwrap()
}

fn part(now: &str, base: Option<&str>) -> PartTexts {
    PartTexts { now: now.to_owned(), base: base.map(str::to_owned) }
}

/// Redis, once it is there.
async fn redis(platform: &Platform) -> Arc<Redis> {
    let redis = platform.redis(&Metrics::new());
    soon(async {
        while redis.health().await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    redis
}

#[tokio::test]
async fn parts_are_found_by_the_others_until_their_time_is_over() {
    let platform = Platform::new().await;
    let parts = Parts::new(redis(&platform).await);
    let (one, two) = (name("one"), name("two"));
    assert!(!parts.publish(&one, part("first", None), TTL).await.unwrap(), "there is no base yet");
    assert!(parts.publish(&one, part("now \u{e4}", Some("base")), TTL).await.unwrap());
    assert!(parts.publish(&one, part("later", None), TTL).await.unwrap(), "the base is still there");
    assert_eq!(parts.others(&one).await.unwrap(), []);
    assert_eq!(parts.others(&two).await.unwrap(), [(one.clone(), "later".to_owned())]);
    assert_eq!(parts.base(&one).await.unwrap(), Some("base".to_owned()));
    assert_eq!(parts.base(&two).await.unwrap(), None);
    assert!(parts.publish(&two, part("x", Some("y")), Duration::from_millis(50)).await.unwrap());
    soon(async {
        while !parts.others(&one).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let mut keys = platform.keys().await;
    let listed: Vec<String> = keys.smembers(format!("{}:dsp:replicas", platform.prefix)).await.unwrap();
    assert_eq!(listed, ["one"], "who is gone is taken off the list");
    for key in ["part:one", "part-base:one", "replicas"] {
        let seconds: i64 = keys.ttl(format!("{}:dsp:{key}", platform.prefix)).await.unwrap();
        assert!(seconds > 0, "{key}");
    }
}

#[tokio::test]
async fn what_is_no_part_is_passed_over() {
    let platform = Platform::new().await;
    let parts = Parts::new(redis(&platform).await);
    let too_long = "x".repeat(LONGEST_PART + 1);
    let refused = parts.publish(&name("one"), part(&too_long, None), TTL).await;
    assert!(refused.is_err(), "{refused:?}");
    let mut keys = platform.keys().await;
    let key = |name: &str| format!("{}:dsp:{name}", platform.prefix);
    let names: [&[u8]; 5] = [b"long", b"binary", b"gone", b"a b", b"\xff"];
    let _: () = keys.sadd(key("replicas"), names.to_vec()).await.unwrap();
    let _: () = keys.set(key("part:long"), too_long).await.unwrap();
    let _: () = keys.set(key("part:binary"), b"\xff\xfe".to_vec()).await.unwrap();
    assert_eq!(parts.others(&name("one")).await.unwrap(), []);
}

#[tokio::test]
async fn while_redis_is_away_nothing_is_told_and_nobody_asked() {
    let service = tokio::task::spawn_blocking(services::own_redis).await.unwrap();
    let platform = Platform::new().await.with_redis(&service);
    let redis = redis(&platform).await;
    let (parts, restarts) = (Parts::new(redis.clone()), Restarts::new(redis, name("one")));
    service.kill();
    let wish = RestartWish { kind: "delivery".to_owned(), id: "a".to_owned(), replica: None };
    soon(async {
        assert!(parts.publish(&name("one"), part("now", None), TTL).await.is_err());
        assert!(parts.others(&name("one")).await.is_err());
        assert!(matches!(restarts.ask(&wish).await, Err(NobodyActed::Unreachable(_))));
    })
    .await;
}

/// A replica that has one actor.
struct Replica {
    restarts: Arc<Restarts>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn replica(platform: &Platform, named: &str, has: &'static str) -> Replica {
    let restarts = Arc::new(Restarts::new(redis(platform).await, name(named)));
    let listening = restarts.clone();
    let task = tokio::spawn(async move {
        loop {
            let heard = listening.next().await;
            let answer = match heard.wish.id.as_str() {
                "over" if has == "over" => RestartAnswer::Over,
                id if id == has => RestartAnswer::Asked,
                _ => RestartAnswer::Unknown,
            };
            listening.answer(heard.number, answer);
        }
    });
    Replica { restarts, task }
}

#[tokio::test]
async fn a_wish_comes_to_the_replica_that_has_the_actor() {
    let platform = Platform::new().await;
    let one = replica(&platform, "one", "a").await;
    let _two = replica(&platform, "two", "b").await;
    let _three = replica(&platform, "three", "over").await;
    let ask = async |id: &str, replica: Option<&str>| {
        let wish = RestartWish { kind: "delivery".to_owned(), id: id.to_owned(), replica: replica.map(name) };
        one.restarts.ask(&wish).await
    };
    // All listen as soon as one that is asked for is found everywhere.
    soon(async {
        while ask("b", None).await != Ok((name("two"), RestartAnswer::Asked))
            || ask("over", None).await != Ok((name("three"), RestartAnswer::Over))
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert_eq!(ask("b", Some("two")).await, Ok((name("two"), RestartAnswer::Asked)));
    assert_eq!(ask("b", Some("three")).await, Err(NobodyActed::Unknown));
    let began = std::time::Instant::now();
    assert_eq!(ask("nobody's", None).await, Err(NobodyActed::Unknown));
    assert!(began.elapsed() < Duration::from_secs(4), "it is known as soon as all have said so");
}

#[tokio::test]
async fn one_that_says_nothing_is_not_waited_for_long() {
    let platform = Platform::new().await;
    let one = replica(&platform, "one", "a").await;
    let _mute = redis(&platform).await;
    let mut keys = platform.keys().await;
    let channel = format!("{}:dsp:notices", platform.prefix);
    soon(async {
        loop {
            let mut count = redis::cmd("PUBSUB");
            let (_, listeners): (String, i64) =
                count.arg("NUMSUB").arg(&channel).query_async(&mut keys).await.unwrap();
            if listeners == 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let wish = RestartWish { kind: "delivery".to_owned(), id: "b".to_owned(), replica: None };
    assert_eq!(one.restarts.ask(&wish).await, Err(NobodyActed::NoAnswer));
}
