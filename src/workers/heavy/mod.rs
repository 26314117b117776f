//! The jobs of `dispatcher-heavy`. The truth about each is its row in the store; the job in the queue is the kick.
//!
//! | file | what is in it |
//! |---|---|
//! | [`desk`] | asking for a job, ending it, and putting it back when the queue lost it |
//! | [`run`] | a row in somebody's hands: how far it is, written down under the lease |
//! | [`replay`] | sends again what is dead |
//! | [`resync`] | sends again what MongoDB has: the collections, page by page |
//! | [`rounds`] | the rule by which a resync never lets a copy go back |
//! | [`document`] | what a client gets of a document |

pub mod desk;
pub mod document;
pub mod replay;
pub mod resync;
pub mod rounds;
pub mod run;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

pub use self::desk::{HeavyDesk, KeptHeavyJobs};
pub use self::resync::ResyncSource;
use self::run::{HeavyRun, Stop, Turn};
use super::queues::HeavyWork;
use super::{Exclusive, Handled, JobContext, JobFailure, JobHandler, Jobs, Run};
use crate::domain::heavy_job::{HeavyJob, HeavyState};
use crate::domain::job::JobId;
use crate::domain::operational_event::{Happening, OperationalEvent};
use crate::ports::client_states::ClientStates;
use crate::ports::clock::Clock;
use crate::ports::event_log::EventLog;
use crate::ports::heavy_jobs::HeavyJobs;
use crate::ports::stash::Stash;
use crate::ports::{BoxFuture, StoreError, StoreResult};

/// How long a holder that was lost keeps the client's other heavy jobs, and its successor, from going on.
const LEASE: Duration = Duration::from_secs(10);

/// How long a job goes on before the guard and a pause of the queue are asked again.
const TURN: Duration = Duration::from_secs(20);

/// Between two turns.
const BREATH: Duration = Duration::from_millis(50);

/// While another heavy job of the client runs.
const BEHIND: Duration = Duration::from_secs(3);

/// While a store is away. Counts no attempt: an outage, however long, gives no job up.
const AWAY: Duration = Duration::from_secs(5);

/// The label of the leases, of which each client has one.
const LEASES: &str = "heavy";

/// Tells the operator of something.
pub type Tell = Arc<dyn Fn(OperationalEvent) + Send + Sync>;

/// Does the jobs of `dispatcher-heavy`.
pub struct HeavyWorker {
    /// The truth about each job.
    pub rows: Arc<dyn HeavyJobs>,
    /// Where dead letters are, and what waits.
    pub stash: Arc<dyn Stash>,
    /// Where everything goes that is sent again.
    pub log: Arc<dyn EventLog>,
    /// How much was dropped for each client: a resync makes it good.
    pub states: Arc<dyn ClientStates>,
    /// What a resync reads; `None`: there is no MongoDB.
    pub source: Option<ResyncSource>,
    /// While more than so many payloads wait for a client, its jobs add none.
    pub client_rows: u64,
    /// One job of a client at a time.
    pub exclusive: Exclusive,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Hears of jobs that ended.
    pub tell: Tell,
}

impl JobHandler for HeavyWorker {
    type Jobs = HeavyWork;

    fn handle(&self, work: HeavyWork, context: JobContext) -> BoxFuture<'_, Result<Handled, JobFailure>> {
        Box::pin(async move {
            let id = work.id();
            match self.turn(&work, &context).await {
                Err(StoreError::Unavailable(why)) => {
                    log::warn!("heavy job waits for a store err={why} job_id={id}");
                    Ok(Handled::Later(AWAY))
                }
                // It was ended meanwhile, or another holder goes on with it: the next look tells.
                Err(StoreError::Fenced(_)) => Ok(Handled::Later(BREATH)),
                Err(err @ StoreError::Refused(_)) => Err(JobFailure::never(err.to_string())),
                Ok(handled) => Ok(handled),
            }
        })
    }
}

impl HeavyWorker {
    async fn turn(&self, work: &HeavyWork, context: &JobContext) -> StoreResult<Handled> {
        let row = self.row(work).await?;
        if row.state != HeavyState::Open {
            return Ok(Handled::Done(json!(row.state.as_str())));
        }
        let key = JobId::of_client(LEASES, &row.client);
        let run = self
            .exclusive
            .run_as(LEASES, key.as_str(), LEASE, async |fence, held| {
                self.go_on(work, HeavyRun::new(row, fence, held, self.rows.clone(), self.clock.clone()), context).await
            });
        match run.await? {
            Run::Ran(ended) => ended,
            Run::Skipped => Ok(Handled::Later(BEHIND)),
            Run::Lost => Ok(Handled::Later(BREATH)),
        }
    }

    /// The row of a job. One that somebody else added to the queue gets its row now; one that was given up, and that an operator has tried
    /// again from a board, goes on.
    async fn row(&self, work: &HeavyWork) -> StoreResult<HeavyJob> {
        let refused = |err: serde_json::Error| StoreError::Refused(format!("payload: {err}"));
        let (id, now_ms) = (work.id(), self.clock.now_ms());
        let parameters = work.data().map_err(refused)?;
        let new = HeavyJob::new(id.clone(), work.client().clone(), work.name(), parameters, now_ms);
        let row = self.rows.put(new).await?;
        let reopened = row.state == HeavyState::Failed
            && self.rows.turn(&id, HeavyState::Failed, HeavyState::Open, None, now_ms).await?;
        Ok(if reopened { HeavyJob { state: HeavyState::Open, ..row } } else { row })
    }

    async fn go_on(
        &self,
        work: &HeavyWork,
        mut run: HeavyRun,
        context: &JobContext,
    ) -> StoreResult<Handled> {
        let until = Instant::now() + TURN;
        loop {
            let turn = match work {
                HeavyWork::Replay(replay) => self.replay(replay, &mut run).await,
                HeavyWork::Resync(resync) => self.resync(resync, &mut run, until).await,
            };
            // The queue may have lost the job, and its row has it all.
            let _shown_on_boards = context.progress(run.progress()).await;
            match turn {
                Ok(Turn::More) if Instant::now() < until => {}
                Ok(Turn::More) => return Ok(Handled::Later(BREATH)),
                Ok(Turn::Wait(time)) => return Ok(Handled::Later(time)),
                Ok(Turn::Done) => {
                    run.end(HeavyState::Done, None).await?;
                    self.told(&run.row);
                    return Ok(Handled::Done(run.progress()));
                }
                Err(Stop::Never(why)) => {
                    run.end(HeavyState::Failed, Some(&why)).await?;
                    self.told(&run.row);
                    return Err(StoreError::Refused(why));
                }
                Err(Stop::Store(err @ StoreError::Refused(_))) => {
                    run.end(HeavyState::Failed, Some(&err.to_string())).await?;
                    self.told(&run.row);
                    return Err(err);
                }
                Err(Stop::Store(err)) => return Err(err),
            }
        }
    }

    fn told(&self, row: &HeavyJob) {
        (self.tell)(ended(row));
    }

    /// Whether so much waits for the client that nothing is added.
    async fn is_behind(&self, row: &HeavyJob) -> StoreResult<bool> {
        Ok(self.stash.backlog(&row.client).await?.pending >= self.client_rows)
    }
}

/// What the operator is told of a job that ended.
fn ended(row: &HeavyJob) -> OperationalEvent {
    OperationalEvent::new(Happening::HeavyJobEnded, row.updated_ms)
        .of(&row.client)
        .because(row.reason.as_deref().unwrap_or_default())
        .with("job", row.id.as_str())
        .with("kind", row.kind.as_str())
        .with("state", row.state.as_str())
}
