//! One attempt at a job: holds its lock, has it processed, and tells the library what came of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bullmq::types::BackoffStrategy;
use bullmq::{Error, Job, JobProgress};
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::link::{Link, SHORT};
use super::millis;
use super::records::{BACKOFF, attempts, since, tick, time};
use crate::ports::job_queue::{JobEvent, JobOutcome, JobProcessor, JobVoice, TakenJob};
use crate::ports::{BoxFuture, StoreResult};

/// What the attempts of a worker share.
pub(super) struct Attempts {
    pub(super) link: Arc<Link>,
    pub(super) processor: Arc<dyn JobProcessor>,
    /// How many are under way.
    pub(super) active: AtomicUsize,
    /// The grace of a stop is over.
    pub(super) halt: CancellationToken,
}

/// Counts an attempt as long as it lives.
struct Active<'a>(&'a AtomicUsize);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Attempts {
    pub(super) async fn attempt(&self, job: Job) -> Result<Value, Error> {
        self.active.fetch_add(1, Ordering::AcqRel);
        let _active = Active(&self.active);
        let taken = TakenJob {
            id: job.id().to_owned(),
            name: job.name().to_owned(),
            data: job.data().clone(),
            attempts_made: job.attempts_made(),
            attempts: attempts(&job),
            tick_ms: tick(&job),
            voice: Arc::new(Voice { link: self.link.clone(), id: job.id().to_owned() }),
        };
        let Some(deadline) = self.first_deadline(&job).await else {
            self.processor.happened(JobEvent::Lost { id: job.id().to_owned() });
            return Err(Error::Delayed);
        };
        // In this order: after a pause of the whole process the lost lock is seen before the handler goes on.
        let outcome = tokio::select! {
            biased;
            () = self.lock_lost(&job, deadline) => {
                self.processor.happened(JobEvent::Lost { id: job.id().to_owned() });
                return Err(Error::Delayed);
            }
            () = self.halt.cancelled() => {
                // Without it the job would wait until its lock is over.
                let _ = timeout(SHORT, job.move_to_wait(None)).await;
                return Err(Error::Delayed);
            }
            outcome = self.processor.process(taken) => outcome,
        };
        self.settle(&job, outcome).await
    }

    fn lock_ms(&self) -> i64 {
        i64::try_from(self.link.options.lock.as_millis()).unwrap_or(i64::MAX)
    }

    /// Until when the lock is ours, by the boot clock. It began when Redis gave the job away: mostly a moment ago. A process that stood still
    /// since then, or cannot tell because the time of day was set, renews it first. `None`: it is another's, or nobody can tell.
    async fn first_deadline(&self, job: &Job) -> Option<i64> {
        let (lock, clock) = (self.lock_ms(), &self.link.options.clock);
        let asked = clock.boot_ms();
        let tenth = lock / 10;
        let is_fresh = |given| (-tenth..=tenth).contains(&(clock.now_ms() - time(given)));
        if job.processed_on().is_some_and(is_fresh) {
            return Some(asked + lock - 2 * tenth);
        }
        let token = job.token().unwrap_or_default();
        let renewed = timeout(SHORT, job.extend_lock(token, millis(self.link.options.lock))).await;
        matches!(renewed, Ok(Ok(()))).then_some(asked + lock)
    }

    /// Renews the lock; comes back when it is lost.
    async fn lock_lost(&self, job: &Job, mut deadline: i64) {
        let lock = self.lock_ms();
        let now = || self.link.options.clock.boot_ms();
        let token = job.token().unwrap_or_default();
        let mut pause = self.link.options.lock / 3;
        loop {
            sleep(pause.min(since(deadline, now()))).await;
            let asked = now();
            let left = since(deadline, asked);
            if left.is_zero() {
                return;
            }
            let renewed = timeout(left, job.extend_lock(token, millis(self.link.options.lock)));
            pause = match renewed.await {
                Ok(Ok(())) => {
                    deadline = asked + lock;
                    self.link.options.lock / 3
                }
                Ok(Err(Error::JobLocked(_))) | Err(_) => return,
                Ok(Err(_)) => self.link.options.lock / 20,
            };
        }
    }

    async fn settle(&self, job: &Job, outcome: JobOutcome) -> Result<Value, Error> {
        match outcome {
            JobOutcome::Completed(value) => Ok(value),
            JobOutcome::Failed { reason } => {
                self.note(job, &reason).await;
                Err(Error::Unrecoverable(reason))
            }
            JobOutcome::Retry { reason, after } => {
                self.note(job, &reason).await;
                let is_last = job.attempts_made() + 1 >= attempts(job);
                if is_last || is_endless(job) {
                    return Err(Error::Unrecoverable(reason));
                }
                Err(Error::ProcessingError(with_delay(&reason, after)))
            }
            JobOutcome::Later { after } => {
                let now = u64::try_from(self.link.options.clock.now_ms()).unwrap_or(0);
                if let Err(err) = job.move_to_delayed(now.saturating_add(millis(after))).await {
                    // Its lock ends, and then it is taken again.
                    let reason = format!("job not delayed err={err} job_id={}", job.id());
                    self.processor.happened(JobEvent::Trouble { reason });
                }
                Err(Error::Delayed)
            }
        }
    }

    /// The library stores a reason only when it gives a job up.
    async fn note(&self, job: &Job, reason: &str) {
        let attempt = job.attempts_made() + 1;
        let line = format!("attempt {attempt}: {reason}");
        if let Err(err) = write(&self.link, job.id(), &line, Some(reason)).await {
            self.processor.happened(JobEvent::Trouble { reason: format!("reason not stored err={err}") });
        }
    }
}

/// Adds a line to a job's log, and stores why its last attempt failed, if the job is still there.
async fn write(link: &Link, id: &str, line: &str, reason: Option<&str>) -> StoreResult<()> {
    const SCRIPT: &str = r"
        if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
        redis.call('RPUSH', KEYS[2], ARGV[1])
        redis.call('LTRIM', KEYS[2], -50, -1)
        if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], 'failedReason', ARGV[2], 'stacktrace', ARGV[3]) end
        return 1";
    let reason = reason.unwrap_or_default();
    let stack = Value::from(vec![reason]).to_string();
    link.ask(SHORT, async move |queue| {
        let key = queue.keys().job_key(id);
        let mut script = redis::cmd("EVAL");
        script.arg(SCRIPT).arg(2).arg(&key).arg(format!("{key}:logs")).arg(line).arg(reason).arg(stack);
        queue.connection().cmd::<()>(&mut script).await
    })
    .await
}

struct Voice {
    link: Arc<Link>,
    id: String,
}

impl JobVoice for Voice {
    fn log(&self, line: String) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async move { write(&self.link, &self.id, &line, None).await })
    }

    fn progress(&self, progress: Value) -> BoxFuture<'_, StoreResult<()>> {
        let progress = progress.as_f64().map_or(JobProgress::Object(progress), JobProgress::Number);
        Box::pin(self.link.ask(SHORT, async move |queue| queue.update_job_progress(&self.id, progress).await))
    }
}

/// A job that another producer added with an exponential back-off which the library can no longer reckon: its delay would be negative, and
/// the job would run again at once, for ever.
fn is_endless(job: &Job) -> bool {
    let Some(BackoffStrategy::Exponential(base)) = job.opts().backoff else { return false };
    let delay = 2_u64.checked_pow(job.attempts_made()).and_then(|factor| factor.checked_mul(base));
    delay.is_none_or(|delay| i64::try_from(delay).is_err())
}

/// The library gives a custom back-off nothing of a failure but its text: the delay stands at its end. What a handler writes there
/// does not count, since ours comes after it.
const DELAY: &str = " (next attempt in ";

fn with_delay(reason: &str, after: Duration) -> String {
    format!("{reason}{DELAY}{} ms)", millis(after).max(1))
}

/// The reason of a failure without its delay.
pub(super) fn reason_of(text: &str) -> &str {
    delay_of(text).map_or(text, |_| text.rsplit_once(DELAY).map_or(text, |(reason, _)| reason))
}

/// The back-off of our jobs: the delay that the failure brings, milliseconds.
pub(super) fn backoff(kind: &str, text: &str) -> i64 {
    // Some other producer's custom back-off, of which we know nothing.
    const UNKNOWN: i64 = 60_000;
    if kind == BACKOFF { delay_of(text).unwrap_or(UNKNOWN) } else { UNKNOWN }
}

fn delay_of(text: &str) -> Option<i64> {
    text.rsplit_once(DELAY)?.1.strip_suffix(" ms)")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_delay_in_the_text_of_a_handler_does_not_count() {
        let text = with_delay("503 (next attempt in 1 ms)", Duration::from_secs(7));
        assert_eq!(backoff(BACKOFF, &text), 7000);
        assert_eq!(reason_of(&text), "503 (next attempt in 1 ms)");
    }

    #[test]
    fn what_is_not_known_waits_a_minute() {
        assert_eq!(backoff("theirs", "x"), 60_000);
        assert_eq!(backoff(BACKOFF, "x"), 60_000);
        assert_eq!(reason_of("x"), "x");
    }

    proptest! {
        #[test]
        fn every_reason_and_delay_comes_back(reason: String, after in 1..u64::MAX / 2) {
            let text = with_delay(&reason, Duration::from_millis(after));
            prop_assert_eq!(backoff(BACKOFF, &text), i64::try_from(after).unwrap());
            prop_assert_eq!(reason_of(&text), reason.as_str());
        }
    }
}
