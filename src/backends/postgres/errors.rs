//! What PostgreSQL's errors mean for who asked.

use diesel::result::{DatabaseErrorKind, Error};

use crate::ports::StoreError;

/// Why a piece of work was not done.
#[derive(Debug)]
pub(super) enum JobError {
    /// PostgreSQL said no, or nothing.
    Database(Error),
    /// The work itself said no.
    Store(StoreError),
    /// It concerns more rows than one transaction may take: they go in parts.
    TooManyRows,
}

/// The answer of a piece of work.
pub(super) type JobResult<T> = Result<T, JobError>;

impl From<Error> for JobError {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl From<StoreError> for JobError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl JobError {
    /// Somebody else owns it by now.
    pub(super) fn fenced(reason: impl Into<String>) -> Self {
        Self::Store(StoreError::Fenced(reason.into()))
    }

    /// Whether one of several batches may have caused it, so that the others would be written without that one.
    pub(super) fn may_be_of_the_data(&self) -> bool {
        use DatabaseErrorKind::{
            ClosedConnection, ReadOnlyTransaction, SerializationFailure, UnableToSendCommand,
        };
        match self {
            Self::Database(Error::DatabaseError(kind, _)) => !matches!(
                kind,
                ClosedConnection | ReadOnlyTransaction | SerializationFailure | UnableToSendCommand
            ),
            Self::Database(Error::SerializationError(_)) => true,
            _ => false,
        }
    }
}

impl From<JobError> for StoreError {
    /// Diesel keeps SQLSTATE of class 23 (a constraint) only, as its kind. The other classes of data errors cannot come: text
    /// from outside is bytes (22), and whatever an index holds is hashed, or bounded before it is sent (54). What is not known
    /// waits: a change that is tried again is not lost.
    fn from(error: JobError) -> Self {
        use DatabaseErrorKind::{
            CheckViolation, ExclusionViolation, ForeignKeyViolation, NotNullViolation, RestrictViolation,
            UniqueViolation,
        };
        let error = match error {
            JobError::Store(error) => return error,
            JobError::TooManyRows => {
                return Self::Unavailable("it concerns very many rows, which go in parts".into());
            }
            JobError::Database(error) => error,
        };
        let refused = match &error {
            Error::DatabaseError(kind, _) => matches!(
                kind,
                CheckViolation
                    | ExclusionViolation
                    | ForeignKeyViolation
                    | NotNullViolation
                    | RestrictViolation
                    | UniqueViolation
            ),
            Error::SerializationError(_) | Error::DeserializationError(_) => true,
            _ => false,
        };
        if refused { Self::Refused(error.to_string()) } else { Self::Unavailable(error.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: DatabaseErrorKind) -> JobError {
        Error::DatabaseError(kind, Box::new("said the server".to_owned())).into()
    }

    #[test]
    fn data_is_refused_and_the_store_is_waited_for() {
        for kind in [DatabaseErrorKind::UniqueViolation, DatabaseErrorKind::CheckViolation] {
            assert!(error(kind).may_be_of_the_data());
            assert!(!StoreError::from(error(kind)).is_transient());
        }
        for kind in [
            DatabaseErrorKind::UnableToSendCommand,
            DatabaseErrorKind::ReadOnlyTransaction,
            DatabaseErrorKind::SerializationFailure,
        ] {
            assert!(!error(kind).may_be_of_the_data());
            assert!(StoreError::from(error(kind)).is_transient());
        }
        assert!(error(DatabaseErrorKind::Unknown).may_be_of_the_data(), "tried alone, and then waited for");
        assert!(StoreError::from(error(DatabaseErrorKind::Unknown)).is_transient());
    }
}
