//! How to reach PostgreSQL, and why it cannot be used.

use std::time::Duration;

use crate::domain::config::Secret;
use crate::ports::StoreError;

/// How the connection is protected, in libpq's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// Never encrypted.
    Disable,
    /// Encrypted if the server can; its certificate is not looked at.
    #[default]
    Prefer,
    /// Encrypted or not at all; the certificate is not looked at.
    Require,
    /// Encrypted, and the certificate is for that host and of a known root.
    VerifyFull,
}

impl std::str::FromStr for TlsMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "disable" => Ok(Self::Disable),
            "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-full" => Ok(Self::VerifyFull),
            other => Err(format!("expected disable, prefer, require or verify-full, found {other:?}")),
        }
    }
}

/// How to reach PostgreSQL.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database?sslmode=...`: what it says goes before the fields below.
    pub url: Option<Secret>,
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The database; it must exist.
    pub database: String,
    /// The role: it must own the schema, or may create it.
    pub user: String,
    /// Its password; `None` where none is asked for.
    pub password: Option<Secret>,
    /// What stands before `dispatcher` in the name of the schema: letters, digits, `-` and `_`, at most 40. May be empty.
    pub prefix: String,
    /// Connections at most.
    pub pool_size: u32,
    /// How long a connection may take to open.
    pub connect_timeout: Duration,
    /// How the connection is protected.
    pub tls: TlsMode,
    /// Root certificates (PEM) that are trusted beside Mozilla's, for [`TlsMode::VerifyFull`].
    pub extra_roots: Option<Vec<u8>>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            url: None,
            host: "127.0.0.1".into(),
            port: 5432,
            database: "postgres".into(),
            user: "postgres".into(),
            password: None,
            prefix: String::new(),
            pool_size: 8,
            connect_timeout: Duration::from_secs(5),
            tls: TlsMode::default(),
            extra_roots: None,
        }
    }
}

impl PostgresOptions {
    /// The schema that holds the tables.
    pub(super) fn schema(&self) -> Result<String, OpenError> {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if self.prefix.len() > 40 || !self.prefix.chars().all(fits) {
            let problem = "the prefix holds letters, digits, - and _ only, 40 at most";
            return Err(OpenError::Options(problem.into()));
        }
        Ok(format!("{}dispatcher", self.prefix))
    }
}

/// Why PostgreSQL could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The options contradict themselves.
    #[error("{0}")]
    Options(String),
    /// It answers, and does not let us in: role, password or database are wrong.
    #[error("refused: {0}")]
    Rejected(String),
    /// It cannot be reached right now.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The tables could not be brought up to date.
    #[error("migrations: {0}")]
    Migrations(String),
}

impl OpenError {
    /// Whether the same may succeed later without anybody changing the settings.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

impl From<OpenError> for StoreError {
    /// Once it was open, whatever keeps a connection from being made again is waited for: somebody is at it.
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Unavailable(why) => Self::Unavailable(why),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_named_by_the_prefix() {
        let of = |prefix: &str| PostgresOptions { prefix: prefix.into(), ..Default::default() }.schema();
        assert_eq!(of(""), Ok("dispatcher".into()));
        assert_eq!(of("Wnx-2_"), Ok("Wnx-2_dispatcher".into()));
        for broken in ["a\"; drop schema public", "é", "a.b", &"x".repeat(41)] {
            assert!(matches!(of(broken), Err(OpenError::Options(_))), "{broken}");
        }
    }
}
