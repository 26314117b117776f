//! A thread that asks librdkafka what blocks: never a thread of the async runtime.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;

use tokio::sync::oneshot;

use crate::ports::{StoreError, StoreResult};

type Job = Box<dyn FnOnce() + Send>;

/// Does one job after the other. Whoever gives it one waits for it, so there are no more jobs than callers. Ends when it is dropped.
pub(super) struct Worker(mpsc::Sender<Job>);

impl Worker {
    /// Starts the thread.
    pub(super) fn start(name: &str) -> StoreResult<Self> {
        let (jobs, waiting) = mpsc::channel::<Job>();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                for job in waiting {
                    // The caller of a job that panics is told by its channel.
                    let _ = catch_unwind(AssertUnwindSafe(job));
                }
            })
            .map_err(|err| StoreError::Unavailable(format!("no thread: {err}")))?;
        Ok(Self(jobs))
    }

    /// Does one job on a thread that is there for it: it may take long.
    pub(super) async fn once<T: Send + 'static>(
        name: &str,
        job: impl FnOnce() -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        Self::start(name)?.run(job).await
    }

    /// Does `job` after those that wait, if the future is not dropped by then. Once begun it is done to its end.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move || {
            if !answer.is_closed() {
                let _ = answer.send(job());
            }
        });
        let gone = || StoreError::Unavailable("the thread that asks kafka broke".to_owned());
        self.0.send(job).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_not_begun() {
        let worker = Worker::start("test").unwrap();
        let (done, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(2)));
        let waiting = Arc::clone(&gate);
        let first = worker.run(move || {
            waiting.wait();
            Ok(())
        });
        let counts = Arc::clone(&done);
        let second = worker.run(move || {
            counts.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        let mut first = Box::pin(first);
        assert!(first.as_mut().now_or_never().is_none());
        // It stands behind the first, and is given up.
        assert!(second.now_or_never().is_none());
        gate.wait();
        first.await.unwrap();
        worker.run(|| Ok(())).await.unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 0);
    }
}
