//! Two queues, their jobs, and what it takes to run them.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dispatcher::backends::embedded::{Embedded, EmbeddedOptions};
use dispatcher::domain::config::ClientId;
use dispatcher::domain::job::{JobId, QueueSpec, Retention, Workload};
use dispatcher::domain::retry::RetrySchedule;
use dispatcher::metrics::Metrics;
use dispatcher::ports::blocked_owners::BlockedOwners;
use dispatcher::ports::clock::SystemClock;
use dispatcher::ports::event_log::BatchLimits;
use dispatcher::ports::job_queue::{JobQueue, JobQueues, JobRecord, NewJob, RunningWorker};
use dispatcher::ports::paused_queues::PausedQueues;
use dispatcher::ports::{BoxFuture, StoreError, StoreResult};
use dispatcher::workers::{
    Handled, JobContext, JobFailure, JobHandler, Jobs, OpenQueues, Payload, Producer, Scope, WorkerKit,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

const KEPT: QueueSpec = QueueSpec {
    name: "kept",
    retention: Retention::Dedup { age: Duration::from_secs(3600), count: 1000 },
    attempts: 3,
    backoff: RetrySchedule {
        base: Duration::from_millis(20),
        factor: 2.0,
        cap: Duration::from_millis(500),
        jitter: 0.0,
    },
    timeout: Duration::from_secs(60),
    concurrency_setting: "KEPT_WORKER_CONCURRENCY",
    concurrency: 4,
    workload: Workload::Heavy,
};

dispatcher::queues! {
    pub(crate) enum TestQueue {
        Kept = KEPT,
        Freed = QueueSpec {
            name: "freed",
            retention: Retention::Redrivable,
            attempts: 1_000_000,
            timeout: Duration::from_millis(500),
            concurrency_setting: "FREED_WORKER_CONCURRENCY",
            ..KEPT
        },
    }
}

/// Work for a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) client: ClientId,
}

impl Payload for Work {
    fn id(&self) -> JobId {
        JobId::of_client("work", &self.client)
    }

    fn scope(&self) -> Scope<'_> {
        Scope::Client { client: &self.client, owner: None }
    }
}

/// Work for the service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tidy {
    pub(crate) room: String,
}

impl Payload for Tidy {
    fn id(&self) -> JobId {
        JobId::of("tidy", &self.room)
    }

    fn scope(&self) -> Scope<'_> {
        Scope::System
    }
}

dispatcher::jobs! {
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) enum KeptJob in TestQueue::Kept {
        Work(Work) = "WORK",
        Tidy(Tidy) = "TIDY",
    }
}

dispatcher::jobs! {
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) enum FreedJob in TestQueue::Freed {
        Work(Work) = "WORK",
        Tidy(Tidy) = "TIDY",
    }
}

pub(crate) fn work(client: &str) -> Work {
    Work { client: ClientId::new(client) }
}

pub(crate) fn tidy(room: &str) -> Tidy {
    Tidy { room: room.to_owned() }
}

/// Owners by client; those that are blocked; whether the list can be asked.
#[derive(Default)]
pub(crate) struct Blocked {
    pub(crate) clients: Mutex<HashSet<String>>,
    pub(crate) away: Mutex<bool>,
}

impl BlockedOwners for Blocked {
    fn blocked<'a>(
        &'a self,
        _: Option<&'a str>,
        client: &'a ClientId,
    ) -> BoxFuture<'a, StoreResult<Option<String>>> {
        Box::pin(async move {
            if *self.away.lock().unwrap() {
                return Err(StoreError::Unavailable("away".to_owned()));
            }
            Ok(self.clients.lock().unwrap().contains(client.as_str()).then(|| "owner".to_owned()))
        })
    }
}

/// Queues that operators paused.
#[derive(Default)]
pub(crate) struct Pauses(pub(crate) Mutex<HashSet<String>>);

impl PausedQueues for Pauses {
    fn is_paused(&self, queue: &str) -> bool {
        self.0.lock().unwrap().contains(queue)
    }
}

pub(crate) type Ended = Result<Handled, JobFailure>;

/// A handler from a closure.
pub(crate) struct Does<J, F> {
    does: F,
    pub(crate) told: Mutex<Vec<String>>,
    jobs: PhantomData<fn(J)>,
}

pub(crate) fn does<J, F, Fut>(does: F) -> Arc<Does<J, F>>
where
    F: Fn(J, JobContext) -> Fut,
{
    Arc::new(Does { does, told: Mutex::default(), jobs: PhantomData })
}

impl<J, F, Fut> JobHandler for Does<J, F>
where
    J: Jobs,
    F: Fn(J, JobContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Ended> + Send + 'static,
{
    type Jobs = J;

    fn handle(&self, job: J, context: JobContext) -> BoxFuture<'_, Ended> {
        Box::pin((self.does)(job, context))
    }

    fn completed(&self, id: &str, result: &Value) {
        self.told.lock().unwrap().push(format!("{id} completed {result}"));
    }

    fn failed(&self, id: &str, reason: &str) {
        self.told.lock().unwrap().push(format!("{id} failed {reason}"));
    }
}

pub(crate) struct World {
    pub(crate) queues: OpenQueues<TestQueue>,
    pub(crate) blocked: Arc<Blocked>,
    pub(crate) paused: Arc<Pauses>,
    pub(crate) kit: WorkerKit,
    _folder: Option<Folder>,
}

/// What goes with the world.
pub(crate) struct Folder {
    _embedded: Embedded,
    _path: tempfile::TempDir,
}

impl World {
    pub(crate) fn of(store: &dyn JobQueues, folder: Option<Folder>) -> Self {
        let (blocked, paused) = (Arc::new(Blocked::default()), Arc::new(Pauses::default()));
        Self {
            queues: OpenQueues::new(store),
            kit: WorkerKit { metrics: Metrics::new(), blocked: blocked.clone(), paused: paused.clone() },
            blocked,
            paused,
            _folder: folder,
        }
    }

    /// Queues in a SQLite file.
    pub(crate) async fn in_a_file() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let embedded = open_in(folder.path()).await;
        let queues = embedded.queues();
        Self::of(&*queues, Some(Folder { _embedded: embedded, _path: folder }))
    }

    pub(crate) fn producer(&self) -> Producer<TestQueue> {
        Producer::new(self.queues.clone())
    }

    pub(crate) fn kept(&self) -> &Arc<dyn JobQueue> {
        self.queues.get(TestQueue::Kept)
    }

    pub(crate) fn freed(&self) -> &Arc<dyn JobQueue> {
        self.queues.get(TestQueue::Freed)
    }

    pub(crate) fn start<H: JobHandler>(&self, handler: Arc<H>) -> Box<dyn RunningWorker>
    where
        H::Jobs: Jobs<Queues = TestQueue>,
    {
        self.kit.start(&self.queues, handler, None)
    }

    pub(crate) fn counted(&self, queue: &str, job: &str, outcome: &str) -> u64 {
        self.kit.metrics.jobs.with_label_values(&[queue, job, outcome]).get()
    }
}

pub(crate) async fn open_in(folder: &Path) -> Embedded {
    let options = EmbeddedOptions {
        data_dir: folder.to_owned(),
        partitions: 1,
        retention: Duration::from_secs(3600),
        tail: BatchLimits { records: 1, bytes: 1 },
        clock: Arc::new(SystemClock),
    };
    Embedded::open(options).await.unwrap()
}

/// A job that no type of ours would make.
pub(crate) fn raw(id: &str, name: &str, data: Value) -> NewJob {
    let (id, name) = (JobId::parse(id).unwrap(), name.to_owned());
    NewJob { id, name, data, delay: Duration::ZERO, priority: 0 }
}

/// Asks until the answer is right.
pub(crate) async fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let end = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(tokio::time::Instant::now() < end, "it never came");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The job once it satisfies this.
pub(crate) async fn job(queue: &Arc<dyn JobQueue>, id: &str, is: impl Fn(&JobRecord) -> bool) -> JobRecord {
    eventually(async || queue.job(id).await.unwrap().filter(|job| is(job))).await
}

/// Fails the test when this is not ready soon.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it never came")
}
