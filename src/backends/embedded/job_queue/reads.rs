//! What a queue tells of itself.

use std::time::Duration;

use diesel::dsl::{count_star, exists, select};
use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;

use super::line::Line;
use super::rows::{JobRow, find};
use super::schema::{job_lines, jobs, paused_queues};
use crate::backends::embedded::errors::JobResult;
use crate::domain::job::JobState;
use crate::ports::job_queue::{JobCounts, JobRecord};

pub(super) fn counts(connection: &mut SqliteConnection, line: &Line) -> JobResult<JobCounts> {
    let rows: Vec<(String, i64)> = jobs::table
        .filter(jobs::queue.eq(line.spec.name))
        .group_by(jobs::state)
        .select((jobs::state, count_star()))
        .load(connection)?;
    let of = |state: JobState| {
        let row = rows.iter().find(|(stored, _)| stored == state.as_str());
        row.map_or(0, |(_, count)| count.unsigned_abs())
    };
    Ok(JobCounts {
        waiting: of(JobState::Waiting),
        prioritized: of(JobState::Prioritized),
        active: of(JobState::Active),
        delayed: of(JobState::Delayed),
        completed: of(JobState::Completed),
        failed: of(JobState::Failed),
    })
}

pub(super) fn oldest_waiting(connection: &mut SqliteConnection, line: &Line) -> JobResult<Option<Duration>> {
    let now_ms = line.now_ms();
    let mut oldest: Option<i64> = None;
    for state in [JobState::Waiting, JobState::Prioritized, JobState::Delayed] {
        let first: Option<i64> = jobs::table
            .filter(jobs::queue.eq(line.spec.name))
            .filter(jobs::state.eq(state.as_str()))
            .order((jobs::rank, jobs::place))
            .select(jobs::ready_ms)
            .first(connection)
            .optional()?;
        if let Some(ready_ms) = first.filter(|ready_ms| *ready_ms <= now_ms || state != JobState::Delayed) {
            oldest = Some(oldest.map_or(ready_ms, |oldest| oldest.min(ready_ms)));
        }
    }
    Ok(oldest.map(|ready_ms| Duration::from_millis(u64::try_from(now_ms - ready_ms).unwrap_or(0))))
}

pub(super) fn job(connection: &mut SqliteConnection, line: &Line, id: &str) -> JobResult<Option<JobRecord>> {
    find(connection, line, id)?.map(JobRow::record).transpose()
}

pub(super) fn jobs(
    connection: &mut SqliteConnection,
    line: &Line,
    state: JobState,
    offset: usize,
    limit: usize,
) -> JobResult<Vec<JobRecord>> {
    let of_state = jobs::table
        .filter(jobs::queue.eq(line.spec.name))
        .filter(jobs::state.eq(state.as_str()))
        .offset(i64::try_from(offset).unwrap_or(i64::MAX))
        .limit(i64::try_from(limit).unwrap_or(i64::MAX))
        .select(JobRow::as_select());
    let rows: Vec<JobRow> = if matches!(state, JobState::Completed | JobState::Failed) {
        of_state.order((jobs::rank.desc(), jobs::place.desc())).load(connection)?
    } else {
        of_state.order((jobs::rank, jobs::place)).load(connection)?
    };
    rows.into_iter().map(JobRow::record).collect()
}

pub(super) fn logs(connection: &mut SqliteConnection, line: &Line, id: &str) -> JobResult<Vec<String>> {
    let Some(job) = find(connection, line, id)? else { return Ok(Vec::new()) };
    Ok(job_lines::table
        .filter(job_lines::job.eq(job.seq))
        .order(job_lines::place)
        .select(job_lines::line)
        .load(connection)?)
}

pub(super) fn is_paused(connection: &mut SqliteConnection, line: &Line) -> JobResult<bool> {
    Ok(select(exists(paused_queues::table.find(line.spec.name))).get_result(connection)?)
}
