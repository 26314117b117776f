//! What operators did by the API: who, what, to what, and what came of it. Neither secrets nor payloads.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::access::{AccessRole, Caller};

/// Bytes that are kept of what an action was about.
const SUBJECT_BYTES: usize = 512;

/// An action that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAction {
    /// Who acts.
    pub by: Caller,
    /// What: the operation's name in the API.
    pub action: Arc<str>,
    /// To what: the ids in the path, percent-encoded as they came, with `/` between them. Empty: to the service.
    pub subject: String,
}

impl NewAction {
    /// An action on what a path names. A subject that is too long is cut.
    pub fn new(by: Caller, action: Arc<str>, mut subject: String) -> Self {
        subject.retain(|c| c.is_ascii_graphic());
        subject.truncate(SUBJECT_BYTES);
        Self { by, action, subject }
    }
}

/// What came of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ActionOutcome {
    /// It was done.
    Done,
    /// It was not done: it may not be, or there is nothing to do it to.
    Refused,
    /// It could not be done.
    Failed,
    /// Nobody wrote down its end: it goes on, or the process ended in the middle of it.
    Unknown,
}

impl ActionOutcome {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Done, Self::Refused, Self::Failed, Self::Unknown];

    /// What the HTTP status of the answer says; `None`: there was none yet.
    pub fn of(status: Option<u16>) -> Self {
        match status {
            None => Self::Unknown,
            Some(..400) => Self::Done,
            Some(400..500) => Self::Refused,
            Some(500..) => Self::Failed,
        }
    }

    /// The word in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for ActionOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An action as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Rises with each action.
    pub id: i64,
    /// When it began, milliseconds since 1970, by the store's clock.
    pub at_ms: i64,
    /// The name of the token, or `loopback`.
    pub by: String,
    /// What that allowed then.
    pub role: AccessRole,
    /// The operation's name in the API.
    pub action: String,
    /// The ids in the path, percent-encoded.
    pub subject: String,
    /// The HTTP status of the answer; `None`: its end was not written.
    pub status: Option<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_short_and_plain() {
        let new = |subject: &str| NewAction::new(Caller::loopback(), "x".into(), subject.to_owned()).subject;
        assert_eq!(new("acme/evt_1%00"), "acme/evt_1%00");
        assert_eq!(new("a\n\u{0}é b"), "ab");
        assert_eq!(new(&"a".repeat(600)).len(), 512);
    }

    #[test]
    fn an_outcome_is_read_off_the_status() {
        for (status, outcome) in [
            (None, ActionOutcome::Unknown),
            (Some(204), ActionOutcome::Done),
            (Some(403), ActionOutcome::Refused),
            (Some(409), ActionOutcome::Refused),
            (Some(503), ActionOutcome::Failed),
        ] {
            assert_eq!(ActionOutcome::of(status), outcome);
        }
    }
}
