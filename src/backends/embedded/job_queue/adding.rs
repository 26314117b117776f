//! Adding jobs.

use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;
use serde_json::Value;

use super::line::Line;
use super::rows::runnable;
use super::schema::jobs;
use crate::backends::embedded::errors::{JobError, JobResult};
use crate::domain::job::JobState;
use crate::ports::job_queue::NewJob;

/// Above it BullMQ refuses.
const LOWEST_PRIORITY: u32 = 1 << 21;
/// A job carries ids, never bodies: bytes of its payload.
const DATA_BYTES: usize = 1 << 20;
/// Bytes of a name.
const NAME_BYTES: usize = 1024;

pub(super) fn add(connection: &mut SqliteConnection, line: &Line, new: &[NewJob]) -> JobResult<()> {
    for job in new {
        let row = Added {
            id: job.id.as_str(),
            name: &job.name,
            data: &job.data,
            delay_ms: i64::try_from(job.delay.as_millis()).unwrap_or(i64::MAX),
            priority: i64::from(job.priority.min(LOWEST_PRIORITY)),
            schedule: None,
        };
        insert(connection, line, &row)?;
    }
    Ok(())
}

/// A job to add.
pub(super) struct Added<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) data: &'a Value,
    pub(super) delay_ms: i64,
    pub(super) priority: i64,
    /// Which, and for what time.
    pub(super) schedule: Option<(&'a str, i64)>,
}

/// Adds a job, if its id is free. Whether it was.
pub(super) fn insert(connection: &mut SqliteConnection, line: &Line, job: &Added<'_>) -> JobResult<bool> {
    let data = bounded(job.name, job.data)?;
    let now_ms = line.now_ms();
    let due_ms = now_ms.saturating_add(job.delay_ms);
    let (state, rank) =
        if job.delay_ms > 0 { (JobState::Delayed, due_ms) } else { (runnable(job.priority), job.priority) };
    let added = diesel::insert_into(jobs::table)
        .values((
            jobs::queue.eq(line.spec.name),
            jobs::id.eq(job.id),
            jobs::name.eq(job.name),
            jobs::data.eq(data),
            jobs::state.eq(state.as_str()),
            jobs::rank.eq(rank),
            jobs::place.eq(line.store.place()),
            jobs::priority.eq(job.priority),
            jobs::attempts.eq(i64::from(line.spec.attempts)),
            jobs::attempts_made.eq(0),
            jobs::created_ms.eq(now_ms),
            jobs::ready_ms.eq(due_ms),
            jobs::schedule.eq(job.schedule.map(|(schedule, _)| schedule)),
            jobs::tick_ms.eq(job.schedule.map(|(_, tick_ms)| tick_ms)),
        ))
        .on_conflict((jobs::queue, jobs::id))
        .do_nothing()
        .execute(connection)?;
    Ok(added == 1)
}

/// The payload as text, if it and the name may be kept.
pub(super) fn bounded(name: &str, data: &Value) -> JobResult<String> {
    if name.len() > NAME_BYTES {
        return Err(JobError::refused(format!("a job's name has at most {NAME_BYTES} bytes")));
    }
    let data = data.to_string();
    if data.len() > DATA_BYTES {
        return Err(JobError::refused(format!("a job carries at most {DATA_BYTES} bytes: ids, no bodies")));
    }
    Ok(data)
}
