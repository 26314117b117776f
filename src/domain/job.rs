//! Jobs: their ids, the queues that hold them, and when scheduled ones are due.

mod cadence;
mod id;
mod queue;

pub use self::cadence::{Cadence, CadenceError};
pub use self::id::{JobId, JobIdError};
pub use self::queue::{QueueSpec, Retention, Workload, check_job_names, check_queues};

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// It runs as soon as a worker is free.
    Waiting,
    /// As waiting, ordered by its priority, behind those that have none.
    Prioritized,
    /// A worker has it.
    Active,
    /// It runs when its time has come.
    Delayed,
    /// Done, and kept.
    Completed,
    /// Given up, and kept.
    Failed,
}

impl JobState {
    /// All of them, in the order in which boards show them.
    pub const ALL: [Self; 6] =
        [Self::Active, Self::Waiting, Self::Prioritized, Self::Delayed, Self::Completed, Self::Failed];

    /// The word of the API, the metrics and BullMQ.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Prioritized => "prioritized",
            Self::Active => "active",
            Self::Delayed => "delayed",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

impl std::fmt::Display for JobState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
