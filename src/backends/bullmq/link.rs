//! The connection that a queue is asked over. A connection that failed is not waited for: the next question opens another, so that
//! whoever asks knows at once when Redis is back.

use std::time::Duration;

use bullmq::options::RedisConnectionOptions;
use bullmq::{Error, Queue, QueueOptions};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::BullMqOptions;
use crate::domain::job::QueueSpec;
use crate::ports::{StoreError, StoreResult};

/// A question that reads or changes one thing is answered within this.
pub(super) const SHORT: Duration = Duration::from_secs(3);
/// One that goes over many jobs.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// A failed attempt to connect counts for whoever asks within this.
const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Link {
    pub(super) spec: &'static QueueSpec,
    pub(super) options: BullMqOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: Option<Queue>,
    failed: Option<(Instant, StoreError)>,
}

impl Link {
    pub(super) fn new(spec: &'static QueueSpec, options: BullMqOptions) -> Self {
        Self { spec, options, state: Mutex::default() }
    }

    pub(super) fn connection(&self) -> RedisConnectionOptions {
        RedisConnectionOptions::new().url(self.options.url.expose())
    }

    /// Asks something.
    pub(super) async fn ask<T, F, Fut>(&self, within: Duration, question: F) -> StoreResult<T>
    where
        F: FnOnce(Queue) -> Fut,
        Fut: Future<Output = Result<T, Error>>,
    {
        let queue = self.queue().await?;
        match timeout(within, question(queue)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(err)) => {
                if matches!(&err, Error::Redis(err) if err.is_unrecoverable_error() || err.is_timeout()) {
                    self.forget().await;
                }
                Err(store_error(&err))
            }
            Err(_) => {
                self.forget().await;
                Err(StoreError::Unavailable(format!("no answer within {within:?}")))
            }
        }
    }

    async fn forget(&self) {
        self.state.lock().await.queue = None;
    }

    async fn queue(&self) -> StoreResult<Queue> {
        let mut state = self.state.lock().await;
        if let Some(queue) = &state.queue {
            return Ok(queue.clone());
        }
        if let Some((at, err)) = &state.failed
            && at.elapsed() < PAUSE
        {
            return Err(err.clone());
        }
        let options = QueueOptions::new().connection(self.connection()).prefix(&self.options.prefix);
        let opened = match timeout(SHORT, Queue::with_options(self.spec.name, options)).await {
            Ok(opened) => opened.map_err(|err| store_error(&err)),
            Err(_) => Err(StoreError::Unavailable("no connection to Redis".to_owned())),
        };
        state.failed = opened.as_ref().err().map(|err| (Instant::now(), err.clone()));
        state.queue = opened.as_ref().ok().cloned();
        opened
    }
}

/// Errors of the store are waited for; those that the scripts answer are about the data.
pub(super) fn store_error(err: &Error) -> StoreError {
    match err {
        Error::Script { .. }
        | Error::InvalidConfig(_)
        | Error::Serialization(_)
        | Error::MsgPack(_)
        | Error::JobNotFound(_)
        | Error::JobNotInState(..)
        | Error::JobLocked(_)
        | Error::JobHasFailedChildren(_) => StoreError::Refused(err.to_string()),
        _ => StoreError::Unavailable(err.to_string()),
    }
}
