//! Taking jobs.

use std::sync::Arc;

use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;

use super::BATCH;
use super::line::{Hold, Line};
use super::reads::is_paused;
use super::rows::{JobRow, go_on_waiting, let_run};
use super::schema::jobs;
use crate::backends::embedded::errors::JobResult;
use crate::domain::job::JobState;

/// What a worker got.
pub(super) struct Haul {
    pub(super) taken: Vec<(JobRow, Hold)>,
    /// Jobs whose attempts died; they wait again, or are among those that were taken.
    pub(super) stalled: Vec<String>,
    /// When the next delayed job is due.
    pub(super) next_due_ms: Option<i64>,
}

/// Takes at most `most` jobs.
pub(super) fn take(connection: &mut SqliteConnection, line: &Arc<Line>, most: usize) -> JobResult<Haul> {
    let now_ms = line.now_ms();
    let stalled = put_back(connection, line)?;
    call_due(connection, line, now_ms)?;
    let mut taken = Vec::new();
    if !is_paused(connection, line)? {
        for state in [JobState::Waiting, JobState::Prioritized] {
            let rows: Vec<JobRow> = jobs::table
                .filter(jobs::queue.eq(line.spec.name))
                .filter(jobs::state.eq(state.as_str()))
                .order((jobs::rank, jobs::place))
                .limit((most - taken.len()) as i64)
                .select(JobRow::as_select())
                .load(connection)?;
            for row in rows {
                let hold = line.hold();
                diesel::update(jobs::table.find(row.seq))
                    .set((
                        jobs::state.eq(JobState::Active.as_str()),
                        jobs::started_ms.eq(now_ms),
                        jobs::holder.eq(hold.token),
                    ))
                    .execute(connection)?;
                taken.push((row, hold));
            }
        }
    }
    let next_due_ms = delayed(line).select(jobs::rank).first(connection).optional()?;
    Ok(Haul { taken, stalled, next_due_ms })
}

/// Jobs whose attempts died wait again. Returns which.
fn put_back(connection: &mut SqliteConnection, line: &Line) -> JobResult<Vec<String>> {
    let active: Vec<(i64, String, i64, Option<i64>)> = jobs::table
        .filter(jobs::queue.eq(line.spec.name))
        .filter(jobs::state.eq(JobState::Active.as_str()))
        .select((jobs::seq, jobs::id, jobs::priority, jobs::holder))
        .load(connection)?;
    let mut stalled = Vec::new();
    for (seq, id, priority, holder) in active {
        if holder.is_none_or(|holder| !line.is_alive(holder)) {
            go_on_waiting(connection, seq, priority)?;
            stalled.push(id);
        }
    }
    Ok(stalled)
}

/// Delayed jobs whose time has come can run.
fn call_due(connection: &mut SqliteConnection, line: &Line, now_ms: i64) -> JobResult<()> {
    let due: Vec<(i64, i64, i64)> = delayed(line)
        .filter(jobs::rank.le(now_ms))
        .limit(BATCH as i64)
        .select((jobs::seq, jobs::priority, jobs::rank))
        .load(connection)?;
    for (seq, priority, due_ms) in due {
        let_run(connection, line, (seq, priority), due_ms)?;
    }
    Ok(())
}

/// All delayed jobs, those first that are due first.
#[diesel::dsl::auto_type(no_type_alias)]
fn delayed<'a>(line: &'a Line) -> _ {
    let name: &'a str = line.spec.name;
    let state: &'static str = JobState::Delayed.as_str();
    jobs::table.filter(jobs::queue.eq(name)).filter(jobs::state.eq(state)).order((jobs::rank, jobs::place))
}
