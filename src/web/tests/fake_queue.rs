//! A queue in memory, as far as an operator sees one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use serde_json::json;

use crate::domain::job::{JobState, QueueSpec};
use crate::ports::job_queue::{
    Acted, JobCounts, JobProcessor, JobQueue, JobQueues, JobRecord, NewJob, NewSchedule, RunningWorker,
    ScheduleRecord,
};
use crate::ports::{StoreError, StoreResult};
use crate::workers::QueueSet as _;
use crate::workers::queues::Queue;

pub(super) struct FakeQueue {
    spec: &'static QueueSpec,
    pub(super) inside: Mutex<Inside>,
}

#[derive(Default)]
pub(super) struct Inside {
    pub(super) jobs: Vec<JobRecord>,
    pub(super) logs: Vec<String>,
    pub(super) schedules: Vec<ScheduleRecord>,
    pub(super) paused: bool,
    pub(super) away: bool,
}

/// The queues of the service; the heavy one is this.
pub(super) struct FakeQueues(pub(super) Arc<FakeQueue>);

impl JobQueues for FakeQueues {
    fn queue(&self, spec: &'static QueueSpec) -> Arc<dyn JobQueue> {
        if spec.name == self.0.spec.name {
            self.0.clone()
        } else {
            Arc::new(FakeQueue { spec, inside: Mutex::default() })
        }
    }
}

impl FakeQueue {
    pub(super) fn new(queue: Queue) -> Arc<Self> {
        Arc::new(Self { spec: queue.spec(), inside: Mutex::default() })
    }

    /// Does it now, or not at all.
    fn ask<'a, T: Send + 'a>(&self, work: impl FnOnce(&mut Inside) -> T) -> BoxFuture<'a, StoreResult<T>> {
        let mut inside = self.inside.lock().unwrap();
        let away = inside.away.then(|| StoreError::Unavailable("redis is away".to_owned()));
        ready(match away {
            Some(err) => Err(err),
            None => Ok(work(&mut inside)),
        })
        .boxed()
    }

    /// A job that can do this in that state only.
    fn act<'a>(
        &self,
        id: &str,
        from: impl Fn(JobState) -> bool,
        act: impl FnOnce(&mut Vec<JobRecord>, usize),
    ) -> BoxFuture<'a, StoreResult<Acted>> {
        self.ask(|inside| {
            let Some(at) = inside.jobs.iter().position(|job| job.id == id) else { return Acted::NotFound };
            let job = &inside.jobs[at];
            if job.schedule.is_some() {
                return Acted::OfSchedule;
            }
            if !from(job.state) {
                return Acted::Not(job.state);
            }
            act(&mut inside.jobs, at);
            Acted::Done
        })
    }

    fn move_all<'a>(&self, from: JobState) -> BoxFuture<'a, StoreResult<u64>> {
        self.ask(|inside| {
            let jobs = inside.jobs.iter_mut().filter(|job| job.state == from);
            jobs.map(|job| job.state = JobState::Waiting).count() as u64
        })
    }
}

pub(super) fn job(id: &str, state: JobState) -> JobRecord {
    JobRecord {
        id: id.to_owned(),
        name: "RETRY".to_owned(),
        data: json!({ "client": "acme" }),
        state,
        attempts_made: 2,
        attempts: 5,
        priority: 0,
        created_ms: 1,
        started_ms: None,
        finished_ms: None,
        due_ms: None,
        reason: Some("status_503".to_owned()),
        result: None,
        progress: None,
        schedule: None,
    }
}

impl JobQueue for FakeQueue {
    fn spec(&self) -> &'static QueueSpec {
        self.spec
    }

    fn add(&self, new: NewJob) -> BoxFuture<'_, StoreResult<()>> {
        self.ask(move |inside| {
            if inside.jobs.iter().all(|known| known.id != new.id.as_str()) {
                inside.jobs.push(job(new.id.as_str(), JobState::Waiting));
            }
        })
    }

    fn add_bulk(&self, _: Vec<NewJob>) -> BoxFuture<'_, StoreResult<()>> {
        panic!("not for the http side")
    }

    fn counts(&self) -> BoxFuture<'_, StoreResult<JobCounts>> {
        self.ask(|inside| {
            let of = |state| inside.jobs.iter().filter(|job| job.state == state).count() as u64;
            JobCounts {
                waiting: of(JobState::Waiting),
                prioritized: of(JobState::Prioritized),
                active: of(JobState::Active),
                delayed: of(JobState::Delayed),
                completed: of(JobState::Completed),
                failed: of(JobState::Failed),
            }
        })
    }

    fn oldest_waiting(&self) -> BoxFuture<'_, StoreResult<Option<Duration>>> {
        self.ask(|_| Some(Duration::from_millis(1_500)))
    }

    fn job<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Option<JobRecord>>> {
        self.ask(|inside| inside.jobs.iter().find(|job| job.id == id).cloned())
    }

    fn jobs(
        &self,
        state: JobState,
        offset: usize,
        limit: usize,
    ) -> BoxFuture<'_, StoreResult<Vec<JobRecord>>> {
        self.ask(|inside| {
            let jobs = inside.jobs.iter().filter(|job| job.state == state);
            jobs.skip(offset).take(limit).cloned().collect()
        })
    }

    fn logs<'a>(&'a self, _: &'a str) -> BoxFuture<'a, StoreResult<Vec<String>>> {
        self.ask(|inside| inside.logs.clone())
    }

    fn promote<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Acted>> {
        self.act(id, |state| state == JobState::Delayed, |jobs, at| jobs[at].state = JobState::Waiting)
    }

    fn retry<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Acted>> {
        self.act(id, |state| state == JobState::Failed, |jobs, at| jobs[at].state = JobState::Waiting)
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<Acted>> {
        self.act(id, |state| state != JobState::Active, |jobs, at| drop(jobs.remove(at)))
    }

    fn promote_all(&self) -> BoxFuture<'_, StoreResult<u64>> {
        self.move_all(JobState::Delayed)
    }

    fn retry_all(&self) -> BoxFuture<'_, StoreResult<u64>> {
        self.move_all(JobState::Failed)
    }

    fn clean(&self, state: JobState, _: Duration, limit: usize) -> BoxFuture<'_, StoreResult<u64>> {
        self.ask(|inside| {
            let before = inside.jobs.len();
            let mut left = limit;
            inside.jobs.retain(|job| {
                let goes = job.state == state && left > 0;
                left -= usize::from(goes);
                !goes
            });
            (before - inside.jobs.len()) as u64
        })
    }

    fn pause(&self) -> BoxFuture<'_, StoreResult<()>> {
        self.ask(|inside| inside.paused = true)
    }

    fn resume(&self) -> BoxFuture<'_, StoreResult<()>> {
        self.ask(|inside| inside.paused = false)
    }

    fn is_paused(&self) -> BoxFuture<'_, StoreResult<bool>> {
        self.ask(|inside| inside.paused)
    }

    fn put_schedule(&self, _: NewSchedule) -> BoxFuture<'_, StoreResult<()>> {
        panic!("not for the http side")
    }

    fn schedules(&self) -> BoxFuture<'_, StoreResult<Vec<ScheduleRecord>>> {
        self.ask(|inside| inside.schedules.clone())
    }

    fn remove_schedule<'a>(&'a self, id: &'a str) -> BoxFuture<'a, StoreResult<bool>> {
        self.ask(|inside| {
            let before = inside.schedules.len();
            inside.schedules.retain(|schedule| schedule.id != id);
            inside.schedules.len() < before
        })
    }

    fn work(&self, _: u32, _: Arc<dyn JobProcessor>) -> Box<dyn RunningWorker> {
        panic!("not for the http side")
    }
}
