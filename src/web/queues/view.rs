//! How queues and jobs are shown. Others add jobs, too: what they put into one is shown up to a limit.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::domain::decision::Decision;
use crate::domain::job::{JobState, QueueSpec, Retention};
use crate::ports::job_queue::{JobCounts, JobRecord, ScheduleRecord};
use crate::web::decisions::Made;
use crate::web::schema;

/// Bytes of a job's data, result and progress, each.
const VALUE_BYTES: usize = 64 << 10;
/// The same where many jobs are listed.
const LISTED_VALUE_BYTES: usize = 1 << 10;
/// Bytes of other texts: ids, names, reasons, lines of a log.
const TEXT_BYTES: usize = 4 << 10;

/// A queue.
#[derive(Serialize, ToSchema)]
pub(super) struct QueueShown {
    name: &'static str,
    paused: bool,
    /// Who decided that, when an operator did.
    pause: Option<Made>,
    /// How many jobs, by state.
    counts: BTreeMap<&'static str, u64>,
    /// For how long the oldest job that could run has waited.
    oldest_waiting_ms: Option<u64>,
    /// How often a job is tried.
    attempts: u32,
    /// `redrivable`: a job's id is free when it has ended. `dedup`: it stays for a while.
    #[schema(pattern = "^(redrivable|dedup)$")]
    retention: &'static str,
    schedules: Vec<ScheduleShown>,
}

pub(super) fn queue(
    spec: &QueueSpec,
    counts: &JobCounts,
    paused: bool,
    decision: Option<&Decision>,
    oldest: Option<Duration>,
    schedules: &[ScheduleRecord],
) -> QueueShown {
    QueueShown {
        name: spec.name,
        paused,
        pause: decision.map(Made::from),
        counts: JobState::ALL.iter().map(|state| (state.as_str(), counts.of(*state))).collect(),
        oldest_waiting_ms: oldest.map(|oldest| u64::try_from(oldest.as_millis()).unwrap_or(u64::MAX)),
        attempts: spec.attempts,
        retention: match spec.retention {
            Retention::Dedup { .. } => "dedup",
            Retention::Redrivable => "redrivable",
        },
        schedules: schedules.iter().map(|record| schedule(spec, record)).collect(),
    }
}

/// A schedule.
#[derive(Serialize, ToSchema)]
pub(super) struct ScheduleShown {
    queue: &'static str,
    id: String,
    /// The name of its jobs.
    name: String,
    /// A cron pattern, or how often.
    cadence: String,
    /// When the next job is due, milliseconds since 1970.
    next_ms: Option<i64>,
}

pub(super) fn schedule(spec: &QueueSpec, schedule: &ScheduleRecord) -> ScheduleShown {
    ScheduleShown {
        queue: spec.name,
        id: text(&schedule.id).to_owned(),
        name: text(&schedule.name).to_owned(),
        cadence: text(&schedule.cadence).to_owned(),
        next_ms: schedule.next_ms,
    }
}

/// A job. Data, result and progress that are too long are cut, and are text then: `…_bytes` says how long they are.
#[derive(Serialize, ToSchema)]
pub(super) struct JobShown {
    id: String,
    name: String,
    #[schema(value_type = schema::JobState)]
    state: &'static str,
    attempts_made: u32,
    options: JobOptions,
    created_ms: i64,
    started_ms: Option<i64>,
    finished_ms: Option<i64>,
    due_ms: Option<i64>,
    /// Why it failed last.
    reason: Option<String>,
    /// Of which schedule it is the next job.
    schedule: Option<String>,
    data: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_bytes: Option<usize>,
    result: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_bytes: Option<usize>,
    progress: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress_bytes: Option<usize>,
    /// What it said; only where one job is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    logs: Option<Vec<String>>,
}

/// How a job is run.
#[derive(Serialize, ToSchema)]
struct JobOptions {
    attempts: u32,
    priority: u32,
}

pub(super) fn job_in_list(job: &JobRecord) -> JobShown {
    shown(job, LISTED_VALUE_BYTES)
}

pub(super) fn job(job: &JobRecord, logs: &[String]) -> JobShown {
    let logs = logs.iter().map(|line| text(line).to_owned()).collect();
    JobShown { logs: Some(logs), ..shown(job, VALUE_BYTES) }
}

fn shown(job: &JobRecord, value_bytes: usize) -> JobShown {
    let cut = |value: Option<&Value>| {
        let whole = value.map(Value::to_string).unwrap_or_default();
        if whole.len() > value_bytes {
            (beginning(&whole, value_bytes).into(), Some(whole.len()))
        } else {
            (value.cloned().unwrap_or_default(), None)
        }
    };
    let (data, data_bytes) = cut(Some(&job.data));
    let (result, result_bytes) = cut(job.result.as_ref());
    let (progress, progress_bytes) = cut(job.progress.as_ref());
    JobShown {
        id: text(&job.id).to_owned(),
        name: text(&job.name).to_owned(),
        state: job.state.as_str(),
        attempts_made: job.attempts_made,
        options: JobOptions { attempts: job.attempts, priority: job.priority },
        created_ms: job.created_ms,
        started_ms: job.started_ms,
        finished_ms: job.finished_ms,
        due_ms: job.due_ms,
        reason: job.reason.as_deref().map(|reason| text(reason).to_owned()),
        schedule: job.schedule.as_deref().map(|schedule| text(schedule).to_owned()),
        data,
        data_bytes,
        result,
        result_bytes,
        progress,
        progress_bytes,
        logs: None,
    }
}

fn text(text: &str) -> &str {
    beginning(text, TEXT_BYTES)
}

fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
