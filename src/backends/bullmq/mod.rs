//! Queues in Redis, in the layout of BullMQ 6: Node workers, producers and boards see and act on the same queues.
//!
//! What the library leaves open is closed here:
//!
//! | the library | here |
//! |---|---|
//! | connects again after up to 5 s, and never on a connection that only went silent | `link`: every question has a time-out and connects anew after a failure; `worker` looks every second and replaces the worker of the library when Redis was away, or due work lies still |
//! | a lost lock is not noticed by the job that lost it | `attempt` renews the lock itself and drops the handler in time |
//! | a handler is not ended when the grace of a stop is over | `attempt` puts its job back |
//! | exponential back-off without cap, negative from attempt 52 on | `attempt` passes the delay of each failure to a custom back-off |
//! | the reason of a failed attempt is not stored while the job is tried again | `attempt` stores it, and a line in the job's log; the log is cut to 50 lines |
//! | a job that stalled twice is failed | never: a crash is no failure of the job |
//! | the channel of events is unbounded | `worker` drains it |
//! | an idle stop waits up to 5 s | `worker` wakes the worker |
//! | `age` is said to be in milliseconds | it is in seconds, `records` |
//! | putting a schedule again drops its job when that is due | `schedules` leaves one alone that stands as it should |
//! | all failed jobs are retried with no attempts left | `queue` retries each |
//!
//! Keys are those of BullMQ, under `<prefix>:<queue>:`; nothing else is written. Must be known: `rediss://` needs the process to have
//! installed a TLS provider (`main` does), and a queue that a Node worker of version 5 paused has to be resumed from here.

mod attempt;
mod link;
mod probe;
mod queue;
mod records;
mod schedules;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use self::link::Link;
pub use self::probe::probe;
use self::queue::BullMqQueue;
use crate::domain::config::Secret;
use crate::domain::job::QueueSpec;
use crate::ports::clock::Clock;
use crate::ports::job_queue::{JobQueue, JobQueues};

/// Where the queues are.
#[derive(Clone)]
pub struct BullMqOptions {
    /// `redis://[user:password@]host:port[/db]`, or `rediss://`.
    pub url: Secret,
    /// The first part of every key; Node's is `bull`. No colon.
    pub prefix: String,
    /// How long a worker that was lost keeps its jobs.
    pub lock: Duration,
    /// How often jobs of lost workers are looked for. They are found after the lock and at most two of these.
    pub stalled_check: Duration,
    /// Locks are held against its boot time.
    pub clock: Arc<dyn Clock>,
}

impl BullMqOptions {
    /// With a lock of 10 s, looked for every 5 s.
    pub fn new(url: Secret, prefix: &str, clock: Arc<dyn Clock>) -> Self {
        Self {
            url,
            prefix: prefix.to_owned(),
            lock: Duration::from_secs(10),
            stalled_check: Duration::from_secs(5),
            clock,
        }
    }
}

/// The queues of one Redis. One connection a queue and two a worker, each opened when it is needed.
pub struct BullMq {
    options: BullMqOptions,
}

impl BullMq {
    /// Connects to nothing yet.
    pub fn new(options: BullMqOptions) -> Self {
        Self { options }
    }
}

impl JobQueues for BullMq {
    fn queue(&self, spec: &'static QueueSpec) -> Arc<dyn JobQueue> {
        Arc::new(BullMqQueue::new(spec, Arc::new(Link::new(spec, self.options.clone()))))
    }
}

/// Milliseconds, as the library counts them.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
