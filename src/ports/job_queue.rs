//! Queues of jobs, below the types of the worker kit. Jobs run at least once: whoever handles one must stand a repeat.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{BoxFuture, StoreResult};
use crate::domain::job::{Cadence, JobId, JobState, QueueSpec};

/// The queues of a store.
pub trait JobQueues: Send + Sync {
    /// Opens a queue. Does not wait for the store: that is done when the queue is asked something.
    fn queue(&self, spec: &'static QueueSpec) -> Arc<dyn JobQueue>;
}

/// A job to add.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// Who it is: an id that is there already adds nothing.
    pub id: JobId,
    /// Which kind of job it is.
    pub name: String,
    /// Its payload: ids, never bodies (Redis holds it in memory).
    pub data: Value,
    /// How long it waits first; zero: not at all.
    pub delay: Duration,
    /// 0 runs first, in order; then 1, then 2, up to 2,097,152.
    pub priority: u32,
}

/// A job as the store knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRecord {
    /// Ids of scheduled jobs, and of others' jobs, are no [`JobId`]s.
    pub id: String,
    /// Which kind of job it is.
    pub name: String,
    /// Its payload; null when it cannot be read.
    pub data: Value,
    /// Where it is.
    pub state: JobState,
    /// How many attempts ended, but those that only went on later.
    pub attempts_made: u32,
    /// After how many it is given up.
    pub attempts: u32,
    /// As it was added.
    pub priority: u32,
    /// When it was added, milliseconds since 1970.
    pub created_ms: i64,
    /// When its last attempt began.
    pub started_ms: Option<i64>,
    /// When it was done or given up.
    pub finished_ms: Option<i64>,
    /// Of a delayed job: when it is due.
    pub due_ms: Option<i64>,
    /// Why its last attempt failed.
    pub reason: Option<String>,
    /// What it returned.
    pub result: Option<Value>,
    /// What its handler said last about how far it is.
    pub progress: Option<Value>,
    /// The schedule that made it.
    pub schedule: Option<String>,
}

/// How many jobs are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobCounts {
    /// In [`JobState::Waiting`], also while the queue is paused.
    pub waiting: u64,
    /// In [`JobState::Prioritized`].
    pub prioritized: u64,
    /// In [`JobState::Active`].
    pub active: u64,
    /// In [`JobState::Delayed`].
    pub delayed: u64,
    /// In [`JobState::Completed`].
    pub completed: u64,
    /// In [`JobState::Failed`].
    pub failed: u64,
}

impl JobCounts {
    /// How many are in a state.
    pub fn of(&self, state: JobState) -> u64 {
        match state {
            JobState::Waiting => self.waiting,
            JobState::Prioritized => self.prioritized,
            JobState::Active => self.active,
            JobState::Delayed => self.delayed,
            JobState::Completed => self.completed,
            JobState::Failed => self.failed,
        }
    }
}

/// What became of an operator's request. Decided by the store from the state at that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acted {
    /// It is done.
    Done,
    /// There is no such job.
    NotFound,
    /// A job in this state cannot do that.
    Not(JobState),
    /// It is the next job of a schedule: remove the schedule.
    OfSchedule,
}

/// A job that comes again and again.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSchedule {
    /// Who it is.
    pub id: String,
    /// When.
    pub cadence: Cadence,
    /// The name of its jobs.
    pub name: String,
    /// Their payload.
    pub data: Value,
}

/// A schedule as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRecord {
    /// Who it is.
    pub id: String,
    /// The name of its jobs.
    pub name: String,
    /// Its cron pattern, or its distance in milliseconds.
    pub cadence: String,
    /// When its next job is due, milliseconds since 1970.
    pub next_ms: Option<i64>,
}

/// One queue. `Unavailable` may be asked again; an [`add`](Self::add) that was answered so may have been stored all the same.
pub trait JobQueue: Send + Sync {
    /// What it is.
    fn spec(&self) -> &'static QueueSpec;

    /// Adds a job; one with its id that is there already (in whatever state) stays as it is.
    fn add(&self, job: NewJob) -> BoxFuture<'_, StoreResult<()>>;

    /// Adds several. An error may have added some.
    fn add_bulk(&self, jobs: Vec<NewJob>) -> BoxFuture<'_, StoreResult<()>>;

    /// How many jobs are where.
    fn counts(&self) -> BoxFuture<'_, StoreResult<JobCounts>>;

    /// For how long the oldest job that could run has not: since it was added or, if it was delayed, since it is due. `None` when there is
    /// none.
    fn oldest_waiting(&self) -> BoxFuture<'_, StoreResult<Option<Duration>>>;

    /// A job.
    fn job<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Option<JobRecord>>>;

    /// Jobs in a state, those first that run next (or ended last), `limit` at most after the first `offset`.
    fn jobs(
        &self,
        state: JobState,
        offset: usize,
        limit: usize,
    ) -> BoxFuture<'_, StoreResult<Vec<JobRecord>>>;

    /// The last lines of a job's log, oldest first; 50 are kept.
    fn logs<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Vec<String>>>;

    /// A delayed job waits no longer.
    fn promote<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Acted>>;

    /// A failed job has all its attempts again.
    fn retry<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Acted>>;

    /// Removes a job that is not active.
    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Acted>>;

    /// Promotes all delayed jobs; returns how many there were.
    fn promote_all(&self) -> BoxFuture<'_, StoreResult<u64>>;

    /// Retries all failed jobs; returns how many.
    fn retry_all(&self) -> BoxFuture<'_, StoreResult<u64>>;

    /// Removes at most `limit` jobs of a state (active ones: `Refused`) that were added, or ended, at least `older_than` ago. Returns
    /// how many.
    fn clean(&self, state: JobState, older_than: Duration, limit: usize) -> BoxFuture<'_, StoreResult<u64>>;

    /// No worker takes a job until the queue is resumed, by whomever.
    fn pause(&self) -> BoxFuture<'_, StoreResult<()>>;

    /// Goes on with a paused queue.
    fn resume(&self) -> BoxFuture<'_, StoreResult<()>>;

    /// Whether it is paused.
    fn is_paused(&self) -> BoxFuture<'_, StoreResult<bool>>;

    /// Puts a schedule, or changes it. One that stands already as it is goes on undisturbed; one that lost its next job has it again.
    /// The first job of a steady distance comes at once.
    fn put_schedule(&self, schedule: NewSchedule) -> BoxFuture<'_, StoreResult<()>>;

    /// All schedules.
    fn schedules(&self) -> BoxFuture<'_, StoreResult<Vec<ScheduleRecord>>>;

    /// Removes a schedule with its next job. Whether there was one.
    fn remove_schedule<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<bool>>;

    /// Takes jobs and has them processed, `concurrency` at once, until the worker is stopped. Waits by itself for a store that is away.
    ///
    /// A worker holds a lock on each of its jobs. When it cannot renew it (killed, frozen, cut off), another takes the job over, any
    /// number of times; what processes it here is dropped before that.
    fn work(&self, concurrency: u32, processor: Arc<dyn JobProcessor>) -> Box<dyn RunningWorker>;
}

/// A job that a worker holds.
#[derive(Clone)]
pub struct TakenJob {
    /// Ids of scheduled jobs, and of others' jobs, are no [`JobId`]s.
    pub id: String,
    /// Which kind of job it is.
    pub name: String,
    /// Its payload; null when it cannot be read.
    pub data: Value,
    /// How many attempts ended before this one.
    pub attempts_made: u32,
    /// After how many it is given up.
    pub attempts: u32,
    /// For which time a schedule made it, milliseconds since 1970.
    pub tick_ms: Option<i64>,
    /// What can be said about it while it runs.
    pub voice: Arc<dyn JobVoice>,
}

/// What can be said about a job while it runs.
pub trait JobVoice: Send + Sync {
    /// Writes a line into its log.
    fn log(&self, line: String) -> BoxFuture<'_, StoreResult<()>>;

    /// Says how far it is.
    fn progress(&self, progress: Value) -> BoxFuture<'_, StoreResult<()>>;
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub enum JobOutcome {
    /// Done.
    Completed(Value),
    /// Try again `after` this time. Counts an attempt, and gives the job up when it was the last; jobs that others added with a
    /// back-off of their own keep to that.
    Retry {
        /// Why.
        reason: String,
        /// Not before.
        after: Duration,
    },
    /// Give it up.
    Failed {
        /// Why.
        reason: String,
    },
    /// Go on with the same job `after` this time. Counts no attempt.
    Later {
        /// Not before.
        after: Duration,
    },
}

/// What happened to a job of a worker. Told, not promised: a crash tells nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum JobEvent {
    /// The store has it as done.
    Completed {
        /// Which job.
        id: String,
        /// What it returned.
        result: Value,
    },
    /// The store has an attempt of it as failed.
    Failed {
        /// Which job.
        id: String,
        /// Why.
        reason: String,
    },
    /// Its worker was lost; it waits for another.
    Stalled {
        /// Which job.
        id: String,
    },
    /// Its lock was lost while it ran here: what processed it was dropped.
    Lost {
        /// Which job.
        id: String,
    },
    /// The worker could not do its work; it goes on trying.
    Trouble {
        /// Why.
        reason: String,
    },
}

/// Who processes the jobs of a worker.
pub trait JobProcessor: Send + Sync {
    /// One attempt. Must not panic. Dropped when the job's lock is lost.
    fn process(&self, job: TakenJob) -> BoxFuture<'_, JobOutcome>;

    /// What happened. Must not block.
    fn happened(&self, event: JobEvent);
}

/// A worker at work. Dropping it stops it without waiting.
pub trait RunningWorker: Send + Sync {
    /// How many jobs it processes.
    fn active(&self) -> usize;

    /// Takes no more jobs, and waits at most `grace` for those at hand; what is not done by then is taken over by another worker.
    fn stop(&self, grace: Duration) -> BoxFuture<'_, ()>;
}
