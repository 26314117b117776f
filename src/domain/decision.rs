//! What an operator decided until he decides otherwise: whose work is not done, which queue stands still.

use std::sync::Arc;

use serde::Serialize;

const SUBJECT_BYTES: usize = 512;
const BY_CHARS: usize = 100;
const REASON_CHARS: usize = 500;

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecisionKind {
    /// The work of an owner of client configs is not done. The subject is his id.
    BlockedOwner,
    /// No worker takes a job of a queue. The subject is its name.
    PausedQueue,
    /// Nothing is sent to a client: its changes wait. The subject is its id.
    PausedClient,
}

impl DecisionKind {
    /// The word in the stores.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BlockedOwner => "blocked_owner",
            Self::PausedQueue => "paused_queue",
            Self::PausedClient => "paused_client",
        }
    }
}

/// Whom or what a decision is about: 1 to 512 bytes without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Subject(Arc<str>);

impl Subject {
    /// Takes a text as it is, if it fits.
    ///
    /// # Errors
    /// When it does not.
    pub fn parse(text: &str) -> Result<Self, DecisionError> {
        if text.is_empty() || text.len() > SUBJECT_BYTES {
            return Err(DecisionError::new("subject", "must be 1 to 512 bytes"));
        }
        plain("subject", text)?;
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Subject {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A decision that holds. Its texts are short, and have no control characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    subject: Subject,
    by: String,
    reason: String,
    since_ms: i64,
}

impl Decision {
    /// A decision of `by` (at most 100 characters), for this `reason` (at most 500, may be empty), that holds since `since_ms`
    /// (milliseconds since 1970).
    ///
    /// # Errors
    /// When a text is too long, or has control characters.
    pub fn new(subject: Subject, by: &str, reason: &str, since_ms: i64) -> Result<Self, DecisionError> {
        if by.is_empty() || by.chars().count() > BY_CHARS {
            return Err(DecisionError::new("by", "must be 1 to 100 characters"));
        }
        if reason.chars().count() > REASON_CHARS {
            return Err(DecisionError::new("reason", "must be at most 500 characters"));
        }
        plain("by", by)?;
        plain("reason", reason)?;
        Ok(Self { subject, by: by.to_owned(), reason: reason.to_owned(), since_ms })
    }

    /// Whom or what it is about.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Who decided.
    pub fn by(&self) -> &str {
        &self.by
    }

    /// Why; may be empty.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Since when, milliseconds since 1970.
    pub fn since_ms(&self) -> i64 {
        self.since_ms
    }

    /// The same, since then.
    #[must_use]
    pub fn since(self, since_ms: i64) -> Self {
        Self { since_ms, ..self }
    }
}

/// A text of a decision does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{member}: {problem}")]
pub struct DecisionError {
    /// Which: `subject`, `by` or `reason`.
    pub member: &'static str,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl DecisionError {
    fn new(member: &'static str, problem: &'static str) -> Self {
        Self { member, problem }
    }
}

fn plain(member: &'static str, text: &str) -> Result<(), DecisionError> {
    if text.chars().any(char::is_control) {
        return Err(DecisionError::new(member, "must not hold control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_bounded_and_plain() {
        let subject = || Subject::parse("o").unwrap();
        let wrong = |by: &str, reason: &str| Decision::new(subject(), by, reason, 0).unwrap_err().member;
        assert_eq!(wrong("", ""), "by");
        assert_eq!(wrong(&"é".repeat(101), ""), "by");
        assert_eq!(wrong("a\u{7}", ""), "by");
        assert_eq!(wrong("a", &"é".repeat(501)), "reason");
        assert_eq!(wrong("a", "b\nc"), "reason");
        assert!(Decision::new(subject(), &"é".repeat(100), &"é".repeat(500), 0).is_ok());
        for text in ["", "a\u{0}", "\u{85}", &"a".repeat(513)] {
            assert_eq!(Subject::parse(text).unwrap_err().member, "subject", "{text:?}");
        }
        assert!(Subject::parse(&"a".repeat(512)).is_ok());
    }
}
