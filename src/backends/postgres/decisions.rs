//! What operators decided.

use std::sync::Arc;

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::database::Database;
use super::errors::JobError;
use super::schema::decisions;
use super::{key, text};
use crate::backends::stored::decision;
use crate::domain::decision::{Decision, DecisionKind, Subject};
use crate::ports::decisions::Decisions;
use crate::ports::{BoxFuture, StoreResult};

pub(super) struct PgDecisions {
    database: Arc<Database>,
}

impl PgDecisions {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

type Row = (Vec<u8>, Vec<u8>, Vec<u8>, i64);

fn read((subject, by, reason, since_ms): Row) -> StoreResult<Decision> {
    let text = |bytes| text(bytes, "decision");
    decision(&text(subject)?, &text(by)?, &text(reason)?, since_ms)
}

impl Decisions for PgDecisions {
    fn list(&self, kind: DecisionKind) -> BoxFuture<'_, StoreResult<Vec<Decision>>> {
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let rows: Vec<Row> = decisions::table
                    .filter(decisions::kind.eq(kind.as_str()))
                    .select((
                        decisions::subject,
                        decisions::decided_by,
                        decisions::reason,
                        decisions::since_ms,
                    ))
                    .load(connection)
                    .await?;
                rows.into_iter().map(read).collect::<StoreResult<_>>().map_err(JobError::from)
            })
        }))
    }

    fn put(&self, kind: DecisionKind, made: Decision) -> BoxFuture<'_, StoreResult<Decision>> {
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let said = (
                    decisions::decided_by.eq(made.by().as_bytes()),
                    decisions::reason.eq(made.reason().as_bytes()),
                );
                let since_ms: i64 = diesel::insert_into(decisions::table)
                    .values((
                        decisions::kind.eq(kind.as_str()),
                        decisions::subject.eq(key(made.subject().as_str())?),
                        decisions::since_ms.eq(made.since_ms()),
                        said,
                    ))
                    .on_conflict((decisions::kind, decisions::subject))
                    .do_update()
                    .set(said)
                    .returning(decisions::since_ms)
                    .get_result(connection)
                    .await?;
                Ok(made.since(since_ms))
            })
        }))
    }

    fn remove<'a>(&'a self, kind: DecisionKind, subject: &'a Subject) -> BoxFuture<'a, StoreResult<bool>> {
        let subject = subject.clone();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let row = decisions::table.find((kind.as_str(), key(subject.as_str())?));
                Ok(diesel::delete(row).execute(connection).await? == 1)
            })
        }))
    }
}
