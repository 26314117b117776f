//! Where heavy jobs are asked for. The row comes first: a queue that did not get the job, or lost it, has it soon.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;

use super::super::queues::{HeavyWork, Queue};
use super::super::{AddError, Jobs, OpenQueues, Producer, QueueSet};
use super::{Tell, ended};
use crate::domain::config::ClientId;
use crate::domain::heavy_job::{HeavyJob, HeavyState};
use crate::domain::job::{JobId, JobState, Retention};
use crate::ports::blocked_owners::BlockedOwners;
use crate::ports::clock::Clock;
use crate::ports::heavy_jobs::HeavyJobs;
use crate::ports::job_queue::JobQueue;
use crate::ports::{StoreError, StoreResult};

/// A queue that lost a job has it again within this.
const AGAIN: Duration = Duration::from_secs(5);

/// Why a job ended whose owner is blocked: done is done, and what was skipped meanwhile needs another one.
const BLOCKED: &str = "owner_blocked";

/// Takes heavy jobs.
#[derive(Clone)]
pub struct HeavyDesk {
    /// The truth about each.
    pub rows: Arc<dyn HeavyJobs>,
    /// Who does them.
    pub queues: OpenQueues<Queue>,
    /// Whose are not done.
    pub blocked: Arc<dyn BlockedOwners>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Hears of jobs that ended.
    pub tell: Tell,
}

/// Stops keeping when it is dropped.
pub struct KeptHeavyJobs(AbortHandle);

impl Drop for KeptHeavyJobs {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl HeavyDesk {
    /// Asks for a job. The one that is kept with the same parameters is the one; with `again` it is forgotten first, if it has ended. Jobs that
    /// ended are kept as long as the queue keeps theirs.
    ///
    /// # Errors
    /// When it is not kept.
    pub async fn start(&self, work: HeavyWork, again: bool) -> StoreResult<HeavyJob> {
        let id = work.id();
        let Retention::Dedup { age, count } = Queue::Heavy.spec().retention else {
            return Err(StoreError::Refused("the queue keeps no ids".to_owned()));
        };
        let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        self.rows.purge(self.clock.now_ms().saturating_sub(age_ms), count).await?;
        if again && self.rows.forget(&id).await? {
            log::info!("heavy job is begun anew job_id={id}");
        }
        let parameters = work.data().map_err(|err| StoreError::Refused(format!("payload: {err}")))?;
        let new = HeavyJob::new(id, work.client().clone(), work.name(), parameters, self.clock.now_ms());
        let row = self.rows.put(new).await?;
        if row.state == HeavyState::Open
            && let Err(err) = self.put_into_queue(&row).await
        {
            log::warn!("heavy job is kept, and put into its queue soon err={err} job_id={}", row.id);
        }
        Ok(row)
    }

    /// Ends an open job: what it has in hand is finished, and no more. `None`: there is no such job of the client. One that had ended is
    /// returned as it is.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn cancel(&self, client: &ClientId, id: &JobId) -> StoreResult<Option<HeavyJob>> {
        let Some(row) = self.rows.get(id).await?.filter(|row| row.client == *client) else { return Ok(None) };
        if self.end(&row, HeavyState::Cancelled, "an operator cancelled it").await?
            && let Err(err) = self.queue().remove(id.as_str()).await
        {
            // Whoever takes it sees that it has ended.
            log::debug!("job of a cancelled heavy job stays err={err} job_id={id}");
        }
        self.rows.get(id).await
    }

    /// Forgets a job of the client that has ended. `false`: it is open, or there is none.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn forget(&self, client: &ClientId, id: &JobId) -> StoreResult<bool> {
        match self.rows.get(id).await? {
            Some(row) if row.client == *client => self.rows.forget(id).await,
            Some(_) | None => Ok(false),
        }
    }

    /// Sees to it that the queue has all open jobs, and ends those that it gave up.
    ///
    /// # Errors
    /// When one of the stores is away.
    pub async fn put_back(&self) -> StoreResult<()> {
        for row in self.rows.open().await? {
            match self.put_into_queue(&row).await {
                // Another version's, and none that this queue will ever take: it must not hold up the others.
                Err(StoreError::Refused(why)) => {
                    self.end(&row, HeavyState::Failed, &why).await?;
                }
                answer => answer?,
            }
        }
        Ok(())
    }

    async fn put_into_queue(&self, row: &HeavyJob) -> StoreResult<()> {
        let id = row.id.as_str();
        let known = self.queue().job(id).await?;
        match known.as_ref().map(|job| job.state) {
            Some(JobState::Completed | JobState::Failed) => {}
            Some(_) => return Ok(()),
            None => return self.add(row).await,
        }
        // The row ends before its job does: read again, it is open only when the job ended without it.
        let still_open = self.rows.get(&row.id).await?.is_some_and(|row| row.state == HeavyState::Open);
        if !still_open {
            return Ok(());
        }
        if known.as_ref().is_some_and(|job| job.state == JobState::Failed) {
            let reason = known.and_then(|job| job.reason).unwrap_or_default();
            return self.end(row, HeavyState::Failed, &reason).await.map(drop);
        }
        if self.blocked.blocked(None, &row.client).await?.is_some() {
            return self.end(row, HeavyState::Cancelled, BLOCKED).await.map(drop);
        }
        // An earlier run of the same work, which the queue remembers longer than the store.
        self.queue().remove(id).await?;
        self.add(row).await
    }

    async fn add(&self, row: &HeavyJob) -> StoreResult<()> {
        let work = HeavyWork::read(&row.kind, row.parameters.clone());
        let work = work.map_err(|err| StoreError::Refused(format!("heavy job {}: {err}", row.id)))?;
        match Producer::new(self.queues.clone()).add::<HeavyWork>(work).await {
            Ok(_) => Ok(()),
            Err(AddError::Store(err)) => Err(err),
            Err(err) => Err(StoreError::Refused(err.to_string())),
        }
    }

    async fn end(&self, row: &HeavyJob, state: HeavyState, reason: &str) -> StoreResult<bool> {
        let now_ms = self.clock.now_ms();
        let ended_now = self.rows.turn(&row.id, HeavyState::Open, state, Some(reason), now_ms).await?;
        if ended_now {
            log::info!("heavy job ended state={state} reason={reason} job_id={}", row.id);
            let reason = Some(reason.to_owned());
            (self.tell)(ended(&HeavyJob { state, reason, updated_ms: now_ms, ..row.clone() }));
        }
        Ok(ended_now)
    }

    fn queue(&self) -> &Arc<dyn JobQueue> {
        self.queues.get(Queue::Heavy)
    }

    /// Does that at once, and then every 5 s.
    pub fn keep(self) -> KeptHeavyJobs {
        let task = tokio::spawn(async move {
            let mut said = false;
            loop {
                match self.put_back().await {
                    Ok(()) => said = false,
                    Err(err) if !said => {
                        log::warn!("heavy jobs not looked at err={err}");
                        said = true;
                    }
                    Err(_) => {}
                }
                tokio::time::sleep(AGAIN).await;
            }
        });
        KeptHeavyJobs(task.abort_handle())
    }
}
