//! A piece of work for a connection, and the answer to whoever asked for it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use diesel::sqlite::SqliteConnection;
use tokio::sync::oneshot;

use super::errors::JobResult;
use crate::ports::{StoreError, StoreResult};

/// How a job ended, before it is known whether its transaction is committed.
pub(super) enum Ran {
    Done,
    Failed { breaks_connection: bool },
}

/// A piece of work of any type.
pub(super) trait Job: Send {
    /// Does the work. Never panics: a panic inside is an error of this job.
    fn run(&mut self, connection: &mut SqliteConnection) -> Ran;

    /// Answers: with the work's own error, or that of the commit, or its value.
    fn answer(self: Box<Self>, committed: StoreResult<()>);
}

/// Work, what is done when it is durable, and who waits.
pub(super) struct Task<W, A, T, R> {
    work: Option<W>,
    result: StoreResult<T>,
    after: A,
    reply: oneshot::Sender<StoreResult<R>>,
}

impl<W, A, T, R> Task<W, A, T, R> {
    pub(super) fn new(work: W, after: A, reply: oneshot::Sender<StoreResult<R>>) -> Self {
        let result = Err(StoreError::Unavailable("not run".into()));
        Self { work: Some(work), result, after, reply }
    }
}

fn panicked(what: &str) -> StoreError {
    log::error!("panic in a {what} of the embedded store");
    StoreError::Unavailable(format!("panic in a {what}"))
}

impl<W, A, T, R> Job for Task<W, A, T, R>
where
    W: FnOnce(&mut SqliteConnection) -> JobResult<T> + Send,
    A: FnOnce(T) -> R + Send,
    T: Send,
    R: Send,
{
    fn run(&mut self, connection: &mut SqliteConnection) -> Ran {
        let Some(work) = self.work.take() else {
            return Ran::Failed { breaks_connection: false };
        };
        // Whatever the panic left in the transaction is rolled back with it.
        match catch_unwind(AssertUnwindSafe(|| work(connection))) {
            Ok(Ok(value)) => {
                self.result = Ok(value);
                Ran::Done
            }
            Ok(Err(error)) => {
                let breaks_connection = error.breaks_connection();
                self.result = Err(error.into());
                Ran::Failed { breaks_connection }
            }
            Err(_) => {
                self.result = Err(panicked("job"));
                Ran::Failed { breaks_connection: false }
            }
        }
    }

    fn answer(self: Box<Self>, committed: StoreResult<()>) {
        let Self { work, result, after, reply } = *self;
        let answer = match (work, committed) {
            // It never ran: the reason is not its own.
            (Some(_), Err(error)) => Err(error),
            (_, committed) => result.and_then(|value| {
                committed?;
                catch_unwind(AssertUnwindSafe(|| after(value))).map_err(|_| panicked("hand-over"))
            }),
        };
        // Nobody waits any more: the work is done all the same.
        let _ = reply.send(answer);
    }
}
