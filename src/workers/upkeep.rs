//! What the clock starts, to keep the stores in order.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::queues::{PurgeAudit, PurgeStash, ReconcileConfigs, ScheduleJob};
use super::{Exclusive, Handled, JobContext, JobFailure, JobHandler, Run, Schedule};
use crate::domain::job::{Cadence, CadenceError};
use crate::ports::audit::AuditLog;
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
pub fn schedules() -> Result<[Schedule<ScheduleJob>; 3], CadenceError> {
    Ok([
        Schedule {
            id: "purge-stash",
            cadence: Cadence::cron("30 3 * * *", "UTC")?,
            job: PurgeStash {}.into(),
            lock_ttl: PURGE_LEASE,
        },
        Schedule {
            id: "purge-audit",
            cadence: Cadence::cron("45 3 * * *", "UTC")?,
            job: PurgeAudit {}.into(),
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
    /// Where it stands what operators did.
    pub audit: Arc<dyn AuditLog>,
    /// How long that is kept.
    pub audit_retention: Duration,
    /// Reading writes the copies.
    pub reload_configs: ReloadConfigs,
    /// One replica does it at a time.
    pub exclusive: Exclusive,
}

impl Upkeep {
    async fn purge_stash(&self) -> Result<Handled, JobFailure> {
        let purged = &self.exclusive.metrics.stash_purged;
        by_parts(|| self.stash.purge(self.stash_ttl, PART), |rows| purged.inc_by(rows)).await
    }

    async fn purge_audit(&self) -> Result<Handled, JobFailure> {
        by_parts(|| self.audit.purge(self.audit_retention, PART), |_| {}).await
    }
}

/// Removes a part after the other, until one is not full.
async fn by_parts<'a>(
    purge: impl Fn() -> BoxFuture<'a, StoreResult<u64>>,
    count: impl Fn(u64),
) -> Result<Handled, JobFailure> {
    let mut rows = 0;
    for _ in 0..PARTS {
        let purged = purge().await?;
        rows += purged;
        count(purged);
        if purged < PART as u64 {
            return Ok(Handled::Done(json!({ "rows": rows })));
        }
    }
    Ok(Handled::Later(PAUSE))
}

impl JobHandler for Upkeep {
    type Jobs = ScheduleJob;

    fn handle(&self, job: ScheduleJob, _: JobContext) -> BoxFuture<'_, Result<Handled, JobFailure>> {
        Box::pin(async move {
            let run = match job {
                ScheduleJob::PurgeStash(PurgeStash {}) => {
                    self.exclusive.run("purge-stash", PURGE_LEASE, async |_| self.purge_stash().await).await?
                }
                ScheduleJob::PurgeAudit(PurgeAudit {}) => {
                    self.exclusive.run("purge-audit", PURGE_LEASE, async |_| self.purge_audit().await).await?
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
