//! A queue of one's own, with two kinds of jobs, a handler, a schedule, and work that one process does at a time.
//!
//! ```text
//! cargo run --example custom_worker
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example custom_worker
//! ```
//!
//! Without a Redis the queues are in a SQLite file of a folder that goes away at the end.
//!
//! Each step is explained in `docs/worker-development.md`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dispatcher::backends::embedded::{Embedded, EmbeddedOptions, OpenError};
use dispatcher::domain::config::ClientId;
use dispatcher::domain::job::{Cadence, JobId, QueueSpec, Retention, Workload};
use dispatcher::domain::retry::RetrySchedule;
use dispatcher::metrics::Metrics;
use dispatcher::ports::blocked_owners::BlockedOwners;
use dispatcher::ports::clock::{Clock, SystemClock};
use dispatcher::ports::event_log::BatchLimits;
use dispatcher::ports::job_queue::JobQueues;
use dispatcher::ports::paused_queues::PausedQueues;
use dispatcher::ports::{BoxFuture, StoreResult};
use dispatcher::workers::{
    Handled, JobContext, JobFailure, JobHandler, OpenQueues, Payload, Producer, Schedule, ScheduleTable,
    Scope, WorkerKit,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

// 1. The queues, with everything about each.
dispatcher::queues! {
    /// The queues of this program.
    pub enum ReportQueue {
        /// Reports for clients.
        Reports = QueueSpec {
            name: "reports",
            retention: Retention::Redrivable,
            attempts: 5,
            backoff: RetrySchedule {
                base: Duration::from_secs(1),
                factor: 2.0,
                cap: Duration::from_secs(60),
                jitter: 0.2,
            },
            timeout: Duration::from_secs(30),
            concurrency_setting: "REPORTS_WORKER_CONCURRENCY",
            concurrency: 4,
            workload: Workload::Light,
        },
    }
}

// 2. What each kind of job carries: who it is, and for whom it is done.
/// Sends a client its report.
#[derive(Debug, Serialize, Deserialize)]
pub struct SendReport {
    /// Whose.
    pub client: ClientId,
}

impl Payload for SendReport {
    fn id(&self) -> JobId {
        JobId::of_client("report", &self.client)
    }

    fn scope(&self) -> Scope<'_> {
        Scope::Client { client: &self.client, owner: None }
    }
}

/// Counts what there is.
#[derive(Debug, Serialize, Deserialize)]
pub struct CountReports {}

impl Payload for CountReports {
    fn id(&self) -> JobId {
        JobId::of("count", "reports")
    }

    fn scope(&self) -> Scope<'_> {
        Scope::Observability
    }
}

// 3. The jobs of the queue.
dispatcher::jobs! {
    /// What the queue `reports` carries.
    #[derive(Debug)]
    pub enum ReportJob in ReportQueue::Reports {
        /// Sends one.
        Send(SendReport) = "SEND",
        /// Counts them.
        Count(CountReports) = "COUNT",
    }
}

// 4. The handler: a job that is left out of the match does not compile.
struct Reports {
    done: mpsc::UnboundedSender<String>,
}

impl JobHandler for Reports {
    type Jobs = ReportJob;

    fn handle(&self, job: ReportJob, context: JobContext) -> BoxFuture<'_, Result<Handled, JobFailure>> {
        Box::pin(async move {
            match job {
                // The first attempt fails, as if the receiver was busy: the kit tries again.
                ReportJob::Send(SendReport { client }) if context.attempt == 1 => {
                    context.log(format!("{client} is busy")).await?;
                    Err(JobFailure::again("busy"))
                }
                ReportJob::Send(SendReport { client }) => {
                    let _ = self.done.send(format!("sent {client}"));
                    Ok(Handled::DONE)
                }
                ReportJob::Count(CountReports {}) => {
                    let _ = self.done.send("counted".to_owned());
                    Ok(Handled::DONE)
                }
            }
        })
    }
}

/// Nobody is blocked here.
struct Nobody;

impl BlockedOwners for Nobody {
    fn blocked<'a>(
        &'a self,
        _: Option<&'a str>,
        _: &'a ClientId,
    ) -> BoxFuture<'a, StoreResult<Option<String>>> {
        Box::pin(async { Ok(None) })
    }
}

/// No queue is paused.
impl PausedQueues for Nobody {
    fn is_paused(&self, _: &str) -> bool {
        false
    }
}

/// The queues in a SQLite file.
///
/// # Errors
/// When the folder cannot be used.
pub async fn in_folder(folder: &Path) -> Result<Embedded, OpenError> {
    Embedded::open(EmbeddedOptions {
        data_dir: folder.to_owned(),
        // Of the service's other stores, which are in the folder too.
        partitions: 1,
        retention: Duration::from_secs(60),
        tail: BatchLimits { records: 1, bytes: 1 },
        clock: Arc::new(SystemClock),
    })
    .await
}

/// The queues in Redis, for BullMQ and Bull Board to see.
#[cfg(feature = "cluster")]
pub fn in_redis(url: &str, prefix: &str) -> dispatcher::backends::bullmq::BullMq {
    use dispatcher::backends::bullmq::{BullMq, BullMqOptions};
    let url = dispatcher::domain::config::Secret::new(url);
    BullMq::new(BullMqOptions::new(url, prefix, Arc::new(SystemClock)))
}

/// Runs it all until two reports are sent and the schedule has come once; says what was done.
///
/// # Errors
/// When a job cannot be added or the table has a mistake.
pub async fn run(store: &dyn JobQueues) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let queues = OpenQueues::<ReportQueue>::new(store);

    let (done, mut seen) = mpsc::unbounded_channel();
    let kit = WorkerKit { metrics: Metrics::new(), blocked: Arc::new(Nobody), paused: Arc::new(Nobody) };
    let worker = kit.start(&queues, Arc::new(Reports { done }), None);

    // 5. Add jobs. The second of the same client is the same job.
    let producer = Producer::new(queues.clone());
    for client in ["ada", "bob", "ada"] {
        producer.add::<ReportJob>(SendReport { client: ClientId::new(client) }).await?;
    }

    // 6. A schedule.
    let table = [Schedule {
        id: "count-reports",
        cadence: Cadence::every(Duration::from_secs(60))?,
        job: ReportJob::Count(CountReports {}),
        lock_ttl: Duration::from_secs(50),
    }];
    let _kept = ScheduleTable::new(&queues, &table, SystemClock.now_ms())?.keep();

    let mut all = Vec::new();
    while all.len() < 3 {
        all.extend(seen.recv().await);
    }
    worker.stop(Duration::from_secs(5)).await;
    all.sort();
    Ok(all)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    env_logger::init_from_env(env_logger::Env::new().default_filter_or("info"));
    #[cfg(feature = "cluster")]
    if let Ok(url) = std::env::var("REDIS_URL") {
        return say(run(&in_redis(&url, "example")).await?);
    }
    let folder = tempfile::tempdir()?;
    let embedded = in_folder(folder.path()).await?;
    let done = run(&*embedded.queues()).await?;
    embedded.close().await;
    say(done)
}

fn say(done: Vec<String>) -> Result<(), Box<dyn std::error::Error>> {
    for line in done {
        log::info!("{line}");
    }
    Ok(())
}
