//! A mistake in the settings.

use std::fmt;

/// A mistake in the settings, as one line: the key, what is wrong, and where it was set.
/// Holds no value of a secret. The process ends with exit code 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SettingsError {
    key: String,
    problem: String,
    origin: Option<String>,
}

impl SettingsError {
    /// A mistake at `key`: `api.port`, or the name of an environment variable.
    pub fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into(), origin: None }
    }

    /// Says where it was set: a file or an environment variable.
    pub(super) fn set_in(mut self, origin: impl Into<String>) -> Self {
        self.origin = Some(origin.into());
        self
    }

    /// The key at fault.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)?;
        match &self.origin {
            Some(origin) => write!(f, " (set in {origin})"),
            None => Ok(()),
        }
    }
}
