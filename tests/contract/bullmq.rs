//! Queues on a Redis that is demoted, on which others act, and that gives jobs to workers that stood still.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dispatcher::backends::bullmq::{BullMq, BullMqOptions};
use dispatcher::domain::config::Secret;
use dispatcher::domain::job::JobId;
use dispatcher::ports::BoxFuture;
use dispatcher::ports::clock::{Clock, SystemClock};
use dispatcher::ports::job_queue::{
    Acted, JobEvent, JobOutcome, JobProcessor, JobQueue, JobQueues, NewJob, TakenJob,
};
use dispatcher::workers::QueueSet;
use dispatcher::workers::queues::Queue;
use redis::Connection;
use serde_json::{Value, json};

use crate::fixture::soon;
use crate::services::{self, Service};

fn queue(service: &Service, prefix: &str, clock: Arc<dyn Clock>) -> Arc<dyn JobQueue> {
    let options = BullMqOptions::new(Secret::new(service.url()), prefix, clock);
    BullMq::new(options).queue(Queue::Dispatcher.spec())
}

fn connection(service: &Service) -> Connection {
    redis::Client::open(service.url()).unwrap().get_connection().unwrap()
}

fn job(id: &str) -> NewJob {
    NewJob {
        id: JobId::parse(id).unwrap(),
        name: "RETRY".to_owned(),
        data: json!({}),
        delay: Duration::ZERO,
        priority: 0,
    }
}

/// Counts how often it is asked to do a job.
#[derive(Default)]
struct Counting {
    begun: AtomicUsize,
    lost: AtomicUsize,
}

impl JobProcessor for Counting {
    fn process(&self, _: TakenJob) -> BoxFuture<'_, JobOutcome> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { JobOutcome::Completed(Value::Null) })
    }

    fn happened(&self, event: JobEvent) {
        if let JobEvent::Lost { .. } = event {
            self.lost.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Behind the name another server is the primary by now: who stays on the old connection never gets there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connection_to_a_server_that_takes_no_writes_is_given_up() {
    let service = tokio::task::spawn_blocking(services::own_redis).await.unwrap();
    let queue = queue(&service, "bull", Arc::new(SystemClock));
    queue.add(job("first")).await.unwrap();
    let mut keys = connection(&service);
    let mut opened = move || {
        let info: String = redis::cmd("INFO").arg("stats").query(&mut keys).unwrap();
        let told = info.lines().find_map(|line| line.strip_prefix("total_connections_received:")).unwrap();
        told.trim().parse::<u64>().unwrap()
    };
    let before = opened();
    queue.counts().await.unwrap();
    assert_eq!(opened(), before, "one that works is kept");

    let mut demote = connection(&service);
    redis::cmd("REPLICAOF").arg("127.0.0.1").arg(1).exec(&mut demote).unwrap();
    let before = opened();
    queue.add(job("second")).await.unwrap_err();
    let _ = queue.add(job("second")).await;
    assert!(opened() > before);
    redis::cmd("REPLICAOF").arg("NO").arg("ONE").exec(&mut demote).unwrap();
    soon(async { while queue.add(job("second")).await.is_err() {} }).await;
}

#[tokio::test]
async fn what_is_no_job_is_left_alone() {
    let service = services::redis();
    let prefix = services::unique("acted");
    let queue = queue(service, &prefix, Arc::new(SystemClock));
    let mut keys = connection(service);
    queue.add(job("there")).await.unwrap();
    queue.pause().await.unwrap();
    let name = queue.spec().name;
    // Of a job that somebody took apart.
    redis::cmd("HSET").arg(format!("{prefix}:{name}:remains")).arg("name").arg("x").exec(&mut keys).unwrap();
    let all = |keys: &mut Connection| {
        let mut all: Vec<String> = redis::cmd("KEYS").arg(format!("{prefix}:*")).query(keys).unwrap();
        all.sort();
        all
    };
    let before = all(&mut keys);
    for id in ["meta", "wait", "paused", "marker", "id", "events", "metrics:completed", "remains", ""] {
        assert_eq!(queue.job(id).await, Ok(None), "{id:?}");
        assert_eq!(queue.promote(id).await, Ok(Acted::NotFound), "{id:?}");
        assert_eq!(queue.retry(id).await, Ok(Acted::NotFound), "{id:?}");
        assert_eq!(queue.remove(id).await, Ok(Acted::NotFound), "{id:?}");
    }
    assert_eq!(all(&mut keys), before);
    assert_eq!(queue.is_paused().await, Ok(true));
    assert_eq!(queue.remove("there").await, Ok(Acted::Done));
}

/// Whenever the time of day is asked for, the job was given away a minute ago, and its lock is gone.
struct StoodStill {
    url: String,
    lock: String,
}

impl Clock for StoodStill {
    fn now_ms(&self) -> i64 {
        let mut keys = redis::Client::open(self.url.as_str()).unwrap().get_connection().unwrap();
        redis::cmd("DEL").arg(&self.lock).exec(&mut keys).unwrap();
        SystemClock.now_ms() + 60_000
    }

    fn boot_ms(&self) -> i64 {
        SystemClock.boot_ms()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_lock_is_over_before_its_attempt_begins_is_not_begun() {
    let service = services::redis();
    let prefix = services::unique("late");
    let lock = format!("{prefix}:{}:late:lock", Queue::Dispatcher.spec().name);
    let clock = Arc::new(StoodStill { url: service.url().to_owned(), lock });
    let queue = queue(service, &prefix, clock.clone());
    let counting = Arc::new(Counting::default());
    let worker = queue.work(1, counting.clone());
    queue.add(job("late")).await.unwrap();
    soon(async {
        while counting.lost.load(Ordering::SeqCst) == 0 && counting.begun.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let (begun, lost) = (counting.begun.load(Ordering::SeqCst), counting.lost.load(Ordering::SeqCst));
    assert_eq!((begun, lost), (0, 1));
    worker.stop(Duration::from_secs(5)).await;
}
