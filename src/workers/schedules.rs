//! Jobs that the clock adds: one table, which the store follows.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;

use super::{Jobs, OpenQueues};
use crate::domain::job::{Cadence, JobId};
use crate::ports::StoreResult;
use crate::ports::job_queue::{JobQueue, NewSchedule};

/// The store may have lost a schedule, or its next job: it is back within a minute, however long the store takes.
const AGAIN: Duration = Duration::from_secs(50);
/// A store that is away is asked again after this.
const PAUSE: Duration = Duration::from_secs(1);

/// One line of the table.
#[derive(Debug, Clone)]
pub struct Schedule<J> {
    /// Who it is.
    pub id: &'static str,
    /// When.
    pub cadence: Cadence,
    /// What.
    pub job: J,
    /// For how long the lease holds under which its handler runs: shorter than its shortest distance, so that a holder that is lost
    /// costs no tick.
    pub lock_ttl: Duration,
}

/// A mistake in the table.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// The id is none, or is given twice.
    #[error("schedule '{0}': not an id, or given twice")]
    Id(&'static str),
    /// The lease would outlast a tick.
    #[error("schedule '{id}': lock_ttl {ttl:?} is not shorter than its shortest distance {gap:?}")]
    LockTtl {
        /// Of which.
        id: &'static str,
        /// As it was given.
        ttl: Duration,
        /// The shortest distance between two ticks.
        gap: Duration,
    },
    /// The payload is nothing that JSON can hold.
    #[error("schedule '{id}': {err}")]
    Payload {
        /// Of which.
        id: &'static str,
        /// Why.
        err: serde_json::Error,
    },
}

/// All schedules of a queue.
pub struct ScheduleTable {
    queue: Arc<dyn JobQueue>,
    schedules: Vec<NewSchedule>,
}

/// Stops keeping when it is dropped.
pub struct KeptSchedules(AbortHandle);

impl Drop for KeptSchedules {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ScheduleTable {
    /// Checks the table. `now_ms`: milliseconds since 1970; distances are looked at from there on.
    ///
    /// # Errors
    /// When a line has a mistake.
    pub fn new<J: Jobs>(
        queues: &OpenQueues<J::Queues>,
        table: &[Schedule<J>],
        now_ms: i64,
    ) -> Result<Self, ScheduleError> {
        let mut schedules: Vec<NewSchedule> = Vec::new();
        for Schedule { id, cadence, job, lock_ttl } in table {
            if JobId::parse(id).is_err() || schedules.iter().any(|other| other.id == *id) {
                return Err(ScheduleError::Id(id));
            }
            let gap = cadence.shortest_gap(now_ms);
            if lock_ttl.is_zero() || *lock_ttl >= gap {
                return Err(ScheduleError::LockTtl { id, ttl: *lock_ttl, gap });
            }
            let data = job.data().map_err(|err| ScheduleError::Payload { id, err })?;
            let (id, name) = ((*id).to_owned(), job.name().to_owned());
            schedules.push(NewSchedule { id, cadence: cadence.clone(), name, data });
        }
        Ok(Self { queue: queues.get(J::QUEUE).clone(), schedules })
    }

    /// Puts every line. Those that stand already go on undisturbed.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn put(&self) -> StoreResult<()> {
        for schedule in &self.schedules {
            self.queue.put_schedule(schedule.clone()).await?;
        }
        Ok(())
    }

    /// Removes what is not in the table.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn remove_stale(&self) -> StoreResult<()> {
        for stands in self.queue.schedules().await? {
            if !self.schedules.iter().any(|schedule| schedule.id == stands.id) {
                log::info!("schedule removed id={} queue={}", stands.id, self.queue.spec().name);
                self.queue.remove_schedule(&stands.id).await?;
            }
        }
        Ok(())
    }

    /// Has the store follow the table: at once, and then within each minute. Stale ones are removed once: while versions change, an old
    /// replica must not go on removing what a new one puts.
    pub fn keep(self) -> KeptSchedules {
        let task = tokio::spawn(async move {
            let mut is_first = true;
            let mut said = false;
            loop {
                let pause = match self.follow(is_first).await {
                    Ok(()) => {
                        (is_first, said) = (false, false);
                        AGAIN
                    }
                    Err(err) => {
                        if !said {
                            log::warn!("schedules not put err={err} queue={}", self.queue.spec().name);
                            said = true;
                        }
                        if err.is_transient() { PAUSE } else { AGAIN }
                    }
                };
                tokio::time::sleep(pause).await;
            }
        });
        KeptSchedules(task.abort_handle())
    }

    async fn follow(&self, is_first: bool) -> StoreResult<()> {
        if is_first {
            self.remove_stale().await?;
        }
        self.put().await
    }
}
