//! Adding jobs.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::running::is_running;
use super::{Jobs, OpenQueues, QueueSet};
use crate::domain::job::JobId;
use crate::ports::job_queue::NewJob;
use crate::ports::{BoxFuture, StoreError, StoreResult};

/// Why a job was not added.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// The handler of a job adds that same job: the store has it already, and would drop it.
    #[error("job '{0}' cannot add itself while it runs: end with Handled::Later to go on")]
    OwnId(JobId),
    /// The payload is nothing that JSON can hold.
    #[error("payload: {0}")]
    Payload(#[from] serde_json::Error),
    /// The store did not take it, also when it was asked again.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// When a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct When {
    /// Not before this time has passed.
    pub delay: Duration,
    /// 0 first, then 1, and so on up to 2,097,152.
    pub priority: u32,
}

/// Adds jobs to the queues of a set.
pub struct Producer<Q> {
    queues: Option<OpenQueues<Q>>,
}

/// An answer takes at most this.
const ANSWER: Duration = Duration::from_secs(5);
/// So often a store that is away is asked.
const TRIES: u32 = 3;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(300);

impl<Q: QueueSet> Producer<Q> {
    /// Adds to these.
    pub fn new(queues: OpenQueues<Q>) -> Self {
        Self { queues: Some(queues) }
    }

    /// Adds nothing, and says that it did: for tools that have no queue.
    pub fn none() -> Self {
        Self { queues: None }
    }

    /// Adds a job that runs as soon as a worker is free. When there is one with its id already, that is the one.
    ///
    /// # Errors
    /// When it could not be added. The store may have it all the same: the id makes asking again harmless.
    pub async fn add<J: Jobs<Queues = Q>>(&self, job: impl Into<J>) -> Result<JobId, AddError> {
        self.add_when(job, When::default()).await
    }

    /// Adds a job that is delayed or has a priority.
    ///
    /// # Errors
    /// As [`Producer::add`].
    pub async fn add_when<J: Jobs<Queues = Q>>(
        &self,
        job: impl Into<J>,
        when: When,
    ) -> Result<JobId, AddError> {
        let new = new_job(&job.into(), when)?;
        let id = new.id.clone();
        if let Some(queues) = &self.queues {
            let queue = queues.get(J::QUEUE);
            patiently(|| queue.add(new.clone())).await?;
        }
        Ok(id)
    }

    /// Adds several jobs of one queue. An error may have added some.
    ///
    /// # Errors
    /// As [`Producer::add`].
    pub async fn add_bulk<J: Jobs<Queues = Q>>(&self, jobs: &[J]) -> Result<Vec<JobId>, AddError> {
        self.add_new(J::QUEUE, jobs.iter().map(|job| new_job(job, When::default()))).await
    }

    /// Adds several jobs of one queue, each when it is due. An error may have added some.
    ///
    /// # Errors
    /// As [`Producer::add`].
    pub async fn add_each<J: Jobs<Queues = Q>>(&self, jobs: &[(J, When)]) -> Result<Vec<JobId>, AddError> {
        self.add_new(J::QUEUE, jobs.iter().map(|(job, when)| new_job(job, *when))).await
    }

    async fn add_new(
        &self,
        queue: Q,
        jobs: impl Iterator<Item = Result<NewJob, AddError>>,
    ) -> Result<Vec<JobId>, AddError> {
        let new: Vec<NewJob> = jobs.collect::<Result<_, _>>()?;
        if let Some(queues) = &self.queues {
            let queue = queues.get(queue);
            patiently(|| queue.add_bulk(new.clone())).await?;
        }
        Ok(new.into_iter().map(|job| job.id).collect())
    }
}

fn new_job<J: Jobs>(job: &J, when: When) -> Result<NewJob, AddError> {
    let id = job.id();
    if is_running(J::QUEUE.spec(), id.as_str()) {
        return Err(AddError::OwnId(id));
    }
    let data = job.data()?;
    Ok(NewJob { id, name: job.name().to_owned(), data, delay: when.delay, priority: when.priority })
}

/// An add whose answer was lost may have been stored; asked again, the id makes it one job.
async fn patiently<'a>(ask: impl Fn() -> BoxFuture<'a, StoreResult<()>>) -> StoreResult<()> {
    let mut tries = 1;
    loop {
        let answer = timeout(ANSWER, ask()).await;
        let answer =
            answer.unwrap_or_else(|_| Err(StoreError::Unavailable(format!("no answer within {ANSWER:?}"))));
        match answer {
            Err(err) if err.is_transient() && tries < TRIES => {
                tries += 1;
                sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
}
