//! The contract of the queues.

use std::sync::Arc;
use std::time::Duration;

use dispatcher::domain::job::{Cadence, JobId, JobState, QueueSpec, Retention, Workload};
use dispatcher::domain::retry::RetrySchedule;
use dispatcher::ports::job_queue::{
    Acted, JobCounts, JobEvent, JobOutcome, JobProcessor, JobQueue, JobQueues, NewJob, NewSchedule,
    RunningWorker, TakenJob,
};
use dispatcher::ports::{BoxFuture, StoreError};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::fixture::{soon, waits};

/// A technology that has queues.
pub(crate) trait QueueBackend {
    fn open(&self) -> Arc<dyn JobQueues>;
}

const DEDUP: QueueSpec = QueueSpec {
    name: "kept",
    retention: Retention::Dedup { age: Duration::from_secs(3600), count: 100 },
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
const REDRIVABLE: QueueSpec = QueueSpec {
    name: "freed",
    retention: Retention::Redrivable,
    concurrency_setting: "FREED_WORKER_CONCURRENCY",
    ..DEDUP
};
static DEDUP_SPEC: QueueSpec = DEDUP;
static REDRIVABLE_SPEC: QueueSpec = REDRIVABLE;

fn dedup(backend: &impl QueueBackend) -> Arc<dyn JobQueue> {
    backend.open().queue(&DEDUP_SPEC)
}

fn redrivable(backend: &impl QueueBackend) -> Arc<dyn JobQueue> {
    backend.open().queue(&REDRIVABLE_SPEC)
}

fn job(id: &str) -> NewJob {
    NewJob {
        id: JobId::parse(id).unwrap(),
        name: "WORK".to_owned(),
        data: json!({"of": id}),
        delay: Duration::ZERO,
        priority: 0,
    }
}

fn delayed(id: &str, delay: Duration) -> NewJob {
    NewJob { delay, ..job(id) }
}

const HOUR: Duration = Duration::from_secs(3600);

/// Lets a test answer for the handler.
struct Desk {
    attempts: mpsc::UnboundedSender<Attempt>,
    events: mpsc::UnboundedSender<JobEvent>,
}

struct Attempt {
    job: TakenJob,
    answer: oneshot::Sender<JobOutcome>,
}

impl Attempt {
    fn ends(self, outcome: JobOutcome) {
        self.answer.send(outcome).unwrap();
    }

    fn done(self) {
        self.ends(JobOutcome::Completed(Value::Null));
    }

    fn fails(self, reason: &str, after: Duration) {
        self.ends(JobOutcome::Retry { reason: reason.to_owned(), after });
    }
}

impl JobProcessor for Desk {
    fn process(&self, job: TakenJob) -> BoxFuture<'_, JobOutcome> {
        let (answer, outcome) = oneshot::channel();
        let _ = self.attempts.send(Attempt { job, answer });
        // A test that has ended answers nothing.
        Box::pin(async move { outcome.await.unwrap_or(JobOutcome::Later { after: HOUR }) })
    }

    fn happened(&self, event: JobEvent) {
        let _ = self.events.send(event);
    }
}

struct Office {
    worker: Box<dyn RunningWorker>,
    attempts: Mutex<mpsc::UnboundedReceiver<Attempt>>,
    events: Mutex<mpsc::UnboundedReceiver<JobEvent>>,
}

impl Office {
    fn open(queue: &Arc<dyn JobQueue>, concurrency: u32) -> Self {
        let (attempts, taken) = mpsc::unbounded_channel();
        let (events, told) = mpsc::unbounded_channel();
        let worker = queue.work(concurrency, Arc::new(Desk { attempts, events }));
        Self { worker, attempts: Mutex::new(taken), events: Mutex::new(told) }
    }

    async fn next(&self) -> Attempt {
        soon(async { self.attempts.lock().await.recv().await.unwrap() }).await
    }

    async fn is_idle(&self) -> bool {
        waits(async { self.attempts.lock().await.recv().await }).await
    }

    async fn told(&self, event: &JobEvent) {
        soon(async { while self.events.lock().await.recv().await.as_ref() != Some(event) {} }).await;
    }

    /// The store has the job's end.
    async fn completed(&self, id: &str) {
        self.told(&JobEvent::Completed { id: id.to_owned(), result: Value::Null }).await;
    }

    async fn failed(&self, id: &str, reason: &str) {
        self.told(&JobEvent::Failed { id: id.to_owned(), reason: reason.to_owned() }).await;
    }
}

async fn state(queue: &Arc<dyn JobQueue>, id: &str) -> Option<JobState> {
    queue.job(id).await.unwrap().map(|job| job.state)
}

pub(crate) async fn an_id_that_is_there_adds_nothing(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    queue.add(job("a")).await.unwrap();
    queue.add(NewJob { data: json!("other"), ..delayed("a", HOUR) }).await.unwrap();
    queue.add_bulk(vec![NewJob { name: "OTHER".to_owned(), ..job("a") }, job("b")]).await.unwrap();
    let first = queue.job("a").await.unwrap().unwrap();
    assert_eq!(
        (first.name.as_str(), &first.data, first.state),
        ("WORK", &json!({"of": "a"}), JobState::Waiting)
    );
    assert_eq!(queue.counts().await.unwrap(), JobCounts { waiting: 2, ..JobCounts::default() });
}

pub(crate) async fn a_job_comes_back_as_it_was_added(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    let data = json!({"z": 1, "a": [null, "\u{0}\u{1f600}", 1.5], "big": i64::MAX});
    queue.add(NewJob { data: data.clone(), priority: 7, ..job("a") }).await.unwrap();
    let record = queue.job("a").await.unwrap().unwrap();
    assert_eq!((record.state, record.priority, record.attempts), (JobState::Prioritized, 7, 3));
    assert_eq!((record.data.to_string(), record.attempts_made), (data.to_string(), 0));
    assert_eq!((record.reason, record.result, record.progress, record.schedule), (None, None, None, None));
    assert_eq!(queue.job("b").await.unwrap(), None);
}

pub(crate) async fn jobs_run_in_their_order(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    queue.add(NewJob { priority: 2, ..job("last") }).await.unwrap();
    queue.add(NewJob { priority: 1, ..job("third") }).await.unwrap();
    queue.add(job("first")).await.unwrap();
    queue.add(job("second")).await.unwrap();
    let waiting: Vec<String> =
        queue.jobs(JobState::Waiting, 0, 10).await.unwrap().into_iter().map(|job| job.id).collect();
    assert_eq!(waiting, ["first", "second"]);
    assert_eq!(queue.jobs(JobState::Waiting, 1, 10).await.unwrap().len(), 1);
    assert_eq!(queue.jobs(JobState::Waiting, 0, 0).await.unwrap(), []);
    let office = Office::open(&queue, 1);
    for id in ["first", "second", "third", "last"] {
        let attempt = office.next().await;
        assert_eq!(attempt.job.id, id);
        attempt.done();
    }
}

pub(crate) async fn a_delayed_job_waits_until_it_is_due(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    let office = Office::open(&queue, 1);
    queue.add(delayed("hour", HOUR)).await.unwrap();
    queue.add(delayed("soon", Duration::from_millis(300))).await.unwrap();
    let record = queue.job("hour").await.unwrap().unwrap();
    let wait = record.due_ms.unwrap() - record.created_ms;
    assert!((3_599_000..=3_601_000).contains(&wait), "{wait}");
    let attempt = office.next().await;
    assert_eq!(attempt.job.id, "soon");
    attempt.done();
    assert!(office.is_idle().await);
}

pub(crate) async fn concurrency_is_kept(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    let office = Office::open(&queue, 2);
    queue.add_bulk((0..5).map(|n| job(&format!("j{n}"))).collect()).await.unwrap();
    let first = office.next().await;
    let second = office.next().await;
    assert!(office.is_idle().await);
    assert_eq!(office.worker.active(), 2);
    first.done();
    let third = office.next().await;
    second.done();
    third.done();
    for _ in 0..2 {
        office.next().await.done();
    }
}

pub(crate) async fn a_failed_attempt_is_tried_again_with_its_reason(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    let office = Office::open(&queue, 1);
    queue.add(job("a")).await.unwrap();
    office.next().await.fails("503 \"x\" (next attempt in 5 ms)", HOUR);
    office.failed("a", "503 \"x\" (next attempt in 5 ms)").await;
    let record = queue.job("a").await.unwrap().unwrap();
    assert_eq!((record.state, record.attempts_made), (JobState::Delayed, 1));
    assert_eq!(record.reason.as_deref(), Some("503 \"x\" (next attempt in 5 ms)"));
    let wait = record.due_ms.unwrap() - record.started_ms.unwrap();
    assert!((3_599_000..3_620_000).contains(&wait), "{wait}");
    assert_eq!(queue.promote("a").await.unwrap(), Acted::Done);
    let again = office.next().await;
    assert_eq!((again.job.attempts_made, again.job.attempts), (1, 3));
    again.fails("second", Duration::from_millis(50));
    let last = office.next().await;
    assert_eq!(last.job.attempts_made, 2);
    last.done();
    office.completed("a").await;
    let logs = queue.logs("a").await.unwrap();
    assert_eq!(logs, ["attempt 1: 503 \"x\" (next attempt in 5 ms)", "attempt 2: second"]);
}

pub(crate) async fn the_last_attempt_gives_up(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    let office = Office::open(&queue, 1);
    queue.add(job("a")).await.unwrap();
    for _ in 0..3 {
        office.next().await.fails("no", Duration::from_millis(1));
        office.failed("a", "no").await;
    }
    let record = queue.job("a").await.unwrap().unwrap();
    assert_eq!(
        (record.state, record.attempts_made, record.reason.as_deref()),
        (JobState::Failed, 3, Some("no"))
    );
    assert!(record.finished_ms.is_some());
    queue.add(job("b")).await.unwrap();
    office.next().await.ends(JobOutcome::Failed { reason: "at once".to_owned() });
    office.failed("b", "at once").await;
    assert_eq!(state(&queue, "b").await, Some(JobState::Failed));
}

pub(crate) async fn going_on_later_counts_no_attempt(backend: &impl QueueBackend) {
    let queue = redrivable(backend);
    let office = Office::open(&queue, 1);
    queue.add(job("a")).await.unwrap();
    for _ in 0..5 {
        let attempt = office.next().await;
        assert_eq!(attempt.job.attempts_made, 0);
        attempt.ends(JobOutcome::Later { after: Duration::from_millis(20) });
    }
    office.next().await.done();
    office.completed("a").await;
    assert_eq!(queue.job("a").await.unwrap(), None);
}

pub(crate) async fn a_dedup_queue_keeps_the_id(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    let office = Office::open(&queue, 1);
    queue.add(job("a")).await.unwrap();
    office.next().await.ends(JobOutcome::Completed(json!({"rows": 3})));
    office.told(&JobEvent::Completed { id: "a".to_owned(), result: json!({"rows": 3}) }).await;
    queue.add(job("a")).await.unwrap();
    assert!(office.is_idle().await);
    let record = queue.job("a").await.unwrap().unwrap();
    assert_eq!((record.state, record.result), (JobState::Completed, Some(json!({"rows": 3}))));
}

pub(crate) async fn a_redrivable_queue_frees_the_id(backend: &impl QueueBackend) {
    let queue = redrivable(backend);
    let office = Office::open(&queue, 1);
    queue.add(job("a")).await.unwrap();
    let running = office.next().await;
    queue.add(job("a")).await.unwrap();
    running.done();
    office.completed("a").await;
    assert_eq!(queue.job("a").await.unwrap(), None, "what is added while it runs is not kept for later");
    queue.add(job("a")).await.unwrap();
    office.next().await.ends(JobOutcome::Failed { reason: "no".to_owned() });
    office.failed("a", "no").await;
    assert_eq!(queue.counts().await.unwrap(), JobCounts::default());
    queue.add(job("a")).await.unwrap();
    office.next().await.done();
}

pub(crate) async fn promote_acts_on_delayed_jobs(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    queue.add(delayed("d", HOUR)).await.unwrap();
    queue.add(NewJob { priority: 1, ..delayed("p", HOUR) }).await.unwrap();
    assert_eq!(queue.promote("d").await.unwrap(), Acted::Done);
    assert_eq!(queue.promote("d").await.unwrap(), Acted::Not(JobState::Waiting));
    assert_eq!(queue.promote("p").await.unwrap(), Acted::Done);
    assert_eq!(state(&queue, "p").await, Some(JobState::Prioritized));
    assert_eq!(queue.promote("none").await.unwrap(), Acted::NotFound);
}

pub(crate) async fn retry_acts_on_failed_jobs(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    let office = Office::open(&queue, 1);
    queue.add(job("a")).await.unwrap();
    let attempt = office.next().await;
    assert_eq!(queue.retry("a").await.unwrap(), Acted::Not(JobState::Active));
    attempt.ends(JobOutcome::Failed { reason: "no".to_owned() });
    office.failed("a", "no").await;
    assert_eq!(queue.retry("a").await.unwrap(), Acted::Done);
    let again = office.next().await;
    assert_eq!(again.job.attempts_made, 0, "it has all its attempts again");
    again.done();
    office.completed("a").await;
    assert_eq!(queue.retry("a").await.unwrap(), Acted::Not(JobState::Completed));
    assert_eq!(queue.retry("none").await.unwrap(), Acted::NotFound);
}

pub(crate) async fn remove_acts_on_all_but_active_jobs(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    queue.add(delayed("d", HOUR)).await.unwrap();
    queue.add(job("w")).await.unwrap();
    for id in ["d", "w"] {
        assert_eq!(queue.remove(id).await.unwrap(), Acted::Done);
        assert_eq!(queue.remove(id).await.unwrap(), Acted::NotFound);
    }
    let office = Office::open(&queue, 1);
    queue.add(job("a")).await.unwrap();
    let attempt = office.next().await;
    assert_eq!(queue.remove("a").await.unwrap(), Acted::Not(JobState::Active));
    attempt.done();
    office.completed("a").await;
    assert_eq!(queue.remove("a").await.unwrap(), Acted::Done);
    assert_eq!(queue.counts().await.unwrap(), JobCounts::default());
}

pub(crate) async fn all_are_promoted_or_retried(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    queue.add_bulk((0..30).map(|n| delayed(&format!("j{n}"), HOUR)).collect()).await.unwrap();
    assert_eq!(queue.promote_all().await.unwrap(), 30);
    let office = Office::open(&queue, 1);
    for _ in 0..30 {
        let attempt = office.next().await;
        let id = attempt.job.id.clone();
        attempt.ends(JobOutcome::Failed { reason: "no".to_owned() });
        office.failed(&id, "no").await;
    }
    assert_eq!(queue.counts().await.unwrap(), JobCounts { failed: 30, ..JobCounts::default() });
    assert_eq!(queue.retry_all().await.unwrap(), 30);
    for _ in 0..30 {
        let attempt = office.next().await;
        assert_eq!(attempt.job.attempts_made, 0);
        attempt.done();
    }
}

pub(crate) async fn clean_removes_by_state_and_age(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    let office = Office::open(&queue, 1);
    for id in ["a", "b", "c"] {
        queue.add(job(id)).await.unwrap();
        office.next().await.done();
        office.completed(id).await;
    }
    queue.add(delayed("d", HOUR)).await.unwrap();
    assert_eq!(queue.clean(JobState::Completed, HOUR, 10).await.unwrap(), 0);
    assert_eq!(queue.clean(JobState::Completed, Duration::ZERO, 0).await.unwrap(), 0);
    assert_eq!(queue.clean(JobState::Completed, Duration::ZERO, 2).await.unwrap(), 2);
    assert_eq!(queue.clean(JobState::Delayed, Duration::ZERO, 10).await.unwrap(), 1);
    assert!(matches!(queue.clean(JobState::Active, Duration::ZERO, 10).await, Err(StoreError::Refused(_))));
    assert_eq!(queue.counts().await.unwrap(), JobCounts { completed: 1, ..JobCounts::default() });
}

pub(crate) async fn a_paused_queue_gives_nothing_away(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    queue.pause().await.unwrap();
    assert!(queue.is_paused().await.unwrap());
    let office = Office::open(&queue, 1);
    queue.add(job("a")).await.unwrap();
    queue.add(delayed("b", Duration::from_millis(10))).await.unwrap();
    assert!(office.is_idle().await);
    assert_eq!(state(&queue, "a").await, Some(JobState::Waiting));
    queue.resume().await.unwrap();
    assert!(!queue.is_paused().await.unwrap());
    for id in ["a", "b"] {
        let attempt = office.next().await;
        assert_eq!(attempt.job.id, id);
        attempt.done();
    }
}

pub(crate) async fn a_running_job_can_speak(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    let office = Office::open(&queue, 1);
    queue.add(job("a")).await.unwrap();
    let attempt = office.next().await;
    for line in 0..60 {
        attempt.job.voice.log(format!("line {line}")).await.unwrap();
    }
    attempt.job.voice.progress(json!(40)).await.unwrap();
    let record = queue.job("a").await.unwrap().unwrap();
    assert_eq!((record.state, record.progress.and_then(|p| p.as_f64())), (JobState::Active, Some(40.0)));
    attempt.job.voice.progress(json!({"rows": 5})).await.unwrap();
    assert_eq!(queue.job("a").await.unwrap().unwrap().progress, Some(json!({"rows": 5})));
    let logs = queue.logs("a").await.unwrap();
    assert_eq!((logs.len(), logs[0].as_str(), logs[49].as_str()), (50, "line 10", "line 59"));
    attempt.done();
}

pub(crate) async fn a_stop_waits_for_what_runs(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    let office = Office::open(&queue, 1);
    queue.add_bulk(vec![job("a"), job("b")]).await.unwrap();
    let attempt = office.next().await;
    let stop = office.worker.stop(Duration::from_secs(20));
    let (stopped, ()) = tokio::join!(soon(stop), async {
        tokio::task::yield_now().await;
        attempt.done();
    });
    let () = stopped;
    assert_eq!(office.worker.active(), 0);
    assert_eq!(state(&queue, "a").await, Some(JobState::Completed));
    assert_eq!(state(&queue, "b").await, Some(JobState::Waiting));
}

pub(crate) async fn what_outlasts_a_stop_is_taken_by_another(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    let office = Office::open(&queue, 1);
    queue.add(job("a")).await.unwrap();
    let attempt = office.next().await;
    soon(office.worker.stop(Duration::from_millis(10))).await;
    assert!(attempt.answer.is_closed(), "the handler is dropped");
    let other = Office::open(&queue, 1);
    let again = other.next().await;
    assert_eq!((again.job.id.as_str(), again.job.attempts_made), ("a", 0));
    again.done();
    other.completed("a").await;
}

pub(crate) async fn an_idle_worker_stops_at_once(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    queue.add(delayed("d", HOUR)).await.unwrap();
    let office = Office::open(&queue, 1);
    queue.add(job("a")).await.unwrap();
    office.next().await.done();
    office.completed("a").await;
    let stop = office.worker.stop(Duration::from_secs(20));
    tokio::time::timeout(Duration::from_secs(3), stop).await.expect("an idle worker waits for nothing");
}

pub(crate) async fn workers_share_a_queue(backend: &impl QueueBackend) {
    let (queue, other) = (dedup(backend), dedup(backend));
    let offices = [Office::open(&queue, 1), Office::open(&other, 1)];
    queue.add_bulk(vec![job("a"), job("b")]).await.unwrap();
    let (first, second) = tokio::join!(offices[0].next(), offices[1].next());
    assert_ne!(first.job.id, second.job.id);
    first.done();
    second.done();
}

pub(crate) async fn the_oldest_waiting_job_is_known(backend: &impl QueueBackend) {
    let queue = dedup(backend);
    assert_eq!(queue.oldest_waiting().await.unwrap(), None);
    queue.add(delayed("d", HOUR)).await.unwrap();
    assert_eq!(queue.oldest_waiting().await.unwrap(), None);
    queue.add(job("a")).await.unwrap();
    assert!(queue.oldest_waiting().await.unwrap().unwrap() < Duration::from_secs(20));
}

fn every(id: &str, seconds: u64) -> NewSchedule {
    NewSchedule {
        id: id.to_owned(),
        cadence: Cadence::every(Duration::from_secs(seconds)).unwrap(),
        name: "TICK".to_owned(),
        data: json!({"of": id}),
    }
}

pub(crate) async fn a_schedule_makes_jobs(backend: &impl QueueBackend) {
    let queue = redrivable(backend);
    let office = Office::open(&queue, 1);
    queue.put_schedule(every("s", 1)).await.unwrap();
    let mut before = 0;
    for _ in 0..3 {
        let attempt = office.next().await;
        assert_eq!((attempt.job.name.as_str(), &attempt.job.data), ("TICK", &json!({"of": "s"})));
        let tick = attempt.job.tick_ms.unwrap();
        assert!(tick >= before + 1000 || before == 0, "{before} {tick}");
        before = tick;
        attempt.done();
    }
    assert!(queue.remove_schedule("s").await.unwrap());
    assert!(!queue.remove_schedule("s").await.unwrap());
}

pub(crate) async fn schedules_are_listed_changed_and_removed(backend: &impl QueueBackend) {
    let queue = redrivable(backend);
    let cron =
        NewSchedule { cadence: Cadence::cron("30 2 * * *", "Europe/Berlin").unwrap(), ..every("c", 1) };
    queue.put_schedule(cron.clone()).await.unwrap();
    queue.put_schedule(every("e", 3600)).await.unwrap();
    let mut schedules = queue.schedules().await.unwrap();
    schedules.sort_by(|one, other| one.id.cmp(&other.id));
    let listed: Vec<(&str, &str, &str)> = schedules
        .iter()
        .map(|schedule| (schedule.id.as_str(), schedule.name.as_str(), schedule.cadence.as_str()))
        .collect();
    assert_eq!(listed, [("c", "TICK", "30 2 * * *"), ("e", "TICK", "3600000")]);
    let clock = dispatcher::ports::clock::SystemClock;
    let now = dispatcher::ports::clock::Clock::now_ms(&clock);
    assert_eq!(schedules[0].next_ms, cron.cadence.next_after(now));
    let other = NewSchedule { cadence: Cadence::cron("31 2 * * *", "Europe/Berlin").unwrap(), ..cron };
    queue.put_schedule(other.clone()).await.unwrap();
    let schedules = queue.schedules().await.unwrap();
    assert!(schedules.iter().any(|schedule| schedule.next_ms == other.cadence.next_after(now)));
    assert_eq!(queue.counts().await.unwrap().delayed, 1, "the old job of it went: {schedules:?}");
    assert!(queue.remove_schedule("c").await.unwrap());
    assert_eq!(queue.counts().await.unwrap().delayed, 0);
}

pub(crate) async fn a_schedule_that_is_put_again_is_left_alone(backend: &impl QueueBackend) {
    let queue = redrivable(backend);
    queue.put_schedule(every("s", 3600)).await.unwrap();
    let next = queue.schedules().await.unwrap()[0].next_ms;
    // Its first job waits already: putting it again must not drop that.
    queue.put_schedule(every("s", 3600)).await.unwrap();
    assert_eq!(queue.schedules().await.unwrap()[0].next_ms, next);
    let counts = queue.counts().await.unwrap();
    assert_eq!(counts.waiting + counts.delayed, 1);
    let office = Office::open(&queue, 1);
    let attempt = office.next().await;
    let id = attempt.job.id.clone();
    queue.put_schedule(every("s", 3600)).await.unwrap();
    attempt.done();
    office.completed(&id).await;
    assert!(office.is_idle().await);
}

pub(crate) async fn the_next_job_of_a_schedule_is_not_removed_alone(backend: &impl QueueBackend) {
    let queue = redrivable(backend);
    let cron = NewSchedule { cadence: Cadence::cron("30 2 * * *", "UTC").unwrap(), ..every("c", 1) };
    queue.put_schedule(cron).await.unwrap();
    let next = queue.jobs(JobState::Delayed, 0, 10).await.unwrap().remove(0);
    assert_eq!(next.schedule.as_deref(), Some("c"));
    assert_eq!(queue.remove(&next.id).await.unwrap(), Acted::OfSchedule);
}
