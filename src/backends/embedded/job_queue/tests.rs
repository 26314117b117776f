//! What only this backend promises of queues: restarts, attempts that die, bounds, and times by the clock it is given.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::backends::embedded::{Embedded, EmbeddedOptions};
use crate::domain::job::{Cadence, JobId, JobState, QueueSpec, Retention, Workload};
use crate::domain::retry::RetrySchedule;
use crate::ports::clock::Clock;
use crate::ports::event_log::BatchLimits;
use crate::ports::job_queue::{JobCounts, JobEvent, JobOutcome, JobProcessor, NewJob, NewSchedule, TakenJob};
use crate::ports::{BoxFuture, StoreError};

static KEPT: QueueSpec = QueueSpec {
    name: "kept",
    retention: Retention::Dedup { age: Duration::from_secs(60), count: 3 },
    attempts: 3,
    backoff: RetrySchedule {
        base: Duration::from_secs(5),
        factor: 2.0,
        cap: Duration::from_secs(60),
        jitter: 0.2,
    },
    timeout: Duration::from_secs(60),
    concurrency_setting: "KEPT_WORKER_CONCURRENCY",
    concurrency: 1,
    workload: Workload::Heavy,
};

/// A clock that is set by hand.
struct HandClock(AtomicI64);

impl HandClock {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(1_764_435_600_000)))
    }

    fn goes_on(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn boot_ms(&self) -> i64 {
        self.now_ms()
    }
}

async fn open(folder: &Path, clock: &Arc<HandClock>) -> Embedded {
    let options = EmbeddedOptions {
        data_dir: folder.to_owned(),
        partitions: 1,
        retention: Duration::from_secs(3_600),
        tail: BatchLimits { records: 100, bytes: 1 << 20 },
        clock: clock.clone(),
    };
    Embedded::open(options).await.unwrap()
}

fn job(id: &str) -> NewJob {
    let id = JobId::parse(id).unwrap();
    NewJob { id, name: "WORK".to_owned(), data: json!(null), delay: Duration::ZERO, priority: 0 }
}

type Attempt = (TakenJob, oneshot::Sender<JobOutcome>);

/// Lets a test answer for the handler.
struct Desk(mpsc::UnboundedSender<Attempt>, mpsc::UnboundedSender<JobEvent>);

impl JobProcessor for Desk {
    fn process(&self, job: TakenJob) -> BoxFuture<'_, JobOutcome> {
        let (answer, outcome) = oneshot::channel();
        let _ = self.0.send((job, answer));
        Box::pin(async move {
            match outcome.await {
                Ok(outcome) => outcome,
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn happened(&self, event: JobEvent) {
        let _ = self.1.send(event);
    }
}

fn desk() -> (Arc<Desk>, mpsc::UnboundedReceiver<Attempt>, mpsc::UnboundedReceiver<JobEvent>) {
    let (attempts, taken) = mpsc::unbounded_channel();
    let (events, told) = mpsc::unbounded_channel();
    (Arc::new(Desk(attempts, events)), taken, told)
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("nothing came")
}

#[tokio::test]
async fn a_restart_takes_over_what_was_at_work() {
    let folder = tempfile::tempdir().unwrap();
    let clock = HandClock::new();
    let embedded = open(folder.path(), &clock).await;
    let queue = embedded.queues().queue(&KEPT);
    queue.add_bulk(vec![job("a"), NewJob { priority: 2, ..job("p") }, job("b")]).await.unwrap();
    let (desk, mut attempts, _) = desk();
    let worker = queue.work(2, desk);
    soon(attempts.recv()).await.unwrap();
    soon(attempts.recv()).await.unwrap();
    // As a kill does: the file is never told.
    embedded.close().await;
    drop(worker);
    let embedded = open(folder.path(), &clock).await;
    let queue = embedded.queues().queue(&KEPT);
    let counts = queue.counts().await.unwrap();
    assert_eq!(counts, JobCounts { waiting: 2, prioritized: 1, ..JobCounts::default() });
    let waiting = queue.jobs(JobState::Waiting, 0, 9).await.unwrap();
    assert_eq!(waiting.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(waiting[0].attempts_made, 0, "a crash is no failed attempt");
    queue.add(job("c")).await.unwrap();
    let waiting = queue.jobs(JobState::Waiting, 0, 9).await.unwrap();
    assert_eq!(waiting.last().unwrap().id, "c", "it is behind those of the life before");
    embedded.close().await;
}

#[test]
fn an_attempt_that_died_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let clock = HandClock::new();
    let lost = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (embedded, queue) = lost.block_on(async {
        let embedded = open(folder.path(), &clock).await;
        let queue = embedded.queues().queue(&KEPT);
        queue.add(job("a")).await.unwrap();
        let (desk, mut attempts, _) = desk();
        std::mem::forget(queue.work(1, desk));
        soon(attempts.recv()).await.unwrap();
        (embedded, queue)
    });
    // With all its tasks.
    drop(lost);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(async {
        let (desk, mut attempts, mut events) = desk();
        let worker = queue.work(1, desk);
        let (again, answer) = soon(attempts.recv()).await.unwrap();
        assert_eq!((again.id.as_str(), again.attempts_made), ("a", 0));
        assert_eq!(soon(events.recv()).await, Some(JobEvent::Stalled { id: "a".to_owned() }));
        answer.send(JobOutcome::Completed(Value::Null)).unwrap();
        worker.stop(Duration::from_secs(20)).await;
        assert_eq!(queue.job("a").await.unwrap().unwrap().state, JobState::Completed);
        embedded.close().await;
    });
}

#[tokio::test]
async fn too_much_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = open(folder.path(), &HandClock::new()).await;
    let queue = embedded.queues().queue(&KEPT);
    let body = json!("x".repeat(1 << 20));
    let named = NewJob { name: "x".repeat(1025), ..job("n") };
    for large in [NewJob { data: body.clone(), ..job("a") }, named] {
        let refused = queue.add_bulk(vec![job("b"), large]).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))));
    }
    assert_eq!(queue.counts().await.unwrap(), JobCounts::default());
    queue.add(job("a")).await.unwrap();
    let (desk, mut attempts, _) = desk();
    let worker = queue.work(1, desk);
    let (taken, answer) = soon(attempts.recv()).await.unwrap();
    assert!(matches!(taken.voice.log("x".repeat(1 << 20)).await, Err(StoreError::Refused(_))));
    assert!(matches!(taken.voice.progress(body.clone()).await, Err(StoreError::Refused(_))));
    answer.send(JobOutcome::Completed(body)).unwrap();
    worker.stop(Duration::from_secs(20)).await;
    let done = queue.job("a").await.unwrap().unwrap();
    assert_eq!((done.state, done.result), (JobState::Completed, Some(json!("1048578 bytes"))));
    taken.voice.log("late".to_owned()).await.unwrap();
    assert!(queue.logs("a").await.unwrap().is_empty(), "the job is not its any more");
    embedded.close().await;
}

#[tokio::test]
async fn ids_are_kept_by_count_and_age() {
    let folder = tempfile::tempdir().unwrap();
    let clock = HandClock::new();
    let embedded = open(folder.path(), &clock).await;
    let queue = embedded.queues().queue(&KEPT);
    let (desk, mut attempts, mut events) = desk();
    let _worker = queue.work(1, desk);
    let ids = async || {
        let ended = queue.jobs(JobState::Completed, 0, 9).await.unwrap();
        ended.into_iter().map(|job| job.id).collect::<Vec<_>>()
    };
    for id in ["a", "b", "c", "d"] {
        queue.add(job(id)).await.unwrap();
        let (_, answer) = soon(attempts.recv()).await.unwrap();
        answer.send(JobOutcome::Completed(Value::Null)).unwrap();
        soon(events.recv()).await.unwrap();
        clock.goes_on(Duration::from_secs(1));
    }
    assert_eq!(ids().await, ["d", "c", "b"]);
    clock.goes_on(Duration::from_secs(60));
    queue.add(job("e")).await.unwrap();
    let (_, answer) = soon(attempts.recv()).await.unwrap();
    answer.send(JobOutcome::Completed(Value::Null)).unwrap();
    soon(events.recv()).await.unwrap();
    assert_eq!(ids().await, ["e"]);
    embedded.close().await;
}

#[tokio::test]
async fn ticks_that_were_slept_through_come_once() {
    let folder = tempfile::tempdir().unwrap();
    let clock = HandClock::new();
    let embedded = open(folder.path(), &clock).await;
    let queue = embedded.queues().queue(&KEPT);
    let hour = Duration::from_secs(3600);
    let schedule = NewSchedule {
        id: "s".to_owned(),
        cadence: Cadence::every(hour).unwrap(),
        name: "TICK".to_owned(),
        data: Value::Null,
    };
    queue.put_schedule(schedule).await.unwrap();
    let (desk, mut attempts, mut events) = desk();
    let _worker = queue.work(1, desk);
    let (first, answer) = soon(attempts.recv()).await.unwrap();
    assert_eq!(first.tick_ms, Some(clock.now_ms()));
    clock.goes_on(hour * 5 / 2);
    answer.send(JobOutcome::Completed(Value::Null)).unwrap();
    soon(events.recv()).await.unwrap();
    let next = queue.schedules().await.unwrap()[0].next_ms;
    assert_eq!(next, Some(first.tick_ms.unwrap() + 3 * 3_600_000));
    // The clock is set back behind the first: it does not come again.
    clock.goes_on(hour / 2);
    queue.promote(&format!("repeat:s:{}", next.unwrap())).await.unwrap();
    let (second, answer) = soon(attempts.recv()).await.unwrap();
    assert_eq!(second.tick_ms, next);
    clock.0.fetch_sub(4 * 3_600_000, Ordering::Relaxed);
    answer.send(JobOutcome::Completed(Value::Null)).unwrap();
    soon(events.recv()).await.unwrap();
    assert_eq!(queue.schedules().await.unwrap()[0].next_ms, Some(next.unwrap() + 3_600_000));
    embedded.close().await;
}
