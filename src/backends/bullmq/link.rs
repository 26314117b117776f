//! The connection that a queue is asked over. A connection that failed is not waited for: the next question opens another, so that
//! whoever asks knows at once when Redis is back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bullmq::options::RedisConnectionOptions;
use bullmq::{Error, Queue, QueueOptions};
use redis::RedisError;
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
    /// How often the server on the other end was found to be no primary any more.
    demoted: AtomicU64,
}

#[derive(Default)]
struct State {
    queue: Option<Queue>,
    failed: Option<(Instant, StoreError)>,
}

impl Link {
    pub(super) fn new(spec: &'static QueueSpec, options: BullMqOptions) -> Self {
        Self { spec, options, state: Mutex::default(), demoted: AtomicU64::new(0) }
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
                if let Error::Redis(redis) = &err {
                    let is_demoted = is_demoted(redis);
                    if is_demoted {
                        self.demoted.fetch_add(1, Ordering::Relaxed);
                    }
                    if is_demoted || redis.is_unrecoverable_error() || redis.is_timeout() {
                        self.forget().await;
                    }
                }
                Err(store_error(&err))
            }
            Err(_) => {
                self.forget().await;
                Err(StoreError::Unavailable(format!("no answer within {within:?}")))
            }
        }
    }

    /// Rises whenever a server turned out to be no primary any more: what holds a connection of its own must open another.
    pub(super) fn demotions(&self) -> u64 {
        self.demoted.load(Ordering::Relaxed)
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

/// Whether the server takes no writes: another is the primary by now, and a new connection finds it by its name.
fn is_demoted(err: &RedisError) -> bool {
    const CODES: [&str; 3] = ["READONLY", "MASTERDOWN", "NOREPLICAS"];
    let is_code = |code: &str| CODES.contains(&code);
    // A script of an older server tells it within its own error.
    err.code().is_some_and(is_code)
        || err.detail().is_some_and(|detail| {
            detail.split(|letter: char| !letter.is_ascii_uppercase()).any(is_code)
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_no_primary_any_more_is_told_from_others() {
        let error = |text: &str| {
            let mut parser = redis::Parser::new();
            let value = parser.parse_value(std::io::Cursor::new(format!("-{text}\r\n"))).unwrap();
            RedisError::from(value.extract_error().unwrap_err())
        };
        for text in [
            "READONLY You can't write against a read only replica.",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "NOREPLICAS Not enough good replicas to write.",
            "ERR Error running script (call to f_1): @user_script:1: -READONLY You can't write against a read only replica.",
        ] {
            assert!(is_demoted(&error(text)), "{text}");
        }
        for text in ["ERR unknown command", "WRONGTYPE Operation against a key", "OOM command not allowed"] {
            assert!(!is_demoted(&error(text)), "{text}");
        }
    }
}
