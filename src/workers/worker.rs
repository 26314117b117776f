//! Runs a handler: sees whether the queue is paused, reads the job, asks the guard, bounds the time, catches the panic, decides about the next attempt, and counts.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use serde_json::Value;
use tokio::time::timeout;

use super::running::running;
use super::{Handled, JobContext, JobFailure, JobHandler, Jobs, OpenQueues, Scope, Unreadable};
use crate::domain::job::{QueueSpec, Retention};
use crate::metrics::Metrics;
use crate::ports::BoxFuture;
use crate::ports::blocked_owners::BlockedOwners;
use crate::ports::job_queue::{JobEvent, JobOutcome, JobProcessor, RunningWorker, TakenJob};
use crate::ports::paused_queues::PausedQueues;
use crate::runtime::panic_text;

/// How long a job of another version waits for a replica of that version.
const FOREIGN: Duration = Duration::from_secs(10 * 60);
/// How long a job waits when it cannot be asked whether its owner is blocked.
const UNGUARDED: Duration = Duration::from_secs(5);
/// How long a job waits that a paused queue has given away: it lost its pause, and has it again soon.
const PAUSED: Duration = Duration::from_secs(1);
/// Names of jobs that are none of ours and were logged.
const NAMES: usize = 100;
/// Characters of a reason.
const REASON: usize = 1000;

/// What all workers need.
#[derive(Clone)]
pub struct WorkerKit {
    /// Where jobs are counted.
    pub metrics: Metrics,
    /// Whose jobs are not done.
    pub blocked: Arc<dyn BlockedOwners>,
    /// Which queues stand still, also when what is behind them does not know it any more.
    pub paused: Arc<dyn PausedQueues>,
}

impl WorkerKit {
    /// Has a queue's jobs done, `concurrency` at once; `None`: as many as the queue's default.
    pub fn start<H: JobHandler>(
        &self,
        queues: &OpenQueues<<H::Jobs as Jobs>::Queues>,
        handler: Arc<H>,
        concurrency: Option<u32>,
    ) -> Box<dyn RunningWorker> {
        let queue = queues.get(H::Jobs::QUEUE);
        let spec = queue.spec();
        let processor = Processor { spec, kit: self.clone(), handler, foreign: Mutex::default() };
        queue.work(concurrency.unwrap_or(spec.concurrency), Arc::new(processor))
    }
}

struct Processor<H> {
    spec: &'static QueueSpec,
    kit: WorkerKit,
    handler: Arc<H>,
    /// Names that were logged.
    foreign: Mutex<HashSet<String>>,
}

/// What an attempt is counted as.
type Counted = (&'static str, JobOutcome);

impl<H: JobHandler> Processor<H> {
    async fn attempt(&self, taken: &TakenJob) -> Counted {
        if self.kit.paused.is_paused(self.spec.name) {
            return ("paused", JobOutcome::Later { after: PAUSED });
        }
        let job = match H::Jobs::read(&taken.name, taken.data.clone()) {
            Ok(job) => job,
            Err(why) => return self.foreign(taken, &why),
        };
        if let Scope::Client { client, owner } = job.scope() {
            match self.kit.blocked.blocked(owner, client).await {
                Ok(None) => {}
                Ok(Some(owner)) => {
                    log::debug!("job of a blocked owner job_id={} owner={owner}", taken.id);
                    return ("blocked", JobOutcome::Completed(Value::from("blocked")));
                }
                Err(err) => {
                    self.warn("block list not read", &err.to_string(), &taken.id);
                    return ("later", JobOutcome::Later { after: UNGUARDED });
                }
            }
        }
        let work = self.handler.handle(job, JobContext::new(taken));
        let ended = timeout(self.spec.timeout, running(self.spec, &taken.id, work)).await;
        match ended {
            Ok(Ok(Handled::Done(value))) => ("completed", JobOutcome::Completed(value)),
            Ok(Ok(Handled::Later(after))) => ("later", JobOutcome::Later { after }),
            Ok(Err(JobFailure::Again { reason, after })) => self.again(taken, &reason, after),
            Ok(Err(JobFailure::Never { reason })) => self.never(taken, &reason),
            Err(_) => self.again(taken, &format!("not done within {:?}", self.spec.timeout), None),
        }
    }

    /// Another version's job, or a mistake. Where ids are kept it must not be eaten: a replica that knows it may take it.
    fn foreign(&self, taken: &TakenJob, why: &Unreadable) -> Counted {
        let mut names = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() < NAMES && names.insert(taken.name.clone()) {
            let name = cleaned(&taken.name);
            log::warn!("foreign job err={why} name={name} job_id={} queue={}", taken.id, self.spec.name);
        }
        match self.spec.retention {
            Retention::Redrivable => ("unknown", JobOutcome::Completed(Value::from("unknown"))),
            Retention::Dedup { .. } => {
                ("unknown", JobOutcome::Retry { reason: cleaned(&why.to_string()), after: FOREIGN })
            }
        }
    }

    fn again(&self, taken: &TakenJob, reason: &str, after: Option<Duration>) -> Counted {
        let failures = taken.attempts_made.saturating_add(1);
        if failures >= taken.attempts {
            return self.never(taken, reason);
        }
        let reason = cleaned(reason);
        let after = after.map_or_else(
            || self.spec.backoff.delay(failures, fastrand::f64()),
            |after| after.min(self.spec.backoff.cap),
        );
        self.warn("job failed", &reason, &taken.id);
        ("retried", JobOutcome::Retry { reason, after })
    }

    fn never(&self, taken: &TakenJob, reason: &str) -> Counted {
        let reason = cleaned(reason);
        self.warn("job given up", &reason, &taken.id);
        ("failed", JobOutcome::Failed { reason })
    }

    fn warn(&self, what: &str, err: &str, id: &str) {
        log::warn!("{what} err={err} job_id={id} queue={}", self.spec.name);
    }
}

impl<H: JobHandler> JobProcessor for Processor<H> {
    fn process(&self, job: TakenJob) -> BoxFuture<'_, JobOutcome> {
        Box::pin(async move {
            let began = Instant::now();
            let ended = AssertUnwindSafe(self.attempt(&job)).catch_unwind().await;
            let (counted, outcome) = ended.unwrap_or_else(|panic| {
                self.again(&job, &format!("panic: {}", panic_text(panic.as_ref())), None)
            });
            // A name is a label only when it is one of ours: labels are for ever.
            let name = H::Jobs::NAMES.iter().find(|name| **name == job.name).unwrap_or(&"unknown");
            self.kit.metrics.jobs.with_label_values(&[self.spec.name, name, counted]).inc();
            let seconds = self.kit.metrics.job_seconds.with_label_values(&[self.spec.name]);
            seconds.observe(began.elapsed().as_secs_f64());
            outcome
        })
    }

    fn happened(&self, event: JobEvent) {
        match event {
            JobEvent::Completed { id, result } => self.handler.completed(&id, &result),
            JobEvent::Failed { id, reason } => self.handler.failed(&id, &reason),
            JobEvent::Stalled { id } => self.warn("job taken over", "its worker was lost", &id),
            JobEvent::Lost { id } => {
                self.kit.metrics.jobs.with_label_values(&[self.spec.name, "any", "lost"]).inc();
                self.warn("job dropped", "its lock was lost", &id);
            }
            JobEvent::Trouble { reason } => {
                log::warn!("worker in trouble err={reason} queue={}", self.spec.name);
            }
        }
    }
}

/// One bounded line.
fn cleaned(text: &str) -> String {
    text.chars().take(REASON).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
