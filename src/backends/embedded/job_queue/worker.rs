//! A worker: takes jobs as it has room for them, and has them processed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::line::{Hold, Line};
use super::rows::{JobRow, count};
use super::taking::{Haul, take};
use super::voice::Voice;
use super::{BATCH, ending};
use crate::ports::job_queue::{JobEvent, JobOutcome, JobProcessor, RunningWorker, TakenJob};
use crate::ports::{BoxFuture, StoreResult};

/// The longest sleep: a clock that is set forward makes jobs due that no timer knows of.
const IDLE: Duration = Duration::from_secs(30);
/// A file that cannot be used is asked again after this.
const AGAIN: Duration = Duration::from_secs(1);
/// What was told to stop at once is given this long to put its job back.
const HALT: Duration = Duration::from_secs(2);

struct Worker {
    line: Arc<Line>,
    processor: Arc<dyn JobProcessor>,
    concurrency: usize,
    active: AtomicUsize,
    /// The grace of a stop is over.
    halt: CancellationToken,
}

pub(super) struct StartedWorker {
    worker: Arc<Worker>,
    /// The grace of the stop that was asked for.
    stop: watch::Sender<Option<Duration>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

pub(super) fn start(line: Arc<Line>, concurrency: u32, processor: Arc<dyn JobProcessor>) -> StartedWorker {
    let worker = Arc::new(Worker {
        line,
        processor,
        concurrency: concurrency as usize,
        active: AtomicUsize::new(0),
        halt: CancellationToken::new(),
    });
    let (stop, stopped) = watch::channel(None);
    let task = tokio::spawn(worker.clone().run(stopped));
    StartedWorker { worker, stop, task: Mutex::new(Some(task)) }
}

impl RunningWorker for StartedWorker {
    fn active(&self) -> usize {
        self.worker.active.load(Ordering::Acquire)
    }

    fn stop(&self, grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.stop.send_replace(Some(grace));
            let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(task) = task {
                let _ = task.await;
            }
        })
    }
}

impl Drop for StartedWorker {
    fn drop(&mut self) {
        self.stop.send_if_modified(|grace| grace.replace(Duration::ZERO).is_none());
    }
}

/// Counts an attempt as long as it lives.
struct Active(Arc<Worker>);

impl Active {
    fn new(worker: Arc<Worker>) -> Self {
        worker.active.fetch_add(1, Ordering::AcqRel);
        Self(worker)
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Worker {
    async fn run(self: Arc<Self>, mut stop: watch::Receiver<Option<Duration>>) {
        let mut changes = self.line.listen();
        let mut attempts = JoinSet::new();
        let mut troubled = false;
        loop {
            let room = self.concurrency - attempts.len();
            // How long nothing comes by itself; `None`: there may be more at once.
            let mut pause = Some(IDLE);
            if room > 0 {
                changes.mark_unchanged();
                let most = room.min(BATCH);
                let haul = tokio::select! {
                    grace = asked_to_stop(&mut stop) => return self.end(attempts, grace).await,
                    haul = self.line.write(move |connection, line| take(connection, line, most)) => haul,
                };
                pause = match haul {
                    Ok(haul) => {
                        troubled = false;
                        let pause = if haul.taken.len() == most { None } else { self.until_due(&haul) };
                        self.begin(haul, &mut attempts);
                        pause
                    }
                    Err(err) => {
                        if !std::mem::replace(&mut troubled, true) {
                            self.trouble(&format!("no job taken err={err}"));
                        }
                        Some(AGAIN)
                    }
                };
            }
            let has_room = attempts.len() < self.concurrency;
            let Some(pause) = pause.or_else(|| (!has_room).then_some(IDLE)) else { continue };
            tokio::select! {
                grace = asked_to_stop(&mut stop) => return self.end(attempts, grace).await,
                Some(_) = attempts.join_next() => {}
                _ = changes.changed(), if has_room && !troubled => {}
                () = sleep(pause), if has_room => {}
            }
        }
    }

    /// `None`: one is due already.
    fn until_due(&self, haul: &Haul) -> Option<Duration> {
        let Some(due_ms) = haul.next_due_ms else { return Some(IDLE) };
        let left = u64::try_from(due_ms - self.line.now_ms()).ok().filter(|left| *left > 0)?;
        Some(Duration::from_millis(left).min(IDLE))
    }

    fn begin(self: &Arc<Self>, haul: Haul, attempts: &mut JoinSet<()>) {
        for id in haul.stalled {
            self.processor.happened(JobEvent::Stalled { id });
        }
        for (row, hold) in haul.taken {
            let active = Active::new(self.clone());
            attempts.spawn(async move { active.0.attempt(row, hold).await });
        }
    }

    async fn attempt(&self, row: JobRow, hold: Hold) {
        let job = TakenJob {
            data: row.data(),
            name: row.name,
            attempts_made: count(row.attempts_made),
            attempts: count(row.attempts),
            tick_ms: row.tick_ms,
            voice: Arc::new(Voice { line: self.line.clone(), seq: row.seq, token: hold.token }),
            id: row.id.clone(),
        };
        let ended = tokio::select! {
            biased;
            () = self.halt.cancelled() => None,
            outcome = self.processor.process(job) => Some(outcome),
        };
        let ended = match ended {
            None => None,
            Some(outcome) => tokio::select! {
                biased;
                () = self.settle(&hold, &row.id, &outcome) => Some(()),
                () = self.halt.cancelled() => None,
            },
        };
        if ended.is_none() {
            // Without it the job would wait until the next one is taken.
            let token = hold.token;
            let back = self.line.change(move |connection, _| ending::give_back(connection, token));
            let _ = timeout(HALT, back).await;
        }
    }

    /// Writes the end of an attempt, however long that takes.
    async fn settle(&self, hold: &Hold, id: &str, outcome: &JobOutcome) {
        let mut troubled = false;
        loop {
            match self.end_of(hold.token, id, outcome).await {
                Ok(None) => return,
                Ok(Some(event)) => return self.processor.happened(event),
                Err(err) => {
                    if !std::mem::replace(&mut troubled, true) {
                        self.trouble(&format!("end of a job not written err={err} job_id={id}"));
                    }
                    sleep(AGAIN).await;
                }
            }
        }
    }

    async fn end_of(&self, token: i64, id: &str, outcome: &JobOutcome) -> StoreResult<Option<JobEvent>> {
        let (id, outcome) = (id.to_owned(), outcome.clone());
        self.line.change(move |connection, line| ending::end(connection, line, token, id, outcome)).await
    }

    /// Takes no more, and waits for what is at hand.
    async fn end(&self, mut attempts: JoinSet<()>, grace: Duration) {
        if timeout(grace, at_rest(&mut attempts)).await.is_err() {
            self.halt.cancel();
            let _ = timeout(HALT * 2, at_rest(&mut attempts)).await;
        }
    }

    fn trouble(&self, reason: &str) {
        self.processor.happened(JobEvent::Trouble { reason: reason.to_owned() });
    }
}

async fn at_rest(attempts: &mut JoinSet<()>) {
    while attempts.join_next().await.is_some() {}
}

/// Comes back with the grace of the stop, also when whoever could ask for one is gone.
async fn asked_to_stop(stop: &mut watch::Receiver<Option<Duration>>) -> Duration {
    match stop.wait_for(Option::is_some).await {
        Ok(grace) => grace.unwrap_or_default(),
        Err(_) => Duration::ZERO,
    }
}
