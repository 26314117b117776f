//! Rows of jobs, and what moves them.

use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;
use serde_json::Value;

use super::line::Line;
use super::schema::jobs;
use crate::backends::embedded::errors::{JobError, JobResult};
use crate::domain::job::JobState;
use crate::ports::job_queue::JobRecord;

#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = jobs)]
pub(super) struct JobRow {
    pub(super) seq: i64,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) data: String,
    pub(super) state: String,
    pub(super) rank: i64,
    pub(super) priority: i64,
    pub(super) attempts: i64,
    pub(super) attempts_made: i64,
    pub(super) created_ms: i64,
    pub(super) started_ms: Option<i64>,
    pub(super) finished_ms: Option<i64>,
    pub(super) reason: Option<String>,
    pub(super) result: Option<String>,
    pub(super) progress: Option<String>,
    pub(super) schedule: Option<String>,
    pub(super) tick_ms: Option<i64>,
}

impl JobRow {
    pub(super) fn state(&self) -> JobResult<JobState> {
        let state = JobState::ALL.into_iter().find(|state| state.as_str() == self.state);
        state.ok_or_else(|| JobError::refused(format!("stored state {:?} is broken", self.state)))
    }

    pub(super) fn data(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_default()
    }

    pub(super) fn record(self) -> JobResult<JobRecord> {
        let state = self.state()?;
        let json = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
        Ok(JobRecord {
            data: self.data(),
            id: self.id,
            name: self.name,
            state,
            attempts_made: count(self.attempts_made),
            attempts: count(self.attempts),
            priority: count(self.priority),
            created_ms: self.created_ms,
            started_ms: self.started_ms,
            finished_ms: self.finished_ms,
            due_ms: (state == JobState::Delayed).then_some(self.rank),
            reason: self.reason,
            result: json(self.result),
            progress: json(self.progress),
            schedule: self.schedule,
        })
    }
}

pub(super) fn count(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Where a job is that can run.
pub(super) fn runnable(priority: i64) -> JobState {
    if priority == 0 { JobState::Waiting } else { JobState::Prioritized }
}

/// A job of the queue, by its id.
pub(super) fn find(connection: &mut SqliteConnection, line: &Line, id: &str) -> JobResult<Option<JobRow>> {
    Ok(jobs::table
        .filter(jobs::queue.eq(line.spec.name))
        .filter(jobs::id.eq(id))
        .select(JobRow::as_select())
        .first(connection)
        .optional()?)
}

/// A job that was at work waits again, where it was taken from.
pub(super) fn go_on_waiting(connection: &mut SqliteConnection, seq: i64, priority: i64) -> JobResult<()> {
    diesel::update(jobs::table.find(seq))
        .set((jobs::state.eq(runnable(priority).as_str()), jobs::holder.eq(None::<i64>)))
        .execute(connection)?;
    Ok(())
}

/// A job can run now, behind all others of its priority. `ready_ms`: since when it could.
pub(super) fn let_run(
    connection: &mut SqliteConnection,
    line: &Line,
    (seq, priority): (i64, i64),
    ready_ms: i64,
) -> JobResult<()> {
    diesel::update(jobs::table.find(seq))
        .set((
            jobs::state.eq(runnable(priority).as_str()),
            jobs::rank.eq(priority),
            jobs::place.eq(line.store.place()),
            jobs::ready_ms.eq(ready_ms),
        ))
        .execute(connection)?;
    Ok(())
}
