//! What operators decided.

use std::sync::Arc;

use diesel::prelude::*;

use super::database::Database;
use super::errors::JobError;
use super::schema::decisions;
use crate::backends::stored::decision;
use crate::domain::decision::{Decision, DecisionKind, Subject};
use crate::ports::decisions::Decisions;
use crate::ports::{BoxFuture, StoreResult};

pub(super) struct SqliteDecisions {
    database: Arc<Database>,
}

impl SqliteDecisions {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

impl Decisions for SqliteDecisions {
    fn list(&self, kind: DecisionKind) -> BoxFuture<'_, StoreResult<Vec<Decision>>> {
        Box::pin(self.database.read(move |connection| {
            let rows: Vec<(String, String, String, i64)> = decisions::table
                .filter(decisions::kind.eq(kind.as_str()))
                .select((decisions::subject, decisions::decided_by, decisions::reason, decisions::since_ms))
                .load(connection)?;
            rows.iter()
                .map(|(subject, by, reason, since_ms)| decision(subject, by, reason, *since_ms))
                .collect::<StoreResult<_>>()
                .map_err(JobError::from)
        }))
    }

    fn put(&self, kind: DecisionKind, made: Decision) -> BoxFuture<'_, StoreResult<Decision>> {
        Box::pin(self.database.write(move |connection| {
            let said = (decisions::decided_by.eq(made.by()), decisions::reason.eq(made.reason()));
            let since_ms: i64 = diesel::insert_into(decisions::table)
                .values((
                    decisions::kind.eq(kind.as_str()),
                    decisions::subject.eq(made.subject().as_str()),
                    decisions::since_ms.eq(made.since_ms()),
                    said,
                ))
                .on_conflict((decisions::kind, decisions::subject))
                .do_update()
                .set(said)
                .returning(decisions::since_ms)
                .get_result(connection)?;
            Ok(made.since(since_ms))
        }))
    }

    fn remove<'a>(&'a self, kind: DecisionKind, subject: &'a Subject) -> BoxFuture<'a, StoreResult<bool>> {
        let subject = subject.clone();
        Box::pin(self.database.write(move |connection| {
            let row = decisions::table.find((kind.as_str(), subject.as_str()));
            Ok(diesel::delete(row).execute(connection)? == 1)
        }))
    }
}
