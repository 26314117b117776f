//! What a handler gets, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Jobs;
use crate::ports::job_queue::{JobVoice, TakenJob};
use crate::ports::{BoxFuture, StoreError, StoreResult};

/// Does the jobs of a queue. One runs at least once, and may run again after it has done its work: it must stand that.
pub trait JobHandler: Send + Sync + 'static {
    /// What it does.
    type Jobs: Jobs;

    /// One attempt. A panic, and an attempt that outlasts the queue's time-out, has failed. The future is dropped when the job is no
    /// longer ours; what it has spawned is not.
    fn handle(&self, job: Self::Jobs, context: JobContext) -> BoxFuture<'_, Result<Handled, JobFailure>>;

    /// The store has a job as done. Told, not promised. Must not block.
    fn completed(&self, _id: &str, _result: &Value) {}

    /// The store has an attempt as failed. Told, not promised. Must not block.
    fn failed(&self, _id: &str, _reason: &str) {}
}

/// How an attempt ended well.
#[derive(Debug, Clone, PartialEq)]
pub enum Handled {
    /// Done; the value is shown on boards.
    Done(Value),
    /// There is more to do: go on with the same job after this time. Counts no attempt.
    Later(Duration),
}

impl Handled {
    /// Done, with nothing to show.
    pub const DONE: Self = Self::Done(Value::Null);
}

/// How an attempt failed. The reason is shown on boards and written into the log: no secrets, no bodies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobFailure {
    /// Try again.
    #[error("{reason}")]
    Again {
        /// Why.
        reason: String,
        /// Not before this (`Retry-After`), at most the cap of the queue's back-off; else by the back-off.
        after: Option<Duration>,
    },
    /// Trying again is of no use.
    #[error("{reason}")]
    Never {
        /// Why.
        reason: String,
    },
}

impl JobFailure {
    /// Try again by the queue's back-off.
    pub fn again(reason: impl Into<String>) -> Self {
        Self::Again { reason: reason.into(), after: None }
    }

    /// Trying again is of no use.
    pub fn never(reason: impl Into<String>) -> Self {
        Self::Never { reason: reason.into() }
    }
}

impl From<StoreError> for JobFailure {
    fn from(err: StoreError) -> Self {
        match err {
            StoreError::Refused(_) => Self::never(err.to_string()),
            StoreError::Unavailable(_) | StoreError::Fenced(_) => Self::again(err.to_string()),
        }
    }
}

/// The job as the store knows it, for its handler.
#[derive(Clone)]
pub struct JobContext {
    /// Its id in the store.
    pub id: String,
    /// The first is 1.
    pub attempt: u32,
    /// For which time a schedule made it, milliseconds since 1970: an effect that must count once is kept with this.
    pub tick_ms: Option<i64>,
    voice: Arc<dyn JobVoice>,
}

impl JobContext {
    pub(super) fn new(job: &TakenJob) -> Self {
        Self {
            id: job.id.clone(),
            attempt: job.attempts_made.saturating_add(1),
            tick_ms: job.tick_ms,
            voice: job.voice.clone(),
        }
    }

    /// Writes a line into the job's log.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn log(&self, line: impl Into<String>) -> StoreResult<()> {
        self.voice.log(line.into()).await
    }

    /// Says how far the job is.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn progress(&self, progress: Value) -> StoreResult<()> {
        self.voice.progress(progress).await
    }
}
