//! The worker kit: queues, jobs and schedules that cannot be used wrongly. How to add one: `docs/worker-development.md`.
//!
//! | file | what is in it |
//! |---|---|
//! | [`queue_set`] | the queues, as one enum with everything about each |
//! | [`jobs`] | the jobs of a queue, as one enum with their payloads |
//! | [`producer`] | adding jobs |
//! | [`handler`] | what a handler gets, and how it ends |
//! | [`worker`] | runs a handler: guard, time-out, panics, retries, counting |
//! | [`schedules`] | jobs that the clock adds |
//! | [`pauses`] | pauses of queues, which outlive what Redis holds |
//! | [`exclusive`] | work that one replica does at a time |
//! | [`queues`] | the queues and jobs of this service |
//! | [`upkeep`] | its handler of what the clock starts |
//! | [`heavy`] | its handler of what takes minutes to hours |

pub mod exclusive;
pub mod handler;
pub mod heavy;
#[macro_use]
pub mod jobs;
pub mod pauses;
pub mod producer;
#[macro_use]
pub mod queue_set;
pub mod queues;
mod running;
pub mod schedules;
pub mod upkeep;
pub mod worker;

pub use self::exclusive::{Exclusive, Fence, Run};
pub use self::handler::{Handled, JobContext, JobFailure, JobHandler};
pub use self::jobs::{Jobs, Payload, Scope, Unreadable};
pub use self::pauses::{KeptPauses, QueuePauses};
pub use self::producer::{AddError, Producer, When};
pub use self::queue_set::{OpenQueues, QueueSet};
pub use self::schedules::{Schedule, ScheduleError, ScheduleTable};
pub use self::worker::WorkerKit;
