//! Queues in a SQLite file of their own, with what BullMQ's mean.
//!
//! | BullMQ | here |
//! |---|---|
//! | a lock in Redis, renewed | the data folder has one process: a job is held by an attempt that lives in it. One that died without an end (dropped, its thread gone) is taken over when a job is taken next; after a restart all are |
//! | a marker that blocked workers wait for | `line`: a signal within the process; due jobs by a timer |
//! | lists and sorted sets | one table, ordered by state, rank and place |
//! | the next job of a schedule is added when one ends | in the transaction of that end |

mod acting;
mod adding;
mod ending;
mod line;
mod reads;
mod rows;
mod schedules;
mod schema;
mod taking;
#[cfg(test)]
mod tests;
mod voice;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use diesel::sqlite::SqliteConnection;

use self::line::{Line, Store};
use super::database::Database;
use super::errors::JobResult;
use crate::domain::job::{JobState, QueueSpec};
use crate::ports::clock::Clock;
use crate::ports::job_queue::{
    Acted, JobCounts, JobProcessor, JobQueue, JobQueues, JobRecord, NewJob, NewSchedule, RunningWorker,
    ScheduleRecord,
};
use crate::ports::{BoxFuture, StoreError, StoreResult};

/// How many jobs one transaction adds, takes or changes: others wait so long for their turn.
const BATCH: usize = 500;

/// The queues of a file.
pub(super) struct SqliteQueues {
    store: Arc<Store>,
}

impl SqliteQueues {
    /// Takes over what a process before this one had at work.
    pub(super) async fn open(database: Arc<Database>, clock: Arc<dyn Clock>) -> StoreResult<Self> {
        Ok(Self { store: Store::open(database, clock).await? })
    }
}

impl JobQueues for SqliteQueues {
    fn queue(&self, spec: &'static QueueSpec) -> Arc<dyn JobQueue> {
        Arc::new(SqliteQueue { line: Line::of(&self.store, spec) })
    }
}

struct SqliteQueue {
    line: Arc<Line>,
}

impl JobQueue for SqliteQueue {
    fn spec(&self) -> &'static QueueSpec {
        self.line.spec
    }

    fn add(&self, job: NewJob) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.line.change(move |connection, line| adding::add(connection, line, &[job])))
    }

    fn add_bulk(&self, mut jobs: Vec<NewJob>) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async move {
            while !jobs.is_empty() {
                let batch: Vec<NewJob> = jobs.drain(..jobs.len().min(BATCH)).collect();
                self.line.change(move |connection, line| adding::add(connection, line, &batch)).await?;
            }
            Ok(())
        })
    }

    fn counts(&self) -> BoxFuture<'_, StoreResult<JobCounts>> {
        Box::pin(self.line.read(reads::counts))
    }

    fn oldest_waiting(&self) -> BoxFuture<'_, StoreResult<Option<Duration>>> {
        Box::pin(self.line.read(reads::oldest_waiting))
    }

    fn job<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Option<JobRecord>>> {
        let id = id.to_owned();
        Box::pin(self.line.read(move |connection, line| reads::job(connection, line, &id)))
    }

    fn jobs(
        &self,
        state: JobState,
        offset: usize,
        limit: usize,
    ) -> BoxFuture<'_, StoreResult<Vec<JobRecord>>> {
        Box::pin(self.line.read(move |connection, line| reads::jobs(connection, line, state, offset, limit)))
    }

    fn logs<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Vec<String>>> {
        let id = id.to_owned();
        Box::pin(self.line.read(move |connection, line| reads::logs(connection, line, &id)))
    }

    fn promote<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Acted>> {
        let id = id.to_owned();
        Box::pin(
            self.line.change(move |connection, line| acting::go_on(connection, line, &id, JobState::Delayed)),
        )
    }

    fn retry<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Acted>> {
        let id = id.to_owned();
        Box::pin(
            self.line.change(move |connection, line| acting::go_on(connection, line, &id, JobState::Failed)),
        )
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Acted>> {
        let id = id.to_owned();
        Box::pin(self.line.change(move |connection, line| acting::remove(connection, line, &id)))
    }

    fn promote_all(&self) -> BoxFuture<'_, StoreResult<u64>> {
        Box::pin(self.all_go_on(JobState::Delayed))
    }

    fn retry_all(&self) -> BoxFuture<'_, StoreResult<u64>> {
        Box::pin(self.all_go_on(JobState::Failed))
    }

    fn clean(&self, state: JobState, older_than: Duration, limit: usize) -> BoxFuture<'_, StoreResult<u64>> {
        Box::pin(async move {
            if state == JobState::Active {
                return Err(StoreError::Refused("a job at work is not cleaned away".to_owned()));
            }
            let clean = move |connection: &mut SqliteConnection, line: &Line, most| {
                acting::clean(connection, line, state, older_than, most)
            };
            self.in_batches(limit, clean).await
        })
    }

    fn pause(&self) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.line.change(acting::pause))
    }

    fn resume(&self) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.line.change(acting::resume))
    }

    fn is_paused(&self) -> BoxFuture<'_, StoreResult<bool>> {
        Box::pin(self.line.read(reads::is_paused))
    }

    fn put_schedule(&self, schedule: NewSchedule) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.line.change(move |connection, line| schedules::put(connection, line, &schedule)))
    }

    fn schedules(&self) -> BoxFuture<'_, StoreResult<Vec<ScheduleRecord>>> {
        Box::pin(self.line.read(schedules::list))
    }

    fn remove_schedule<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<bool>> {
        let id = id.to_owned();
        Box::pin(self.line.change(move |connection, line| schedules::remove(connection, line, &id)))
    }

    fn work(&self, concurrency: u32, processor: Arc<dyn JobProcessor>) -> Box<dyn RunningWorker> {
        Box::new(worker::start(self.line.clone(), concurrency, processor))
    }
}

impl SqliteQueue {
    /// Those of a state, as many as there are now: what comes back into it meanwhile does not go on twice.
    async fn all_go_on(&self, from: JobState) -> StoreResult<u64> {
        let there = self.counts().await?.of(from);
        let go_on = move |connection: &mut SqliteConnection, line: &Line, most| {
            acting::all_go_on(connection, line, from, most)
        };
        self.in_batches(usize::try_from(there).unwrap_or(usize::MAX), go_on).await
    }

    /// Does something to at most `limit` jobs, a batch at a time. Returns to how many.
    async fn in_batches(
        &self,
        limit: usize,
        act: impl Fn(&mut SqliteConnection, &Line, usize) -> JobResult<usize> + Copy + Send + 'static,
    ) -> StoreResult<u64> {
        let mut left = limit;
        while left > 0 {
            let most = left.min(BATCH);
            let done = self.line.change(move |connection, line| act(connection, line, most)).await?;
            left -= done.min(left);
            if done < most {
                break;
            }
        }
        Ok((limit - left) as u64)
    }
}
