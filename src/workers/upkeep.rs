//! What the clock starts, to keep the stores in order.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::queues::{PurgeStash, ReconcileConfigs, ScheduleJob};
use super::{Exclusive, Handled, JobContext, JobFailure, JobHandler, Run, Schedule};
use crate::domain::job::{Cadence, CadenceError};
use crate::ports::stash::Stash;
use crate::ports::{BoxFuture, StoreResult};

/// How long a holder that was lost keeps the others from it.
const PURGE_LEASE: Duration = Duration::from_secs(10 * 60);
const RECONCILE_LEASE: Duration = Duration::from_secs(60);
/// Rows that one write removes: deliveries wait so long for their turn.
const PART: usize = 500;
/// Parts of one attempt; it goes on with the same job.
const PARTS: usize = 200;
/// Between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// The schedules of the service.
///
/// # Errors
/// A mistake in this table.
pub fn schedules() -> Result<[Schedule<ScheduleJob>; 2], CadenceError> {
    Ok([
        Schedule {
            id: "purge-stash",
            cadence: Cadence::cron("30 3 * * *", "UTC")?,
            job: PurgeStash {}.into(),
            lock_ttl: PURGE_LEASE,
        },
        Schedule {
            id: "reconcile-configs",
            cadence: Cadence::every(Duration::from_secs(5 * 60))?,
            job: ReconcileConfigs {}.into(),
            lock_ttl: RECONCILE_LEASE,
        },
    ])
}

/// Reads all configs again, from where they are kept.
pub type ReloadConfigs = Arc<dyn Fn() -> BoxFuture<'static, StoreResult<()>> + Send + Sync>;

/// Does the jobs of `dispatcher-schedule`.
pub struct Upkeep {
    /// Where rows grow old.
    pub stash: Arc<dyn Stash>,
    /// How long those are kept that were given up.
    pub stash_ttl: Duration,
    /// Reading writes the copies.
    pub reload_configs: ReloadConfigs,
    /// One replica does it at a time.
    pub exclusive: Exclusive,
}

impl Upkeep {
    async fn purge(&self) -> Result<Handled, JobFailure> {
        let mut rows = 0;
        for _ in 0..PARTS {
            let purged = self.stash.purge(self.stash_ttl, PART).await?;
            rows += purged;
            self.exclusive.metrics.stash_purged.inc_by(purged);
            if purged < PART as u64 {
                return Ok(Handled::Done(json!({ "rows": rows })));
            }
        }
        Ok(Handled::Later(PAUSE))
    }
}

impl JobHandler for Upkeep {
    type Jobs = ScheduleJob;

    fn handle(&self, job: ScheduleJob, _: JobContext) -> BoxFuture<'_, Result<Handled, JobFailure>> {
        Box::pin(async move {
            let run = match job {
                ScheduleJob::PurgeStash(PurgeStash {}) => {
                    self.exclusive.run("purge-stash", PURGE_LEASE, async |_| self.purge().await).await?
                }
                ScheduleJob::ReconcileConfigs(ReconcileConfigs {}) => {
                    let reload = async |_| {
                        (self.reload_configs)().await?;
                        Ok(Handled::DONE)
                    };
                    self.exclusive.run("reconcile-configs", RECONCILE_LEASE, reload).await?
                }
            };
            match run {
                Run::Ran(ended) => ended,
                Run::Skipped => Ok(Handled::Done(Value::from("skipped"))),
                Run::Lost => Err(JobFailure::again("its lease was lost")),
            }
        })
    }
}
