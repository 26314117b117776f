//! The queue of jobs: as much of its contract as the service's own jobs use. It may be emptied at any moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dispatcher::domain::job::{JobState, QueueSpec};
use dispatcher::ports::job_queue::{
    Acted, JobCounts, JobEvent, JobOutcome, JobProcessor, JobQueue, JobQueues, JobRecord, JobVoice, NewJob,
    NewSchedule, RunningWorker, ScheduleRecord, TakenJob,
};
use dispatcher::ports::{BoxFuture, StoreResult};
use serde_json::Value;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::Medium;

/// How long a worker that was not heard of keeps a job.
const LOCK: Duration = Duration::from_secs(30);

/// How often a worker looks for jobs.
const LOOK: Duration = Duration::from_millis(500);

/// The jobs of the queue `dispatcher`.
#[derive(Default)]
pub(crate) struct Jobs {
    jobs: BTreeMap<String, Job>,
    tokens: u64,
}

struct Job {
    record: JobRecord,
    /// Who has it, and until when.
    lock: Option<(u64, i64)>,
}

impl Jobs {
    /// Everything is gone.
    pub(crate) fn wipe(&mut self) {
        self.jobs.clear();
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.jobs.contains_key(id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// For people: every job.
    pub(crate) fn describe(&self) -> String {
        let job = |(id, job): (&String, &Job)| {
            let JobRecord { state, due_ms, reason, .. } = &job.record;
            format!("{id} {state} due {due_ms:?} reason {reason:?} lock {:?}", job.lock)
        };
        self.jobs.iter().map(job).collect::<Vec<_>>().join(", ")
    }

    fn add(&mut self, new: NewJob, attempts: u32, now_ms: i64) {
        let delay_ms = new.delay.as_millis() as i64;
        let record = JobRecord {
            id: new.id.as_str().to_owned(),
            name: new.name,
            data: new.data,
            state: if delay_ms > 0 { JobState::Delayed } else { JobState::Waiting },
            attempts_made: 0,
            attempts,
            priority: new.priority,
            created_ms: now_ms,
            started_ms: None,
            finished_ms: None,
            due_ms: Some(now_ms + delay_ms).filter(|_| delay_ms > 0),
            reason: None,
            result: None,
            progress: None,
            schedule: None,
        };
        self.jobs.entry(record.id.clone()).or_insert(Job { record, lock: None });
    }

    /// A job that may run, with the token of who has it now.
    fn take(&mut self, now_ms: i64) -> Option<(JobRecord, u64)> {
        let may_run = |job: &Job| match job.record.state {
            JobState::Delayed => job.record.due_ms.is_some_and(|due_ms| due_ms <= now_ms),
            JobState::Active => job.lock.is_none_or(|(_, until_ms)| until_ms <= now_ms),
            _ => true,
        };
        let job = self.jobs.values_mut().find(|job| may_run(job))?;
        self.tokens += 1;
        job.lock = Some((self.tokens, now_ms + LOCK.as_millis() as i64));
        job.record.state = JobState::Active;
        job.record.started_ms = Some(now_ms);
        job.record.due_ms = None;
        Some((job.record.clone(), self.tokens))
    }

    fn held(&mut self, id: &str, token: u64) -> Option<&mut Job> {
        self.jobs.get_mut(id).filter(|job| job.lock.is_some_and(|(held, _)| held == token))
    }

    fn renew(&mut self, id: &str, token: u64, now_ms: i64) -> bool {
        let Some(job) = self.held(id, token) else { return false };
        job.lock = Some((token, now_ms + LOCK.as_millis() as i64));
        true
    }

    /// An attempt ended. Who ended is free at once.
    fn ended(&mut self, id: &str, token: u64, outcome: &JobOutcome, now_ms: i64) {
        let Some(job) = self.held(id, token) else { return };
        let after = match outcome {
            JobOutcome::Later { after } => *after,
            JobOutcome::Retry { reason, after } if job.record.attempts_made + 1 < job.record.attempts => {
                job.record.attempts_made += 1;
                job.record.reason = Some(reason.clone());
                *after
            }
            JobOutcome::Retry { .. } | JobOutcome::Completed(_) | JobOutcome::Failed { .. } => {
                self.jobs.remove(id);
                return;
            }
        };
        job.lock = None;
        job.record.state = JobState::Delayed;
        job.record.due_ms = Some(now_ms + after.as_millis() as i64);
    }

    fn act(&mut self, id: &str, act: impl FnOnce(&mut Self) -> Acted) -> Acted {
        if self.has(id) { act(self) } else { Acted::NotFound }
    }

    /// Whether a job is being done.
    pub(crate) fn is_active(&self, id: &str) -> bool {
        self.jobs.get(id).is_some_and(|job| job.record.state == JobState::Active)
    }

    /// When a job that waits is due, milliseconds since 1970.
    pub(crate) fn due_ms(&self, id: &str) -> Option<i64> {
        self.jobs.get(id)?.record.due_ms
    }

    /// How often a job failed.
    pub(crate) fn attempts(&self, id: &str) -> u32 {
        self.jobs.get(id).map_or(0, |job| job.record.attempts_made)
    }

    /// Why a job failed last.
    pub(crate) fn reason(&self, id: &str) -> Option<String> {
        self.jobs.get(id)?.record.reason.clone()
    }

    pub(crate) fn promote(&mut self, id: &str) -> Acted {
        self.act(id, |jobs| {
            let record = &mut jobs.jobs.get_mut(id).unwrap().record;
            if record.state != JobState::Delayed {
                return Acted::Not(record.state);
            }
            (record.state, record.due_ms) = (JobState::Waiting, None);
            Acted::Done
        })
    }

    fn remove(&mut self, id: &str) -> Acted {
        self.act(id, |jobs| match jobs.jobs[id].record.state {
            JobState::Active => Acted::Not(JobState::Active),
            _ => {
                jobs.jobs.remove(id);
                Acted::Done
            }
        })
    }
}

/// The queues as one process sees them: the other ones are nobody's business here.
pub(crate) struct MemoryQueues(pub(crate) Arc<Medium<Jobs>>);

impl JobQueues for MemoryQueues {
    fn queue(&self, spec: &'static QueueSpec) -> Arc<dyn JobQueue> {
        Arc::new(MemoryQueue { medium: self.0.clone(), spec })
    }
}

#[derive(Clone)]
struct MemoryQueue {
    medium: Arc<Medium<Jobs>>,
    spec: &'static QueueSpec,
}

impl MemoryQueue {
    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Jobs, i64) -> T + Send + 'static,
    ) -> BoxFuture<'static, StoreResult<T>> {
        let medium = self.medium.clone();
        Box::pin(async move {
            let clock = medium.clone();
            medium.write(move |jobs| work(jobs, clock.now_ms())).await
        })
    }
}

fn nobody_asks<T>() -> BoxFuture<'static, T> {
    panic!("no actor asks this")
}

impl JobQueue for MemoryQueue {
    fn spec(&self) -> &'static QueueSpec {
        self.spec
    }

    fn add(&self, job: NewJob) -> BoxFuture<'_, StoreResult<()>> {
        self.add_bulk(vec![job])
    }

    fn add_bulk(&self, jobs: Vec<NewJob>) -> BoxFuture<'_, StoreResult<()>> {
        let attempts = self.spec.attempts;
        self.write(move |all, now_ms| jobs.into_iter().for_each(|job| all.add(job, attempts, now_ms)))
    }

    fn counts(&self) -> BoxFuture<'_, StoreResult<JobCounts>> {
        nobody_asks()
    }

    fn oldest_waiting(&self) -> BoxFuture<'_, StoreResult<Option<Duration>>> {
        nobody_asks()
    }

    fn job<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Option<JobRecord>>> {
        let id = id.to_owned();
        Box::pin(self.medium.read(move |jobs| jobs.jobs.get(&id).map(|job| job.record.clone())))
    }

    fn jobs(
        &self,
        state: JobState,
        offset: usize,
        limit: usize,
    ) -> BoxFuture<'_, StoreResult<Vec<JobRecord>>> {
        Box::pin(self.medium.read(move |jobs| {
            let records = jobs.jobs.values().map(|job| &job.record).filter(|record| record.state == state);
            records.skip(offset).take(limit).cloned().collect()
        }))
    }

    fn logs<'a>(&'a self, _: &'a str) -> BoxFuture<'a, StoreResult<Vec<String>>> {
        nobody_asks()
    }

    fn promote<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Acted>> {
        let id = id.to_owned();
        self.write(move |jobs, _| jobs.promote(&id))
    }

    fn retry<'a>(&'a self, _: &'a str) -> BoxFuture<'a, StoreResult<Acted>> {
        nobody_asks()
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Acted>> {
        let id = id.to_owned();
        self.write(move |jobs, _| jobs.remove(&id))
    }

    fn promote_all(&self) -> BoxFuture<'_, StoreResult<u64>> {
        nobody_asks()
    }

    fn retry_all(&self) -> BoxFuture<'_, StoreResult<u64>> {
        nobody_asks()
    }

    fn clean(&self, _: JobState, _: Duration, _: usize) -> BoxFuture<'_, StoreResult<u64>> {
        nobody_asks()
    }

    fn pause(&self) -> BoxFuture<'_, StoreResult<()>> {
        nobody_asks()
    }

    fn resume(&self) -> BoxFuture<'_, StoreResult<()>> {
        nobody_asks()
    }

    fn is_paused(&self) -> BoxFuture<'_, StoreResult<bool>> {
        nobody_asks()
    }

    fn put_schedule(&self, _: NewSchedule) -> BoxFuture<'_, StoreResult<()>> {
        nobody_asks()
    }

    fn schedules(&self) -> BoxFuture<'_, StoreResult<Vec<ScheduleRecord>>> {
        nobody_asks()
    }

    fn remove_schedule<'a>(&'a self, _: &'a str) -> BoxFuture<'a, StoreResult<bool>> {
        nobody_asks()
    }

    fn work(&self, concurrency: u32, processor: Arc<dyn JobProcessor>) -> Box<dyn RunningWorker> {
        Box::new(Worker(tokio::spawn(take_jobs(self.clone(), concurrency as usize, processor))))
    }
}

async fn take_jobs(queue: MemoryQueue, concurrency: usize, processor: Arc<dyn JobProcessor>) {
    let mut running = JoinSet::new();
    loop {
        while running.try_join_next().is_some() {}
        if running.len() < concurrency
            && let Ok(Some((record, token))) = queue.write(Jobs::take).await
        {
            running.spawn(attempt(queue.clone(), record, token, processor.clone()));
        } else {
            tokio::time::sleep(LOOK).await;
        }
    }
}

async fn attempt(queue: MemoryQueue, record: JobRecord, token: u64, processor: Arc<dyn JobProcessor>) {
    let id = record.id.clone();
    let voice = Voice { queue: queue.clone(), id: id.clone(), token };
    let job = TakenJob {
        id: record.id,
        name: record.name,
        data: record.data,
        attempts_made: record.attempts_made,
        attempts: record.attempts,
        tick_ms: None,
        voice: Arc::new(voice),
    };
    let lost = keep_lock(&queue, &id, token);
    let outcome = tokio::select! {
        outcome = processor.process(job) => outcome,
        () = lost => return processor.happened(JobEvent::Lost { id }),
    };
    // Not told, another takes it over when the lock ends.
    for _ in 0..20 {
        let (id, outcome) = (id.clone(), outcome.clone());
        if queue.write(move |jobs, now_ms| jobs.ended(&id, token, &outcome, now_ms)).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Comes back when the job is another's, or may be.
async fn keep_lock(queue: &MemoryQueue, id: &str, token: u64) {
    let mut held = Instant::now();
    loop {
        tokio::time::sleep(LOCK / 6).await;
        let (asked, id) = (Instant::now(), id.to_owned());
        match queue.write(move |jobs, now_ms| jobs.renew(&id, token, now_ms)).await {
            Ok(true) => held = asked,
            Ok(false) => return,
            Err(_) if held.elapsed() >= LOCK => return,
            Err(_) => {}
        }
    }
}

struct Voice {
    queue: MemoryQueue,
    id: String,
    token: u64,
}

impl JobVoice for Voice {
    fn log(&self, _: String) -> BoxFuture<'_, StoreResult<()>> {
        self.queue.write(|_, _| ())
    }

    fn progress(&self, progress: Value) -> BoxFuture<'_, StoreResult<()>> {
        let (id, token) = (self.id.clone(), self.token);
        self.queue.write(move |jobs, _| {
            if let Some(job) = jobs.held(&id, token) {
                job.record.progress = Some(progress);
            }
        })
    }
}

struct Worker(JoinHandle<()>);

impl RunningWorker for Worker {
    fn active(&self) -> usize {
        panic!("no actor asks this")
    }

    fn stop(&self, _: Duration) -> BoxFuture<'_, ()> {
        self.0.abort();
        Box::pin(std::future::ready(()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.abort();
    }
}
