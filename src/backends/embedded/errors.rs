//! What SQLite's errors mean for who asked.

use diesel::result::{DatabaseErrorKind, Error};

use crate::ports::StoreError;

/// Why a job did not do its work.
#[derive(Debug)]
pub(super) enum JobError {
    /// SQLite said no.
    Sqlite(Error),
    /// The job itself said no.
    Store(StoreError),
    /// It concerns more rows than one job may take: they go in parts.
    TooManyRows,
}

/// The answer of a job.
pub(super) type JobResult<T> = Result<T, JobError>;

impl From<Error> for JobError {
    fn from(error: Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for JobError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

// diesel hands on SQLite's extended code only for constraints; of the rest it keeps `sqlite3_errmsg`, which for
// these is the fixed text of `sqlite3_errstr`.
const TOO_BIG: &str = "string or blob too big";
const MISMATCH: &str = "datatype mismatch";
const IO_ERROR: &str = "disk I/O error";
const CANNOT_OPEN: &str = "unable to open database file";

impl JobError {
    /// Data that contradicts what is stored, or what was stored in a form that is not ours.
    pub(super) fn refused(reason: impl Into<String>) -> Self {
        Self::Store(StoreError::Refused(reason.into()))
    }

    /// Somebody else owns it by now.
    pub(super) fn fenced(reason: impl Into<String>) -> Self {
        Self::Store(StoreError::Fenced(reason.into()))
    }

    /// Whether the connection is worth nothing any more.
    pub(super) fn breaks_connection(&self) -> bool {
        matches!(self, Self::Sqlite(Error::DatabaseError(_, info))
            if [IO_ERROR, CANNOT_OPEN].contains(&info.message()))
            || matches!(self, Self::Sqlite(Error::BrokenTransactionManager))
    }
}

impl From<JobError> for StoreError {
    /// What is not known waits: a change that is tried again is not lost.
    fn from(error: JobError) -> Self {
        let error = match error {
            JobError::Store(error) => return error,
            JobError::TooManyRows => {
                return Self::Unavailable("it concerns very many rows, which go in parts".into());
            }
            JobError::Sqlite(error) => error,
        };
        let refused = match &error {
            Error::DatabaseError(kind, info) => match kind {
                DatabaseErrorKind::UniqueViolation
                | DatabaseErrorKind::ForeignKeyViolation
                | DatabaseErrorKind::NotNullViolation
                | DatabaseErrorKind::CheckViolation => true,
                _ => [TOO_BIG, MISMATCH].contains(&info.message()),
            },
            Error::SerializationError(_) | Error::DeserializationError(_) | Error::InvalidCString(_) => true,
            _ => false,
        };
        if refused { Self::Refused(error.to_string()) } else { Self::Unavailable(error.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: DatabaseErrorKind, message: &str) -> StoreError {
        JobError::from(Error::DatabaseError(kind, Box::new(message.to_owned()))).into()
    }

    #[test]
    fn data_is_refused_and_the_store_is_waited_for() {
        for kind in [
            DatabaseErrorKind::UniqueViolation,
            DatabaseErrorKind::CheckViolation,
            DatabaseErrorKind::NotNullViolation,
        ] {
            assert!(!of(kind, "constraint failed").is_transient());
        }
        assert!(!of(DatabaseErrorKind::Unknown, TOO_BIG).is_transient());
        for message in
            ["database or disk is full", "database is locked", IO_ERROR, CANNOT_OPEN, "new in 2030"]
        {
            assert!(of(DatabaseErrorKind::Unknown, message).is_transient(), "{message}");
        }
    }
}
