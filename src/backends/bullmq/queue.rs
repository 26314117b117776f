//! What a queue can be asked.

use std::sync::Arc;
use std::time::Duration;

use bullmq::types::RetryOptions;
use bullmq::{BulkJob, Error, Job, Queue};

use super::link::{LONG, Link, SHORT};
use super::records::{due, options_of, record, since, state, time};
use super::{millis, schedules, worker};
use crate::domain::job::{JobId, JobState, QueueSpec};
use crate::ports::job_queue::{
    Acted, JobCounts, JobProcessor, JobQueue, JobRecord, NewJob, NewSchedule, RunningWorker, ScheduleRecord,
};
use crate::ports::{BoxFuture, StoreError, StoreResult};

/// How many jobs one round trip adds, or retries.
const BATCH: usize = 500;

pub(super) struct BullMqQueue {
    spec: &'static QueueSpec,
    link: Arc<Link>,
}

impl BullMqQueue {
    pub(super) fn new(spec: &'static QueueSpec, link: Arc<Link>) -> Self {
        Self { spec, link }
    }
}

impl JobQueue for BullMqQueue {
    fn spec(&self) -> &'static QueueSpec {
        self.spec
    }

    fn add(&self, job: NewJob) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.link.ask(SHORT, async move |queue| {
            let options = options_of(self.spec, &job);
            queue.add(&job.name, job.data).options(options).await.map(drop)
        }))
    }

    fn add_bulk(&self, jobs: Vec<NewJob>) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async move {
            for batch in jobs.chunks(BATCH) {
                let batch = batch.iter().map(|job| {
                    BulkJob::with_options(&job.name, job.data.clone(), options_of(self.spec, job))
                });
                let batch = batch.collect();
                self.link.ask(LONG, async move |queue| queue.add_bulk(batch).await.map(drop)).await?;
            }
            Ok(())
        })
    }

    fn counts(&self) -> BoxFuture<'_, StoreResult<JobCounts>> {
        Box::pin(self.link.ask(SHORT, async |queue| {
            let counts = queue.get_job_counts().await?;
            Ok(JobCounts {
                waiting: counts.waiting + counts.paused,
                prioritized: counts.prioritized,
                active: counts.active,
                delayed: counts.delayed,
                completed: counts.completed,
                failed: counts.failed,
            })
        }))
    }

    fn oldest_waiting(&self) -> BoxFuture<'_, StoreResult<Option<Duration>>> {
        Box::pin(self.link.ask(SHORT, async |queue| {
            let now = self.link.options.clock.now_ms();
            let mut oldest = oldest_due(&queue).await?.filter(|due| *due <= now);
            for first in [JobState::Waiting, JobState::Prioritized] {
                if let Some(job) = queue.get_jobs(&[first.as_str()], 0, 0, true).await?.first() {
                    let since = time(job.timestamp().max(job.processed_on().unwrap_or(0)));
                    oldest = Some(oldest.map_or(since, |oldest| oldest.min(since)));
                }
            }
            Ok(oldest.map(|oldest| since(now, oldest)))
        }))
    }

    fn job<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Option<JobRecord>>> {
        Box::pin(self.link.ask(SHORT, async move |queue| {
            // Its state lies elsewhere than the job: they belong together when nothing moved it meanwhile.
            let mut before = state(queue.get_job_state(id).await?);
            loop {
                let job = find(&queue, id).await?;
                let due = due_of(&queue, before, id).await?;
                let after = state(queue.get_job_state(id).await?);
                match (job, after) {
                    (Some(job), Some(state)) if before == after => return Ok(Some(record(&job, state, due))),
                    (Some(_), Some(_)) => before = after,
                    _ => return Ok(None),
                }
            }
        }))
    }

    fn jobs(
        &self,
        state: JobState,
        offset: usize,
        limit: usize,
    ) -> BoxFuture<'_, StoreResult<Vec<JobRecord>>> {
        Box::pin(self.link.ask(SHORT, async move |queue| {
            let Some(last) = limit.checked_sub(1).and_then(|limit| offset.checked_add(limit)) else {
                return Ok(Vec::new());
            };
            let next_first = !matches!(state, JobState::Completed | JobState::Failed);
            let range = (i64::try_from(offset), i64::try_from(last));
            let (Ok(first), Ok(last)) = range else { return Ok(Vec::new()) };
            let jobs = queue.get_jobs(&[state.as_str()], first, last, next_first).await?;
            let mut records = Vec::with_capacity(jobs.len().min(limit));
            for job in jobs.iter().take(limit) {
                records.push(record(job, state, due_of(&queue, Some(state), job.id()).await?));
            }
            Ok(records)
        }))
    }

    fn logs<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Vec<String>>> {
        Box::pin(self.link.ask(SHORT, async move |queue| {
            queue.get_job_logs(id, -50, -1, true).await.map(|(lines, _)| lines)
        }))
    }

    fn promote<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Acted>> {
        Box::pin(self.link.ask(SHORT, async move |queue| {
            let Some(job) = find(&queue, id).await? else { return Ok(Acted::NotFound) };
            match job.promote().await {
                Err(Error::Script { code: -3, .. }) => refused(&queue, id).await,
                done => done.map(|()| Acted::Done),
            }
        }))
    }

    fn retry<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Acted>> {
        Box::pin(self.link.ask(SHORT, async move |queue| retry(&queue, id).await))
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Acted>> {
        Box::pin(self.link.ask(SHORT, async move |queue| {
            if find(&queue, id).await?.is_none() {
                return Ok(Acted::NotFound);
            }
            match queue.remove(id).await {
                Ok(true) => Ok(Acted::Done),
                Ok(false) => Ok(Acted::Not(JobState::Active)),
                Err(Error::Script { code: -8, .. }) => Ok(Acted::OfSchedule),
                Err(err) => Err(err),
            }
        }))
    }

    fn promote_all(&self) -> BoxFuture<'_, StoreResult<u64>> {
        Box::pin(self.link.ask(LONG, async |queue| {
            let delayed = queue.get_delayed_count().await?;
            queue.promote_jobs(1000).await.map(|()| delayed)
        }))
    }

    fn retry_all(&self) -> BoxFuture<'_, StoreResult<u64>> {
        Box::pin(async {
            let mut retried = 0;
            let mut left = self.counts().await?.failed;
            // Each pass takes those that failed longest ago; what fails again meanwhile is not retried twice.
            while left > 0 {
                let batch = left.min(BATCH as u64);
                let ids = self.link.ask(SHORT, async move |queue| {
                    queue.get_ranges(&["failed"], 0, time(batch - 1), true).await
                });
                let ids = ids.await?;
                if ids.is_empty() {
                    break;
                }
                for id in &ids {
                    retried += u64::from(self.retry(id).await? == Acted::Done);
                }
                left = left.saturating_sub(ids.len() as u64);
            }
            Ok(retried)
        })
    }

    fn clean(&self, state: JobState, older_than: Duration, limit: usize) -> BoxFuture<'_, StoreResult<u64>> {
        Box::pin(async move {
            if state == JobState::Active {
                return Err(StoreError::Refused("a job at work is not cleaned away".to_owned()));
            }
            // To the library 0 is no limit.
            let Some(limit) = u32::try_from(limit).ok().filter(|limit| *limit > 0) else { return Ok(0) };
            let clean =
                async move |queue: Queue| queue.clean(millis(older_than), limit, state.as_str()).await;
            Ok(self.link.ask(LONG, clean).await?.len() as u64)
        })
    }

    fn pause(&self) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.link.ask(SHORT, async |queue| queue.pause().await))
    }

    fn resume(&self) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.link.ask(SHORT, async |queue| {
            // What version 5 parked comes back in stretches of 7,000.
            loop {
                let parked = queue.get_job_counts().await?.paused;
                queue.resume().await?;
                if parked <= 7000 {
                    return Ok(());
                }
            }
        }))
    }

    fn is_paused(&self) -> BoxFuture<'_, StoreResult<bool>> {
        Box::pin(self.link.ask(SHORT, async |queue| queue.is_paused().await))
    }

    fn put_schedule(&self, schedule: NewSchedule) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.link.ask(SHORT, async move |queue| schedules::put(&queue, self.spec, &schedule).await))
    }

    fn schedules(&self) -> BoxFuture<'_, StoreResult<Vec<ScheduleRecord>>> {
        Box::pin(self.link.ask(SHORT, async |queue| schedules::list(&queue).await))
    }

    fn remove_schedule<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<bool>> {
        Box::pin(self.link.ask(SHORT, async move |queue| queue.remove_job_scheduler(id).await))
    }

    fn work(&self, concurrency: u32, processor: Arc<dyn JobProcessor>) -> Box<dyn RunningWorker> {
        Box::new(worker::start(self.link.clone(), concurrency, processor))
    }
}

/// When the first delayed job is due.
pub(super) async fn oldest_due(queue: &Queue) -> Result<Option<i64>, Error> {
    let mut range = redis::cmd("ZRANGE");
    range.arg(queue.keys().delayed()).arg(0).arg(0).arg("WITHSCORES");
    let first: Vec<(String, f64)> = queue.connection().cmd(&mut range).await?;
    Ok(first.first().map(|(_, score)| due(*score)))
}

async fn due_of(queue: &Queue, state: Option<JobState>, id: &str) -> Result<Option<i64>, Error> {
    if state != Some(JobState::Delayed) {
        return Ok(None);
    }
    let score: Option<f64> =
        queue.connection().cmd(redis::cmd("ZSCORE").arg(queue.keys().delayed()).arg(id)).await?;
    Ok(score.map(due))
}

/// The job of this id. To the library every hash beside the jobs is one, and whoever removes it removes the settings of the queue.
async fn find(queue: &Queue, id: &str) -> Result<Option<Job>, Error> {
    if id.is_empty() || JobId::is_of_queue(id) || queue.get_job_state(id).await? == bullmq::JobState::Unknown
    {
        return Ok(None);
    }
    queue.get_job(id).await
}

async fn retry(queue: &Queue, id: &str) -> Result<Acted, Error> {
    let Some(mut job) = find(queue, id).await? else { return Ok(Acted::NotFound) };
    let anew = RetryOptions { reset_attempts_made: true, reset_attempts_started: true };
    match job.retry("failed", Some(anew)).await {
        // The answer of the script is in the text only: the state says more.
        Err(Error::InvalidConfig(_)) => refused(queue, id).await,
        done => done.map(|()| Acted::Done),
    }
}

/// A job that was there is in another state than it should be, or gone by now.
async fn refused(queue: &Queue, id: &str) -> Result<Acted, Error> {
    Ok(state(queue.get_job_state(id).await?).map_or(Acted::NotFound, Acted::Not))
}
