//! Ends of attempts.

use std::time::Duration;

use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;
use serde_json::Value;

use super::line::Line;
use super::rows::{JobRow, go_on_waiting};
use super::schema::jobs;
use super::{BATCH, schedules, voice};
use crate::backends::embedded::errors::JobResult;
use crate::domain::job::{JobState, Retention};
use crate::ports::job_queue::{JobEvent, JobOutcome};

/// Bytes of what a job returned; of more only the number is kept.
const RESULT_BYTES: usize = 64 << 10;

/// Writes how the attempt of a holder ended. Returns what is told of it.
pub(super) fn end(
    connection: &mut SqliteConnection,
    line: &Line,
    token: i64,
    id: String,
    outcome: JobOutcome,
) -> JobResult<Option<JobEvent>> {
    let Some(job) = held(connection, token)? else { return Ok(Some(JobEvent::Lost { id })) };
    Ok(match outcome {
        JobOutcome::Completed(result) => {
            finish(connection, line, &job, JobState::Completed, Some(&result))?;
            Some(JobEvent::Completed { id, result })
        }
        JobOutcome::Later { after } => {
            delay(connection, line, &job, after)?;
            None
        }
        JobOutcome::Retry { reason, after } => {
            fail(connection, line, &job, &reason)?;
            if job.attempts_made + 1 < job.attempts {
                delay(connection, line, &job, after)?;
            } else {
                finish(connection, line, &job, JobState::Failed, None)?;
            }
            Some(JobEvent::Failed { id, reason })
        }
        JobOutcome::Failed { reason } => {
            fail(connection, line, &job, &reason)?;
            finish(connection, line, &job, JobState::Failed, None)?;
            Some(JobEvent::Failed { id, reason })
        }
    })
}

/// The job of a holder waits again, as if it had not been taken.
pub(super) fn give_back(connection: &mut SqliteConnection, token: i64) -> JobResult<()> {
    match held(connection, token)? {
        Some(job) => go_on_waiting(connection, job.seq, job.priority),
        None => Ok(()),
    }
}

fn held(connection: &mut SqliteConnection, token: i64) -> JobResult<Option<JobRow>> {
    let held = jobs::table.filter(jobs::holder.eq(token));
    Ok(held.select(JobRow::as_select()).first(connection).optional()?)
}

/// Counts a failed attempt, and keeps its reason.
fn fail(connection: &mut SqliteConnection, line: &Line, job: &JobRow, reason: &str) -> JobResult<()> {
    voice::write(connection, line, job.seq, &format!("attempt {}: {reason}", job.attempts_made + 1))?;
    diesel::update(jobs::table.find(job.seq))
        .set((jobs::attempts_made.eq(job.attempts_made + 1), jobs::reason.eq(reason)))
        .execute(connection)?;
    Ok(())
}

fn delay(connection: &mut SqliteConnection, line: &Line, job: &JobRow, after: Duration) -> JobResult<()> {
    let after_ms = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
    diesel::update(jobs::table.find(job.seq))
        .set((
            jobs::state.eq(JobState::Delayed.as_str()),
            jobs::rank.eq(line.now_ms().saturating_add(after_ms)),
            jobs::place.eq(line.store.place()),
            jobs::holder.eq(None::<i64>),
        ))
        .execute(connection)?;
    Ok(())
}

/// The job is done or given up: it is kept or freed, and if it is a schedule's, the next one comes.
fn finish(
    connection: &mut SqliteConnection,
    line: &Line,
    job: &JobRow,
    state: JobState,
    result: Option<&Value>,
) -> JobResult<()> {
    match line.spec.retention {
        Retention::Redrivable => {
            diesel::delete(jobs::table.find(job.seq)).execute(connection)?;
        }
        Retention::Dedup { age, count } => {
            let now_ms = line.now_ms();
            diesel::update(jobs::table.find(job.seq))
                .set((
                    jobs::state.eq(state.as_str()),
                    jobs::rank.eq(now_ms),
                    jobs::place.eq(line.store.place()),
                    jobs::finished_ms.eq(now_ms),
                    // Both ends count an attempt; that of a failed one is written with its reason, to the same number.
                    jobs::attempts_made.eq(job.attempts_made + 1),
                    jobs::result.eq(result.map(kept)),
                    jobs::holder.eq(None::<i64>),
                ))
                .execute(connection)?;
            forget(connection, line, state, now_ms, age, count)?;
        }
    }
    schedules::follow(connection, line, job)
}

fn kept(result: &Value) -> String {
    let text = result.to_string();
    if text.len() <= RESULT_BYTES { text } else { Value::from(format!("{} bytes", text.len())).to_string() }
}

/// Frees the ids of those that ended long ago, and of the oldest beyond the count.
fn forget(
    connection: &mut SqliteConnection,
    line: &Line,
    state: JobState,
    now_ms: i64,
    age: Duration,
    count: u32,
) -> JobResult<()> {
    let ended = || jobs::table.filter(jobs::queue.eq(line.spec.name)).filter(jobs::state.eq(state.as_str()));
    let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let old: Vec<i64> = ended()
        .filter(jobs::rank.le(now_ms.saturating_sub(age_ms)))
        .order((jobs::rank, jobs::place))
        .limit(BATCH as i64)
        .select(jobs::seq)
        .load(connection)?;
    let many: Vec<i64> = ended()
        .order((jobs::rank.desc(), jobs::place.desc()))
        .offset(i64::from(count))
        .limit(BATCH as i64)
        .select(jobs::seq)
        .load(connection)?;
    for seqs in [old, many] {
        if !seqs.is_empty() {
            diesel::delete(jobs::table.filter(jobs::seq.eq_any(seqs))).execute(connection)?;
        }
    }
    Ok(())
}
