//! `RetryActor`: the workers of the queue `dispatcher`. A job there is the visible side of what a client's owner does by its own timers: it asks
//! the owner, waits for what comes of it, and reports that as attempts and reasons, which every board of queues shows. Promoting the job means
//! "try it now".

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::disabler::{Disabler, last_try};
use super::owners::Owners;
use crate::domain::client_state::{ClientState, Phase, Tried};
use crate::domain::config::ClientId;
use crate::domain::guard::Destination;
use crate::ports::client_states::ClientStates;
use crate::ports::clock::Clock;
use crate::ports::job_queue::JobQueue;
use crate::ports::stash::Stash;
use crate::ports::{BoxFuture, StoreResult};
use crate::workers::queues::{DispatcherJob, Retry};
use crate::workers::{Handled, JobContext, JobFailure, JobHandler};

/// A job that runs so much sooner than it was due was promoted: clocks of replicas, and timers, are not exact.
const EARLY_MS: i64 = 1_000;

/// How often it looks whether there is an answer.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// When it looks again at a client whose rows go out.
pub(super) const DRAINS: Duration = Duration::from_secs(10);

/// Does the jobs of the queue `dispatcher`.
pub struct RetryActor {
    /// The rows.
    pub stash: Arc<dyn Stash>,
    /// What became of attempts.
    pub states: Arc<dyn ClientStates>,
    /// Who is asked.
    pub owners: Owners,
    /// The jobs' own queue: it knows when they were due.
    pub queue: Arc<dyn JobQueue>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Does the other kind of job.
    pub disabler: Disabler,
}

impl JobHandler for RetryActor {
    type Jobs = DispatcherJob;

    fn handle(&self, job: DispatcherJob, context: JobContext) -> BoxFuture<'_, Result<Handled, JobFailure>> {
        Box::pin(async move {
            match job {
                DispatcherJob::Retry(retry) => self.retry(retry, context).await,
                DispatcherJob::Disable(disable) => self.disabler.run(&disable.client, &context).await,
            }
        })
    }
}

impl RetryActor {
    async fn retry(&self, job: Retry, context: JobContext) -> Result<Handled, JobFailure> {
        let client = &job.client;
        let pending = self.stash.backlog(client).await?.pending;
        let Some(before) = self.states.get(client).await? else { return Ok(done("nothing is known of it")) };
        if pending == 0 {
            return Ok(done("nothing waits"));
        }
        match before.phase {
            Phase::Paused | Phase::Disabled => return Ok(done(&before.reason)),
            Phase::Healthy | Phase::Draining => {
                if !self.is_promoted(&job, &context).await? {
                    return self.go_on_after(DRAINS, pending, &context).await;
                }
                self.owners.try_now(client).await;
            }
            Phase::Degraded => {
                let wait = before.wait(self.clock.now_ms()).unwrap_or(DRAINS);
                if self.is_promoted(&job, &context).await? {
                    self.owners.try_now(client).await;
                } else if wait > Duration::from_millis(EARLY_MS as u64) {
                    // The owner was quicker, and its next attempt is known.
                    return self.go_on_after(wait, pending, &context).await;
                }
            }
        }
        let attempted = |state: &ClientState| {
            state.tries != before.tries
                || state.failed_rounds != before.failed_rounds
                || state.phase != before.phase
                || state.failing_since_ms != before.failing_since_ms
        };
        let within = last_try(self.timeout(client));
        let Some(state) = await_state(&*self.states, client, within, attempted).await? else {
            return self.go_on_after(DRAINS, pending, &context).await;
        };
        let failed = state.tries != before.tries && state.last_try != Some(Tried::Delivered);
        let after = match state.phase {
            Phase::Degraded => state.wait(self.clock.now_ms()).unwrap_or(DRAINS),
            // Its gate is open, and this change fails.
            Phase::Healthy | Phase::Draining if failed => DRAINS,
            _ => return self.go_on_after(Duration::from_secs(1), pending, &context).await,
        };
        let after = after.min(self.queue.spec().backoff.cap);
        self.promise(after, pending, &context).await?;
        let reason = state.last_failure.as_deref().unwrap_or("failed");
        Err(JobFailure::Again { reason: format!("{reason}, {pending} changes wait"), after: Some(after) })
    }

    /// How long a request of a client may take.
    fn timeout(&self, client: &ClientId) -> Option<Duration> {
        match self.disabler.table.get(client)?.destination() {
            Destination::Webhook(settings) => Some(settings.timeout),
            _ => None,
        }
    }

    /// Whether the job runs sooner than it was due.
    async fn is_promoted(&self, job: &Retry, context: &JobContext) -> StoreResult<bool> {
        let known = self.queue.job(&context.id).await?;
        let promised = known.and_then(|known| known.progress?.get("due_ms")?.as_i64());
        Ok(promised.or(job.due_ms).is_none_or(|due_ms| self.clock.now_ms() + EARLY_MS < due_ms))
    }

    /// Writes down when the job is due, for whoever promotes it.
    async fn promise(&self, after: Duration, pending: u64, context: &JobContext) -> StoreResult<()> {
        let due_ms = self.clock.now_ms() + i64::try_from(after.as_millis()).unwrap_or(i64::MAX / 2);
        context.progress(json!({ "due_ms": due_ms, "waiting": pending })).await
    }

    async fn go_on_after(
        &self,
        after: Duration,
        pending: u64,
        context: &JobContext,
    ) -> Result<Handled, JobFailure> {
        self.promise(after, pending, context).await?;
        Ok(Handled::Later(after))
    }
}

fn done(why: &str) -> Handled {
    Handled::Done(json!(why))
}

/// Whether nothing is tried, by somebody's decision or for the config's sake.
pub(super) fn is_stopped(state: &ClientState) -> bool {
    matches!(state.phase, Phase::Paused | Phase::Disabled)
}

/// Waits until a client's state is such. `None`: it was not within this time.
pub(super) async fn await_state(
    states: &dyn ClientStates,
    client: &ClientId,
    within: Duration,
    is_such: impl Fn(&ClientState) -> bool,
) -> StoreResult<Option<ClientState>> {
    let until = Instant::now() + within;
    loop {
        match states.get(client).await? {
            Some(state) if is_such(&state) => return Ok(Some(state)),
            _ if Instant::now() >= until => return Ok(None),
            _ => sleep(LOOK_EVERY).await,
        }
    }
}
