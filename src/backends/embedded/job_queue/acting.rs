//! What operators do.

use std::sync::Arc;
use std::time::Duration;

use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;

use super::line::Line;
use super::rows::{JobRow, find, let_run};
use super::schedules::is_next;
use super::schema::{jobs, paused_queues};
use crate::backends::embedded::errors::JobResult;
use crate::domain::job::JobState;
use crate::ports::job_queue::Acted;

/// A delayed or failed job can run now.
pub(super) fn go_on(
    connection: &mut SqliteConnection,
    line: &Line,
    id: &str,
    from: JobState,
) -> JobResult<Acted> {
    let Some(job) = find(connection, line, id)? else { return Ok(Acted::NotFound) };
    let state = job.state()?;
    if state != from {
        return Ok(Acted::Not(state));
    }
    wake(connection, line, &job)?;
    Ok(Acted::Done)
}

/// At most `limit` of the delayed or failed jobs can run now, those first that came first. Returns how many.
pub(super) fn all_go_on(
    connection: &mut SqliteConnection,
    line: &Line,
    from: JobState,
    limit: usize,
) -> JobResult<usize> {
    let rows: Vec<JobRow> = jobs::table
        .filter(jobs::queue.eq(line.spec.name))
        .filter(jobs::state.eq(from.as_str()))
        .order((jobs::rank, jobs::place))
        .limit(limit as i64)
        .select(JobRow::as_select())
        .load(connection)?;
    for row in &rows {
        wake(connection, line, row)?;
    }
    Ok(rows.len())
}

fn wake(connection: &mut SqliteConnection, line: &Line, job: &JobRow) -> JobResult<()> {
    let_run(connection, line, (job.seq, job.priority), line.now_ms())?;
    if job.finished_ms.is_some() {
        diesel::update(jobs::table.find(job.seq))
            .set((
                jobs::attempts_made.eq(0),
                jobs::finished_ms.eq(None::<i64>),
                jobs::reason.eq(None::<&str>),
            ))
            .execute(connection)?;
    }
    Ok(())
}

pub(super) fn remove(connection: &mut SqliteConnection, line: &Line, id: &str) -> JobResult<Acted> {
    let Some(job) = find(connection, line, id)? else { return Ok(Acted::NotFound) };
    if job.state()? == JobState::Active {
        return Ok(Acted::Not(JobState::Active));
    }
    if is_next(connection, line, &job)? {
        return Ok(Acted::OfSchedule);
    }
    diesel::delete(jobs::table.find(job.seq)).execute(connection)?;
    Ok(Acted::Done)
}

/// Removes at most `limit` jobs; the next jobs of schedules stay. Returns how many went.
pub(super) fn clean(
    connection: &mut SqliteConnection,
    line: &Line,
    state: JobState,
    older_than: Duration,
    limit: usize,
) -> JobResult<usize> {
    let age_ms = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
    let before_ms = line.now_ms().saturating_sub(age_ms);
    let of_state = jobs::table
        .filter(jobs::queue.eq(line.spec.name))
        .filter(jobs::state.eq(state.as_str()))
        .order((jobs::rank, jobs::place))
        .limit(limit as i64)
        .select(jobs::seq);
    let seqs: Vec<i64> = if matches!(state, JobState::Completed | JobState::Failed) {
        of_state.filter(jobs::rank.le(before_ms)).load(connection)?
    } else {
        of_state.filter(jobs::created_ms.le(before_ms)).filter(jobs::schedule.is_null()).load(connection)?
    };
    Ok(diesel::delete(jobs::table.filter(jobs::seq.eq_any(seqs))).execute(connection)?)
}

pub(super) fn pause(connection: &mut SqliteConnection, line: &Arc<Line>) -> JobResult<()> {
    diesel::insert_into(paused_queues::table)
        .values(paused_queues::queue.eq(line.spec.name))
        .on_conflict_do_nothing()
        .execute(connection)?;
    Ok(())
}

pub(super) fn resume(connection: &mut SqliteConnection, line: &Arc<Line>) -> JobResult<()> {
    diesel::delete(paused_queues::table.find(line.spec.name)).execute(connection)?;
    Ok(())
}
