//! Heavy jobs, as the store keeps them: work on one client that takes minutes to hours. The queue has the kick; what is to be done, how far it
//! is and what became of it stand here.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::config::ClientId;
use super::job::JobId;

/// A heavy job.
#[derive(Debug, Clone, PartialEq)]
pub struct HeavyJob {
    /// Its id in the queue: the same work has the same id, for as long as the job is kept.
    pub id: JobId,
    /// For whom it is done.
    pub client: ClientId,
    /// The name of the job in the queue: `resync`.
    pub kind: String,
    /// Its payload in the queue.
    pub parameters: Value,
    /// How far it is.
    pub state: HeavyState,
    /// Where it goes on, in its own words; null: at its beginning.
    pub position: Value,
    /// What it has counted.
    pub progress: Value,
    /// Why it ended as it did.
    pub reason: Option<String>,
    /// When it was asked for, milliseconds since 1970. With the id this names one run of the work.
    pub created_ms: i64,
    /// When it was written last, milliseconds since 1970.
    pub updated_ms: i64,
}

impl HeavyJob {
    /// Work that nobody has begun.
    pub fn new(id: JobId, client: ClientId, kind: &str, parameters: Value, now_ms: i64) -> Self {
        Self {
            id,
            client,
            kind: kind.to_owned(),
            parameters,
            state: HeavyState::Open,
            position: Value::Null,
            progress: Value::Null,
            reason: None,
            created_ms: now_ms,
            updated_ms: now_ms,
        }
    }
}

/// How far a heavy job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeavyState {
    /// It waits or runs: the queue has it, or has it again soon.
    Open,
    /// It was done.
    Done,
    /// It was given up.
    Failed,
    /// An operator ended it, or the owner of its client was blocked.
    Cancelled,
}

impl HeavyState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Open, Self::Done, Self::Failed, Self::Cancelled];

    /// The word in the stores and in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for HeavyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for HeavyState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|state| state.as_str() == text);
        found.ok_or_else(|| format!("{text:?} is no state of a heavy job"))
    }
}

/// What whoever runs a heavy job writes down.
#[derive(Debug, Clone, PartialEq)]
pub struct HeavyStep {
    /// How far it is now.
    pub state: HeavyState,
    /// Where it goes on.
    pub position: Value,
    /// What it has counted.
    pub progress: Value,
    /// Why it ended, when it did.
    pub reason: Option<String>,
    /// When, milliseconds since 1970.
    pub now_ms: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_reads_what_it_writes() {
        for state in HeavyState::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        assert!("running".parse::<HeavyState>().is_err());
    }
}
