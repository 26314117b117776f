//! The id of a job: what BullMQ in Rust and in Node both take, and nothing that either stumbles over.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::domain::config::ClientId;

/// An id of at most 128 letters, digits, `_`, `.` and `-`, deterministic: the same work has the same id, so that adding it
/// twice is one job.
///
/// Refused are integers and `NaN` (Node takes them for numbers), what begins with `-` (Node takes an id below 0, `-1.5` too, for the error
/// code of a script), and the names that BullMQ gives to its own keys: a job with the id `wait` would lie where the list of waiting
/// jobs is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(Arc<str>);

/// Why a text is no job id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobIdError {
    /// Nothing at all, or more than 128 characters.
    #[error("a job id has 1 to 128 characters")]
    Length,
    /// Something else than letters, digits, `_`, `.` and `-`.
    #[error("a job id has only A-Z, a-z, 0-9, '_', '.' and '-'")]
    Character,
    /// Node would read it as a number.
    #[error("a job id is no number and does not begin with '-'")]
    Number,
    /// A key of the queue itself has this name.
    #[error("a key of the queue has this name")]
    Reserved,
}

const LONGEST: usize = 128;
const LONGEST_PART: usize = 64;

/// What stands under `<prefix>:<queue>:` beside the jobs, in any version of BullMQ.
const RESERVED: [&str; 20] = [
    "active",
    "completed",
    "de",
    "delayed",
    "events",
    "failed",
    "id",
    "limiter",
    "marker",
    "meta",
    "metrics",
    "paused",
    "pc",
    "prioritized",
    "priority",
    "repeat",
    "stalled",
    "stalled-check",
    "wait",
    "waiting-children",
];

impl JobId {
    /// Takes a text as it is, if it is an id.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, JobIdError> {
        if text.is_empty() || text.len() > LONGEST {
            return Err(JobIdError::Length);
        }
        if !text.bytes().all(is_allowed) {
            return Err(JobIdError::Character);
        }
        if text == "NaN" || text.starts_with('-') || text.bytes().all(|c| c.is_ascii_digit()) {
            return Err(JobIdError::Number);
        }
        if Self::is_of_queue(text) {
            return Err(JobIdError::Reserved);
        }
        Ok(Self(text.into()))
    }

    /// Whether a key of the queue itself has this name.
    pub fn is_of_queue(text: &str) -> bool {
        RESERVED.contains(&text)
    }

    /// `<kind>-<part>`. A part (or kind) that does not fit becomes `h-<32 hex>`, of its SHA-256; different parts have different ids.
    pub fn of(kind: &str, part: &str) -> Self {
        let kind = if kind.starts_with('-') { hashed(kind) } else { fitted(kind) };
        let id = format!("{kind}-{}", fitted(part));
        if Self::is_of_queue(&id) {
            return Self(format!("{kind}-{}", hashed(part)).into());
        }
        Self(id.into())
    }

    /// `<kind>-<client>`.
    pub fn of_client(kind: &str, client: &ClientId) -> Self {
        Self::of(kind, client.as_str())
    }

    /// `<this>-<16 hex>`, of the SHA-256 of `parameters`: the same work with other parameters is another job. Cuts nothing: an id
    /// that would be too long has its front hashed.
    pub fn with_parameters(&self, parameters: &[u8]) -> Self {
        let hash = hex(parameters, 8);
        let id = format!("{self}-{hash}");
        if id.len() > LONGEST { Self(format!("{}-{hash}", hashed(&self.0)).into()) } else { Self(id.into()) }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_allowed(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-')
}

fn fitted(part: &str) -> String {
    let fits = !part.is_empty() && part.len() <= LONGEST_PART && part.bytes().all(is_allowed);
    // What looks like a hash is hashed too: nobody can take the id of another by choosing his name.
    if fits && !is_hashed(part) { part.to_owned() } else { hashed(part) }
}

fn is_hashed(part: &str) -> bool {
    part.strip_prefix("h-").is_some_and(|hex| hex.len() == 32 && hex.bytes().all(|c| c.is_ascii_hexdigit()))
}

fn hashed(part: &str) -> String {
    format!("h-{}", hex(part.as_bytes(), 16))
}

fn hex(bytes: &[u8], length: usize) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes)[..length])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn takes_what_both_libraries_take() {
        for text in ["retry-1", "a", "A.b_c-d", "1a", "a-", "1-2", "1.5", ".", "x".repeat(128).as_str()] {
            assert_eq!(JobId::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn refuses_what_either_stumbles_over() {
        let long = "x".repeat(129);
        for (text, error) in [
            ("", JobIdError::Length),
            (long.as_str(), JobIdError::Length),
            ("a:b", JobIdError::Character),
            ("a b", JobIdError::Character),
            ("a\u{e4}", JobIdError::Character),
            ("0", JobIdError::Number),
            ("007", JobIdError::Number),
            ("-5", JobIdError::Number),
            ("-1.5", JobIdError::Number),
            ("-", JobIdError::Number),
            ("NaN", JobIdError::Number),
            ("wait", JobIdError::Reserved),
            ("stalled-check", JobIdError::Reserved),
        ] {
            assert_eq!(JobId::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn a_part_that_does_not_fit_is_hashed() {
        assert_eq!(JobId::of("retry", "64f0c0ffee").as_str(), "retry-64f0c0ffee");
        // printf 'a b' | sha256sum
        assert_eq!(JobId::of("retry", "a b").as_str(), "retry-h-c8687a08aa5d6ed2044328fa6a697ab8");
        assert_eq!(JobId::of("retry", &"x".repeat(65)).as_str().len(), "retry-h-".len() + 32);
    }

    #[test]
    fn nobody_takes_the_id_of_another() {
        let hashed = JobId::of("retry", "a b");
        let (_, name) = hashed.as_str().split_once('-').unwrap();
        assert_ne!(JobId::of("retry", name), hashed);
    }

    #[test]
    fn two_parts_never_make_a_key_of_the_queue() {
        for (kind, part) in [("stalled", "check"), ("waiting", "children")] {
            JobId::parse(JobId::of(kind, part).as_str()).unwrap();
        }
    }

    #[test]
    fn other_parameters_are_another_job() {
        let id = JobId::of("export", "c1");
        assert_eq!(id.with_parameters(b"1"), id.with_parameters(b"1"));
        assert_ne!(id.with_parameters(b"1"), id.with_parameters(b"2"));
        let long = JobId::parse(&"x".repeat(128)).unwrap();
        JobId::parse(long.with_parameters(b"1").as_str()).unwrap();
    }

    proptest! {
        #[test]
        fn whatever_the_parts_are_it_is_an_id(kind in ".{0,80}", part in ".{0,200}", parameters: Vec<u8>) {
            let id = JobId::of(&kind, &part);
            prop_assert_eq!(JobId::parse(id.as_str()), Ok(id.clone()));
            let more = id.with_parameters(&parameters);
            prop_assert_eq!(JobId::parse(more.as_str()), Ok(more.clone()));
            prop_assert_eq!(JobId::of(&kind, &part), id);
        }

        #[test]
        fn different_clients_have_different_ids(a in "[a-z h:-]{0,70}", b in "[a-z h:-]{0,70}") {
            prop_assert_eq!(JobId::of("retry", &a) == JobId::of("retry", &b), a == b);
        }
    }
}
