//! Schedules: whoever ends a job of one adds the next, in the same transaction.

use std::sync::Arc;
use std::time::Duration;

use diesel::dsl::{exists, select};
use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;
use serde_json::Value;

use super::adding::{Added, bounded, insert};
use super::line::Line;
use super::rows::JobRow;
use super::schema::{jobs, schedules};
use crate::backends::embedded::errors::{JobError, JobResult};
use crate::domain::job::{Cadence, JobState};
use crate::ports::job_queue::{NewSchedule, ScheduleRecord};

#[derive(Debug, Clone, PartialEq, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = schedules, treat_none_as_default_value = false, treat_none_as_null = true)]
struct ScheduleRow {
    queue: String,
    id: String,
    name: String,
    data: String,
    cadence: String,
    time_zone: Option<String>,
    next_ms: Option<i64>,
}

impl ScheduleRow {
    fn find(connection: &mut SqliteConnection, line: &Line, id: &str) -> JobResult<Option<Self>> {
        let row = schedules::table.find((line.spec.name, id));
        Ok(row.select(Self::as_select()).first(connection).optional()?)
    }

    fn cadence(&self) -> JobResult<Cadence> {
        let broken =
            |why: String| JobError::refused(format!("stored schedule {:?} is broken: {why}", self.id));
        match &self.time_zone {
            Some(time_zone) => Cadence::cron(&self.cadence, time_zone).map_err(|err| broken(err.to_string())),
            None => {
                let distance = self.cadence.parse().map(Duration::from_millis);
                let distance = distance.map_err(|err| broken(err.to_string()))?;
                Cadence::every(distance).map_err(|err| broken(err.to_string()))
            }
        }
    }
}

/// The states of a job that is to come.
const TO_COME: [&str; 3] =
    [JobState::Waiting.as_str(), JobState::Prioritized.as_str(), JobState::Delayed.as_str()];

pub(super) fn put(connection: &mut SqliteConnection, line: &Line, new: &NewSchedule) -> JobResult<()> {
    let (cadence, time_zone) = match &new.cadence {
        Cadence::Every(distance) => (distance.as_millis().to_string(), None),
        Cadence::Cron { pattern, time_zone } => {
            (pattern.as_str().to_owned(), Some(time_zone.name().to_owned()))
        }
    };
    let stands = ScheduleRow::find(connection, line, &new.id)?;
    let mut row = ScheduleRow {
        queue: line.spec.name.to_owned(),
        id: new.id.clone(),
        name: new.name.clone(),
        data: bounded(&new.name, &new.data)?,
        cadence,
        time_zone,
        next_ms: stands.as_ref().and_then(|stands| stands.next_ms),
    };
    let runs = has_job(connection, line, &new.id, &[JobState::Active.as_str()])?;
    let is_same = stands.as_ref() == Some(&row);
    if is_same && (runs || has_job(connection, line, &new.id, &TO_COME)?) {
        return Ok(());
    }
    drop_next(connection, line, &new.id)?;
    let now_ms = line.now_ms();
    let next = new.cadence.next_after(now_ms);
    row.next_ms = match (&new.cadence, next) {
        // The first of a steady distance comes at once.
        (Cadence::Every(distance), Some(next)) if !runs => {
            Some(next - i64::try_from(distance.as_millis()).unwrap_or(0))
        }
        (_, next) => next,
    };
    // The end of the one that runs brings the next.
    if let Some(tick_ms) = row.next_ms.filter(|_| !runs) {
        row.next_ms = add_job(connection, line, &row, &new.cadence, tick_ms)?;
    }
    diesel::insert_into(schedules::table)
        .values(&row)
        .on_conflict((schedules::queue, schedules::id))
        .do_update()
        .set(&row)
        .execute(connection)?;
    Ok(())
}

pub(super) fn list(connection: &mut SqliteConnection, line: &Line) -> JobResult<Vec<ScheduleRecord>> {
    let rows: Vec<ScheduleRow> = schedules::table
        .filter(schedules::queue.eq(line.spec.name))
        .order(schedules::id)
        .select(ScheduleRow::as_select())
        .load(connection)?;
    let record = |row: ScheduleRow| ScheduleRecord {
        id: row.id,
        name: row.name,
        cadence: row.cadence,
        next_ms: row.next_ms,
    };
    Ok(rows.into_iter().map(record).collect())
}

pub(super) fn remove(connection: &mut SqliteConnection, line: &Arc<Line>, id: &str) -> JobResult<bool> {
    drop_next(connection, line, id)?;
    let removed = diesel::delete(schedules::table.find((line.spec.name, id))).execute(connection)?;
    Ok(removed == 1)
}

/// A job ended: if it is a schedule's, the next one is added.
pub(super) fn follow(connection: &mut SqliteConnection, line: &Line, ended: &JobRow) -> JobResult<()> {
    let Some(id) = &ended.schedule else { return Ok(()) };
    let Some(row) = ScheduleRow::find(connection, line, id)? else { return Ok(()) };
    if has_job(connection, line, id, &TO_COME)? {
        return Ok(());
    }
    let cadence = match row.cadence() {
        Ok(cadence) => cadence,
        Err(err) => {
            log::error!("schedule ends err={err:?} queue={}", line.spec.name);
            return Ok(());
        }
    };
    // Not the same again when the clock was set back.
    let after = line.now_ms().max(ended.tick_ms.unwrap_or(0));
    let next_ms = match cadence.next_after(after) {
        Some(tick_ms) => add_job(connection, line, &row, &cadence, tick_ms)?,
        None => None,
    };
    diesel::update(schedules::table.find((line.spec.name, id)))
        .set(schedules::next_ms.eq(next_ms))
        .execute(connection)?;
    Ok(())
}

/// Whether this is the job that its schedule waits for.
pub(super) fn is_next(connection: &mut SqliteConnection, line: &Line, job: &JobRow) -> JobResult<bool> {
    let Some(id) = &job.schedule else { return Ok(false) };
    Ok(TO_COME.contains(&job.state.as_str()) && ScheduleRow::find(connection, line, id)?.is_some())
}

fn has_job(connection: &mut SqliteConnection, line: &Line, id: &str, states: &[&str]) -> JobResult<bool> {
    let found = jobs::table
        .filter(jobs::queue.eq(line.spec.name))
        .filter(jobs::schedule.eq(id))
        .filter(jobs::state.eq_any(states));
    Ok(select(exists(found)).get_result(connection)?)
}

fn drop_next(connection: &mut SqliteConnection, line: &Line, id: &str) -> JobResult<()> {
    let next = jobs::table
        .filter(jobs::queue.eq(line.spec.name))
        .filter(jobs::schedule.eq(id))
        .filter(jobs::state.eq_any(TO_COME));
    diesel::delete(next).execute(connection)?;
    Ok(())
}

/// Adds the job for a time, or for the next one whose id is free: where ids are kept, this one may have run. Returns for which.
fn add_job(
    connection: &mut SqliteConnection,
    line: &Line,
    row: &ScheduleRow,
    cadence: &Cadence,
    mut tick_ms: i64,
) -> JobResult<Option<i64>> {
    let data: Value = serde_json::from_str(&row.data).unwrap_or_default();
    loop {
        let id = format!("repeat:{}:{tick_ms}", row.id);
        let job = Added {
            id: &id,
            name: &row.name,
            data: &data,
            delay_ms: tick_ms.saturating_sub(line.now_ms()),
            priority: 0,
            schedule: Some((&row.id, tick_ms)),
        };
        if insert(connection, line, &job)? {
            return Ok(Some(tick_ms));
        }
        match cadence.next_after(tick_ms) {
            Some(next_ms) => tick_ms = next_ms,
            None => return Ok(None),
        }
    }
}
