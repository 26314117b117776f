//! How queues and jobs are shown. Others add jobs, too: what they put into one is shown up to a limit.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::domain::decision::Decision;
use crate::domain::job::{JobState, QueueSpec, Retention};
use crate::ports::job_queue::{JobCounts, JobRecord, ScheduleRecord};
use crate::web::decisions;

/// Bytes of a job's data, result and progress, each.
const VALUE_BYTES: usize = 64 << 10;
/// The same where many jobs are listed.
const LISTED_VALUE_BYTES: usize = 1 << 10;
/// Bytes of other texts: ids, names, reasons, lines of a log.
const TEXT_BYTES: usize = 4 << 10;

pub(super) fn queue(
    spec: &QueueSpec,
    counts: &JobCounts,
    paused: bool,
    decision: Option<&Decision>,
    oldest: Option<Duration>,
    schedules: &[ScheduleRecord],
) -> Value {
    let counts = JobState::ALL.iter().map(|state| (state.as_str().to_owned(), counts.of(*state).into()));
    json!({
        "name": spec.name,
        "paused": paused,
        "pause": decision.map(decisions::pause),
        "counts": Value::Object(counts.collect()),
        "oldest_waiting_ms": oldest.map(|oldest| u64::try_from(oldest.as_millis()).unwrap_or(u64::MAX)),
        "attempts": spec.attempts,
        "retention": match spec.retention {
            Retention::Dedup { .. } => "dedup",
            Retention::Redrivable => "redrivable",
        },
        "schedules": schedules.iter().map(schedule).collect::<Vec<_>>(),
    })
}

pub(super) fn schedule(schedule: &ScheduleRecord) -> Value {
    json!({
        "id": text(&schedule.id),
        "name": text(&schedule.name),
        "cadence": text(&schedule.cadence),
        "next_ms": schedule.next_ms,
    })
}

pub(super) fn job_in_list(job: &JobRecord) -> Value {
    Value::Object(members(job, LISTED_VALUE_BYTES))
}

pub(super) fn job(job: &JobRecord, logs: &[String]) -> Value {
    let mut members = members(job, VALUE_BYTES);
    members.insert("logs".to_owned(), logs.iter().map(|line| text(line)).collect());
    Value::Object(members)
}

fn members(job: &JobRecord, value_bytes: usize) -> Map<String, Value> {
    let mut members = Map::new();
    let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
    put("id", text(&job.id).into());
    put("name", text(&job.name).into());
    put("state", job.state.as_str().into());
    put("attempts_made", job.attempts_made.into());
    put("options", json!({ "attempts": job.attempts, "priority": job.priority }));
    put("created_ms", job.created_ms.into());
    put("started_ms", job.started_ms.into());
    put("finished_ms", job.finished_ms.into());
    put("due_ms", job.due_ms.into());
    put("reason", job.reason.as_deref().map(text).into());
    put("schedule", job.schedule.as_deref().map(text).into());
    for (name, value) in
        [("data", Some(&job.data)), ("result", job.result.as_ref()), ("progress", job.progress.as_ref())]
    {
        let whole = value.map(Value::to_string).unwrap_or_default();
        if whole.len() > value_bytes {
            put(name, beginning(&whole, value_bytes).into());
            // Says that it is only the beginning.
            put(&format!("{name}_bytes"), whole.len().into());
        } else {
            put(name, value.cloned().into());
        }
    }
    members
}

fn text(text: &str) -> &str {
    beginning(text, TEXT_BYTES)
}

fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
