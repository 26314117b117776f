//! What a process does.

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use crate::domain::job::Workload;

/// A part of the service's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Reads change events, and finds out whose they are.
    Ingest,
    /// Delivers.
    Transfer,
    /// Runs short jobs.
    Retry,
    /// Keeps the schedules, and runs their jobs.
    Schedule,
    /// Runs jobs of minutes to hours.
    Heavy,
    /// Answers the API. Status, probes and metrics every process answers.
    Web,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Ingest, Self::Transfer, Self::Retry, Self::Schedule, Self::Heavy, Self::Web];

    /// The word in the settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Transfer => "transfer",
            Self::Retry => "retry",
            Self::Schedule => "schedule",
            Self::Heavy => "heavy",
            Self::Web => "web",
        }
    }

    /// Who runs jobs of this kind.
    pub const fn of(workload: Workload) -> Self {
        match workload {
            Workload::Light => Self::Retry,
            Workload::Scheduled => Self::Schedule,
            Workload::Heavy => Self::Heavy,
        }
    }
}

/// The roles of a process: one at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles(Vec<Role>);

impl Roles {
    /// Whether this is one of them.
    pub fn has(&self, role: Role) -> bool {
        self.0.contains(&role)
    }

    /// Whether nothing is left out.
    pub fn are_all(&self) -> bool {
        Role::ALL.into_iter().all(|role| self.has(role))
    }

    /// Each once, in the order of the flow.
    pub fn list(&self) -> Vec<Role> {
        Role::ALL.into_iter().filter(|role| self.has(*role)).collect()
    }
}

impl<'de> Deserialize<'de> for Roles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = Vec::<String>::deserialize(deserializer)?;
        let role = |word: String| {
            let found = Role::ALL.into_iter().find(|role| role.as_str() == word);
            found.ok_or_else(|| {
                let all = Role::ALL.map(Role::as_str).join(", ");
                D::Error::custom(format!("{word:?} is no role (there are {all})"))
            })
        };
        let roles = words.into_iter().map(role).collect::<Result<Vec<_>, _>>()?;
        if roles.is_empty() {
            return Err(D::Error::custom("must name one role at least"));
        }
        Ok(Self(roles))
    }
}
