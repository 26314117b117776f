//! Keeps a worker of the library at work: starts it when Redis is there, watches it, replaces it, stops it.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use bullmq::worker::WorkerEvent;
use bullmq::{Error, Queue, Worker, WorkerOptions};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::attempt::{Attempts, backoff, reason_of};
use super::link::{Link, SHORT};
use super::millis;
use super::queue::oldest_due;
use super::records::keep;
use crate::ports::BoxFuture;
use crate::ports::job_queue::{JobEvent, JobProcessor, RunningWorker};

/// Between two looks at a worker.
const LOOK: Duration = Duration::from_secs(1);
/// Between two tries to reach a Redis that is away.
const TRY: Duration = Duration::from_millis(300);
/// The library is back by itself after a shorter absence.
const AWAY: Duration = Duration::from_secs(2);
/// For how long due work may lie before a worker that has room.
const STILL: Duration = Duration::from_secs(5);
/// What was told to stop at once is given this long to put its job back.
const HALT: Duration = Duration::from_secs(2);

struct Keeper {
    attempts: Arc<Attempts>,
    concurrency: u32,
    /// When the worker last took a job, by the boot clock.
    took_ms: AtomicI64,
}

pub(super) struct KeptWorker {
    attempts: Arc<Attempts>,
    /// The grace of the stop that was asked for.
    stop: watch::Sender<Option<Duration>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

pub(super) fn start(link: Arc<Link>, concurrency: u32, processor: Arc<dyn JobProcessor>) -> KeptWorker {
    let attempts =
        Arc::new(Attempts { link, processor, active: AtomicUsize::new(0), halt: CancellationToken::new() });
    let (stop, stopped) = watch::channel(None);
    let keeper = Keeper { attempts: attempts.clone(), concurrency, took_ms: AtomicI64::new(0) };
    let task = tokio::spawn(Arc::new(keeper).keep(stopped));
    KeptWorker { attempts, stop, task: Mutex::new(Some(task)) }
}

impl RunningWorker for KeptWorker {
    fn active(&self) -> usize {
        self.attempts.active.load(Ordering::Acquire)
    }

    fn stop(&self, grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.stop.send_replace(Some(grace));
            let task = self.task.lock().ok().and_then(|mut task| task.take());
            if let Some(task) = task {
                let _ = task.await;
            }
        })
    }
}

impl Drop for KeptWorker {
    fn drop(&mut self) {
        self.stop.send_if_modified(|grace| grace.replace(Duration::ZERO).is_none());
    }
}

/// How a worker of the library came to its end.
enum End {
    Stop(Duration),
    Replace,
}

impl Keeper {
    async fn keep(self: Arc<Self>, mut stop: watch::Receiver<Option<Duration>>) {
        loop {
            let worker = tokio::select! {
                grace = asked_to_stop(&mut stop) => return self.end(None, grace).await,
                worker = self.open() => worker,
            };
            tokio::spawn(self.clone().tell(worker.clone()));
            match self.watch(&mut stop).await {
                End::Stop(grace) => return self.end(Some(&worker), grace).await,
                // What it has at hand it brings to its end.
                End::Replace => {
                    tokio::spawn(async move {
                        let _ = worker.close(u64::from(u32::MAX)).await;
                    });
                }
            }
        }
    }

    /// Waits for Redis.
    async fn open(&self) -> Arc<Worker> {
        let mut said = false;
        loop {
            let attempts = self.attempts.clone();
            let process = move |job, _| {
                let attempts = attempts.clone();
                async move { attempts.attempt(job).await }
            };
            let name = self.attempts.link.spec.name;
            let reason = match timeout(SHORT, Worker::with_options(name, process, self.options())).await {
                Ok(Ok(worker)) => return Arc::new(worker),
                Ok(Err(err)) => err.to_string(),
                Err(_) => "no connection to Redis".to_owned(),
            };
            if !said {
                self.attempts.processor.happened(JobEvent::Trouble { reason });
                said = true;
            }
            sleep(TRY).await;
        }
    }

    fn options(&self) -> WorkerOptions {
        let Link { spec, options, .. } = &*self.attempts.link;
        WorkerOptions {
            connection: self.attempts.link.connection(),
            prefix: options.prefix.clone(),
            concurrency: self.concurrency as usize,
            lock_duration: millis(options.lock),
            // Each attempt renews its own.
            skip_lock_renewal: true,
            stalled_interval: millis(options.stalled_check),
            max_stalled_count: u32::MAX,
            drain_delay: 1,
            run_retry_delay: 500,
            remove_on_complete: Some(keep(spec.retention)),
            remove_on_fail: Some(keep(spec.retention)),
            backoff_strategy: Some(Arc::new(|_, kind, text, _| {
                let delay = backoff(kind, text);
                Box::pin(async move { delay })
            })),
            ..WorkerOptions::default()
        }
    }

    /// Passes on what a worker of the library tells, until it is closed.
    async fn tell(self: Arc<Self>, worker: Arc<Worker>) {
        let mut troubled = false;
        while let Some(event) = worker.next_event().await {
            let event = match event {
                WorkerEvent::Closed => return,
                WorkerEvent::Active { .. } => {
                    self.took_ms.store(self.attempts.link.options.clock.boot_ms(), Ordering::Release);
                    troubled = false;
                    continue;
                }
                WorkerEvent::Drained => {
                    troubled = false;
                    continue;
                }
                WorkerEvent::Completed { job_id, result } => JobEvent::Completed { id: job_id, result },
                WorkerEvent::Failed { job_id, error } => {
                    JobEvent::Failed { id: job_id, reason: reason_of(&error).to_owned() }
                }
                WorkerEvent::Stalled { job_id } => JobEvent::Stalled { id: job_id },
                // Said once, not with each of its tries.
                WorkerEvent::Error(reason) if !troubled => {
                    troubled = true;
                    JobEvent::Trouble { reason }
                }
                WorkerEvent::Error(_)
                | WorkerEvent::Ready
                | WorkerEvent::Progress { .. }
                | WorkerEvent::Paused
                | WorkerEvent::Resumed => continue,
            };
            self.attempts.processor.happened(event);
        }
    }

    /// Looks after a worker until it has to end.
    async fn watch(&self, stop: &mut watch::Receiver<Option<Duration>>) -> End {
        let demotions = self.attempts.link.demotions();
        let mut away: Option<Instant> = None;
        let mut still: Option<Instant> = None;
        loop {
            tokio::select! {
                grace = asked_to_stop(stop) => return End::Stop(grace),
                () = sleep(if away.is_some() { TRY } else { LOOK }) => {}
            }
            let (asked, looked) = (Instant::now(), self.attempts.link.options.clock.boot_ms());
            match self.attempts.link.ask(SHORT, async |queue| self.has_due_work(&queue).await).await {
                // The worker of the library has a connection of its own to it, and would stay there.
                Err(_) if self.attempts.link.demotions() != demotions => return End::Replace,
                Err(_) => {
                    away.get_or_insert(asked);
                }
                Ok(due) => {
                    if away.take().is_some_and(|since| since.elapsed() >= AWAY) {
                        return End::Replace;
                    }
                    let took = self.took_ms.load(Ordering::Acquire) >= looked - 1000;
                    let has_room = self.attempts.active.load(Ordering::Acquire) < self.concurrency as usize;
                    if due && has_room && !took {
                        if still.get_or_insert_with(Instant::now).elapsed() >= STILL {
                            let reason = format!("worker replaced: due jobs lay still for {STILL:?}");
                            self.attempts.processor.happened(JobEvent::Trouble { reason });
                            return End::Replace;
                        }
                    } else {
                        still = None;
                    }
                }
            }
        }
    }

    /// Whether a worker that has room should find a job.
    async fn has_due_work(&self, queue: &Queue) -> Result<bool, Error> {
        let mut meta = redis::cmd("HMGET");
        meta.arg(queue.keys().meta()).arg("paused").arg("concurrency").arg("max");
        let held: Vec<Option<String>> = queue.connection().cmd(&mut meta).await?;
        // A write that changes nothing: a replica answers questions too.
        queue.connection().cmd::<()>(redis::cmd("HDEL").arg(queue.keys().meta()).arg("")).await?;
        if held.iter().any(Option::is_some) {
            return Ok(false);
        }
        let now = self.attempts.link.options.clock.now_ms();
        let is_due = oldest_due(queue).await?.is_some_and(|due| due <= now);
        Ok(is_due || queue.get_waiting_count().await? + queue.get_prioritized_count().await? > 0)
    }

    /// Takes no more, and waits for what is at hand, that of replaced workers too.
    async fn end(&self, worker: Option<&Arc<Worker>>, grace: Duration) {
        let deadline = Instant::now() + grace;
        if let Some(worker) = worker {
            let closed = worker.close(millis(grace));
            tokio::select! {
                _ = closed => {}
                () = self.wake() => {}
            }
        }
        if timeout_at(deadline, self.at_rest()).await.is_err() {
            self.attempts.halt.cancel();
            let _ = timeout(HALT, self.at_rest()).await;
        }
    }

    async fn at_rest(&self) {
        while self.attempts.active.load(Ordering::Acquire) > 0 {
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// A worker that waits for jobs sees that it is closed only when it is woken: the marker does that. Other workers look once in vain.
    async fn wake(&self) {
        loop {
            let _ = self
                .attempts
                .link
                .ask(SHORT, async |queue| {
                    let mut marker = redis::cmd("ZADD");
                    marker.arg(queue.keys().marker()).arg(0).arg("0");
                    queue.connection().cmd::<()>(&mut marker).await
                })
                .await;
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Comes back with the grace of the stop, also when whoever could ask for one is gone.
async fn asked_to_stop(stop: &mut watch::Receiver<Option<Duration>>) -> Duration {
    match stop.wait_for(Option::is_some).await {
        Ok(grace) => grace.unwrap_or_default(),
        Err(_) => Duration::ZERO,
    }
}
