//! Pauses of queues on a Redis that dies, is emptied, and is acted on by others.

use std::sync::Arc;
use std::time::Duration;

use dispatcher::backends::bullmq::{BullMq, BullMqOptions};
use dispatcher::domain::config::Secret;
use dispatcher::domain::decision::{Decision, Subject};
use dispatcher::ports::clock::SystemClock;
use dispatcher::ports::job_queue::{JobQueue, JobQueues};
use dispatcher::workers::queues::Queue;
use dispatcher::workers::{QueuePauses, QueueSet};

use crate::fixture::{Backend, EmbeddedBackend, soon};
use crate::services;

async fn until(queue: &dyn JobQueue, paused: bool) {
    soon(async {
        while queue.is_paused().await != Ok(paused) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

fn decision(queue: &dyn JobQueue) -> Decision {
    Decision::new(Subject::parse(queue.spec().name).unwrap(), "ann", "", 5).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_redis_has_its_pauses_again_and_a_resume_ends_them() {
    let service = tokio::task::spawn_blocking(services::own_redis).await.unwrap();
    let queues = BullMq::new(BullMqOptions::new(Secret::new(service.url()), "bull", Arc::new(SystemClock)));
    let (paused, other) = (queues.queue(Queue::Dispatcher.spec()), queues.queue(Queue::Heavy.spec()));
    let embedded = EmbeddedBackend::new();
    let decisions = embedded.open().await.decisions;
    let pauses = QueuePauses::new(decisions, vec![paused.clone(), other.clone()]);
    assert_eq!(pauses.pause(&*paused, decision(&*paused)).await, Ok(true));
    until(&*paused, true).await;

    let mut keys = redis::Client::open(service.url()).unwrap().get_connection().unwrap();
    redis::cmd("FLUSHALL").exec(&mut keys).unwrap();
    until(&*paused, false).await;
    // A process that begins looks at once.
    let kept = pauses.clone().keep();
    until(&*paused, true).await;
    drop(kept);
    assert_eq!(other.is_paused().await, Ok(false));

    // A pause that was made elsewhere is left alone, and so is the resume of one.
    other.pause().await.unwrap();
    pauses.put_back().await.unwrap();
    until(&*other, true).await;
    other.resume().await.unwrap();
    pauses.put_back().await.unwrap();
    assert_eq!(other.is_paused().await, Ok(false));

    pauses.resume(&*paused).await.unwrap();
    pauses.put_back().await.unwrap();
    assert_eq!(paused.is_paused().await, Ok(false));
    assert_eq!(pauses.list().await, Ok(vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_that_is_decided_while_redis_is_away_comes_with_it() {
    let service = tokio::task::spawn_blocking(services::own_redis).await.unwrap();
    let queues = BullMq::new(BullMqOptions::new(Secret::new(service.url()), "bull", Arc::new(SystemClock)));
    let queue = queues.queue(Queue::Dispatcher.spec());
    let embedded = EmbeddedBackend::new();
    let pauses = QueuePauses::new(embedded.open().await.decisions, vec![queue.clone()]);
    service.kill();
    assert_eq!(soon(pauses.pause(&*queue, decision(&*queue))).await, Ok(false));
    assert!(pauses.put_back().await.unwrap_err().is_transient());
    service.start_again();
    soon(async { while pauses.put_back().await.is_err() {} }).await;
    until(&*queue, true).await;
}
