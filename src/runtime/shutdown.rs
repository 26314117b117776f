//! Stopping in order: everybody hears that it begins, then the steps follow one another, each with its time.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::{FutureExt as _, future::LocalBoxFuture};
use tokio_util::sync::CancellationToken;

/// The shutdown of a process. A clone is the same one.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    token: CancellationToken,
}

impl Shutdown {
    /// Tells everybody to take no new work. Again is the same as once.
    pub fn begin(&self) {
        self.token.cancel();
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until it begins.
    pub async fn begun(&self) {
        self.token.cancelled().await;
    }

    /// For those who want to hand it on: cancelled when it begins.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Begins, and does the steps in order. One that takes too long is dropped, one that panics ends; both are
    /// logged, and the next begins all the same. Returns what did not finish.
    pub async fn run(&self, steps: Vec<StopStep<'_>>) -> Vec<Unfinished> {
        self.begin();
        let mut unfinished = Vec::new();
        for StopStep { name, limit, work } in steps {
            log::info!("stopping step={name}");
            match tokio::time::timeout(limit, AssertUnwindSafe(work).catch_unwind()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => {
                    log::error!("stop step panicked step={name}");
                    unfinished.push(Unfinished::Panicked(name));
                }
                Err(_) => {
                    log::warn!("stop step did not finish in time step={name} limit={limit:?}");
                    unfinished.push(Unfinished::Late(name));
                }
            }
        }
        unfinished
    }
}

/// One thing to do while the process stops.
#[must_use = "does nothing until it is run"]
pub struct StopStep<'a> {
    name: &'static str,
    limit: Duration,
    work: LocalBoxFuture<'a, ()>,
}

impl<'a> StopStep<'a> {
    /// `work` starts when its turn comes, and is dropped when it takes longer than `limit`.
    pub fn new(name: &'static str, limit: Duration, work: impl Future<Output = ()> + 'a) -> Self {
        Self { name, limit, work: work.boxed_local() }
    }
}

/// The name of a step that did not finish, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    /// Took too long.
    Late(&'static str),
    /// Panicked.
    Panicked(&'static str),
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, future::pending};

    use tokio::time::{Instant, sleep};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    #[actix_rt::test]
    async fn steps_run_in_order_and_a_bad_one_does_not_keep_the_next() {
        tokio::time::pause();
        let (shutdown, log, start) = (Shutdown::default(), RefCell::new(Vec::new()), Instant::now());
        let unfinished = shutdown
            .run(vec![
                StopStep::new("intake", LIMIT, async {
                    assert!(shutdown.has_begun());
                    sleep(Duration::from_secs(1)).await;
                    log.borrow_mut().push("intake");
                }),
                StopStep::new("stuck", LIMIT, pending()),
                StopStep::new("broken", LIMIT, async { panic!("a stop step that panics") }),
                StopStep::new("web", LIMIT, async { log.borrow_mut().push("web") }),
            ])
            .await;
        assert_eq!(unfinished, [Unfinished::Late("stuck"), Unfinished::Panicked("broken")]);
        assert_eq!(*log.borrow(), ["intake", "web"]);
        assert_eq!(start.elapsed().as_secs(), 6);
    }

    #[actix_rt::test]
    async fn everybody_hears_that_it_begins() {
        let shutdown = Shutdown::default();
        assert!(shutdown.begun().now_or_never().is_none());
        let token = shutdown.clone().token().child_token();
        shutdown.begin();
        shutdown.begin();
        shutdown.begun().await;
        assert!(token.is_cancelled());
    }
}
