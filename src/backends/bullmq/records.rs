//! Between our jobs and those of the library.

use std::time::Duration;

use bullmq::types::{BackoffStrategy, KeepJobs, RemoveOnFinish};
use bullmq::{Job, JobOptions, JobProgress};
use serde_json::Value;

use super::millis;
use crate::domain::job::{JobState, QueueSpec, Retention};
use crate::ports::job_queue::{JobRecord, NewJob};

/// The back-off of our jobs: each failure brings its own delay.
pub(super) const BACKOFF: &str = "dispatcher";

/// Above it Node refuses.
const LOWEST_PRIORITY: u32 = 1 << 21;

pub(super) fn options(spec: &QueueSpec) -> JobOptions {
    JobOptions {
        attempts: Some(spec.attempts),
        backoff: Some(BackoffStrategy::Custom(BACKOFF.to_owned())),
        remove_on_complete: Some(keep(spec.retention)),
        remove_on_fail: Some(keep(spec.retention)),
        ..JobOptions::default()
    }
}

pub(super) fn options_of(spec: &QueueSpec, job: &NewJob) -> JobOptions {
    JobOptions {
        job_id: Some(job.id.as_str().to_owned()),
        delay: (!job.delay.is_zero()).then(|| millis(job.delay)),
        priority: (job.priority > 0).then(|| job.priority.min(LOWEST_PRIORITY)),
        ..options(spec)
    }
}

pub(super) fn keep(retention: Retention) -> RemoveOnFinish {
    match retention {
        Retention::Redrivable => RemoveOnFinish::Bool(true),
        Retention::Dedup { age, count } => RemoveOnFinish::Options(KeepJobs {
            // The scripts multiply it by 1000.
            age: Some(age.as_secs()),
            count: Some(count as usize),
            limit: None,
        }),
    }
}

pub(super) fn record(job: &Job, state: JobState, due_ms: Option<i64>) -> JobRecord {
    JobRecord {
        id: job.id().to_owned(),
        name: job.name().to_owned(),
        data: job.data().clone(),
        state,
        attempts_made: job.attempts_made(),
        attempts: attempts(job),
        priority: job.priority(),
        created_ms: time(job.timestamp()),
        started_ms: job.processed_on().map(time),
        finished_ms: job.finished_on().map(time),
        due_ms,
        reason: (!job.failed_reason().is_empty()).then(|| job.failed_reason().to_owned()),
        result: serde_json::from_str(job.returnvalue()).ok(),
        progress: match job.progress() {
            JobProgress::Number(0.0) => None,
            JobProgress::Number(number) => Some(Value::from(*number)),
            JobProgress::Object(value) => Some(value.clone()),
        },
        schedule: job.repeat_job_key().map(str::to_owned),
    }
}

/// A job without a number of attempts is tried once.
pub(super) fn attempts(job: &Job) -> u32 {
    job.opts().attempts.unwrap_or(1).max(1)
}

pub(super) fn state(state: bullmq::JobState) -> Option<JobState> {
    match state {
        bullmq::JobState::Waiting => Some(JobState::Waiting),
        bullmq::JobState::Active => Some(JobState::Active),
        bullmq::JobState::Delayed => Some(JobState::Delayed),
        bullmq::JobState::Prioritized => Some(JobState::Prioritized),
        bullmq::JobState::Completed => Some(JobState::Completed),
        bullmq::JobState::Failed => Some(JobState::Failed),
        bullmq::JobState::WaitingChildren | bullmq::JobState::Unknown => None,
    }
}

/// The tick in `repeat:<schedule>:<milliseconds>`.
pub(super) fn tick(job: &Job) -> Option<i64> {
    job.repeat_job_key()?;
    job.id().rsplit_once(':')?.1.parse().ok()
}

/// The score of a delayed job is its time and a counter of 12 bits.
pub(super) fn due(score: f64) -> i64 {
    (score / 4096.0) as i64
}

pub(super) fn time(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}

pub(super) fn since(now_ms: i64, time_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(now_ms.saturating_sub(time_ms)).unwrap_or(0))
}
