//! Schedules are BullMQ's job schedulers: a worker that ends a job adds the next.

use bullmq::job_scheduler::{JobSchedulerJson, RepeatOptions};
use bullmq::{Error, Queue};

use super::millis;
use super::records::{options, time};
use crate::domain::job::{Cadence, QueueSpec};
use crate::ports::job_queue::{NewSchedule, ScheduleRecord};

pub(super) async fn put(queue: &Queue, spec: &QueueSpec, schedule: &NewSchedule) -> Result<(), Error> {
    let repeat = repeat(&schedule.cadence);
    if let Some(stands) = queue.get_job_scheduler(&schedule.id).await?
        && is_same(&stands, &repeat, schedule)
        && has_next(queue, &stands).await?
    {
        return Ok(());
    }
    let data = Some(schedule.data.clone());
    let put =
        queue.upsert_job_scheduler(&schedule.id, repeat, Some(&schedule.name), data, Some(options(spec)));
    match put.await {
        // Its next job is there already, at work or ended: whoever ends it adds the one after.
        Err(Error::Script { code: -10 | -11, .. }) => Ok(()),
        put => put.map(drop),
    }
}

pub(super) async fn list(queue: &Queue) -> Result<Vec<ScheduleRecord>, Error> {
    let schedules = queue.get_job_schedulers(0, -1, true).await?;
    Ok(schedules
        .into_iter()
        .map(|schedule| ScheduleRecord {
            cadence: match (&schedule.pattern, schedule.every) {
                (Some(pattern), _) => pattern.clone(),
                (None, every) => every.unwrap_or(0).to_string(),
            },
            id: schedule.key,
            name: schedule.name,
            next_ms: schedule.next.map(time),
        })
        .collect())
}

fn repeat(cadence: &Cadence) -> RepeatOptions {
    match cadence {
        Cadence::Every(distance) => {
            RepeatOptions { every: Some(millis(*distance)), ..RepeatOptions::default() }
        }
        Cadence::Cron { pattern, time_zone } => RepeatOptions {
            pattern: Some(pattern.as_str().to_owned()),
            tz: Some(time_zone.name().to_owned()),
            ..RepeatOptions::default()
        },
    }
}

fn is_same(stands: &JobSchedulerJson, repeat: &RepeatOptions, schedule: &NewSchedule) -> bool {
    stands.pattern == repeat.pattern
        && stands.every == repeat.every
        && stands.tz == repeat.tz
        && stands.name == schedule.name
        && stands.data.as_ref() == Some(&schedule.data)
}

/// A worker that was lost between ending a job and adding the next leaves a schedule without one.
async fn has_next(queue: &Queue, stands: &JobSchedulerJson) -> Result<bool, Error> {
    let Some(next) = stands.next else { return Ok(false) };
    let state = queue.get_job_state(&format!("repeat:{}:{next}", stands.key)).await?;
    Ok(!matches!(state, bullmq::JobState::Unknown | bullmq::JobState::Completed | bullmq::JobState::Failed))
}
