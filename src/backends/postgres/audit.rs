//! What operators did by the API, by the clock of the server.

use std::sync::Arc;
use std::time::Duration;

use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use super::database::Database;
use super::errors::JobResult;
use super::schema::audit_log as log;
use crate::backends::stored::{StoredAction, action};
use crate::domain::audit::{AuditEntry, NewAction};
use crate::ports::audit::{AuditLog, AuditPage, LARGEST_AUDIT_PAGE};
use crate::ports::{BoxFuture, StoreResult};

const BEGIN: &str = "INSERT INTO audit_log (at_ms, done_by, role, action, subject)
    VALUES ((extract(epoch FROM clock_timestamp()) * 1000)::bigint, $1, $2, $3, $4) RETURNING id";

const PURGE: &str = "DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log
    WHERE at_ms < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1 ORDER BY at_ms LIMIT $2)";

#[derive(QueryableByName)]
struct Numbered {
    #[diesel(sql_type = BigInt)]
    id: i64,
}

pub(super) struct PgAuditLog {
    database: Arc<Database>,
}

impl PgAuditLog {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

async fn list(connection: &mut AsyncPgConnection, page: &AuditPage) -> JobResult<Vec<AuditEntry>> {
    let mut query = log::table
        .filter(log::id.lt(page.before.unwrap_or(i64::MAX)))
        .order(log::id.desc())
        .limit(page.limit.min(LARGEST_AUDIT_PAGE) as i64)
        .into_boxed();
    if let Some(by) = &page.by {
        query = query.filter(log::done_by.eq(by));
    }
    if let Some(action) = &page.action {
        query = query.filter(log::action.eq(action));
    }
    if let Some(subject) = &page.subject {
        query = query.filter(log::subject.eq(subject));
    }
    let rows: Vec<StoredAction> = query.load(connection).await?;
    Ok(rows.into_iter().map(action).collect::<StoreResult<_>>()?)
}

impl AuditLog for PgAuditLog {
    fn begin(&self, action: NewAction) -> BoxFuture<'_, StoreResult<i64>> {
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let begun: Numbered = sql_query(BEGIN)
                    .bind::<Text, _>(&*action.by.name)
                    .bind::<Text, _>(action.by.role.as_str())
                    .bind::<Text, _>(&*action.action)
                    .bind::<Text, _>(&action.subject)
                    .get_result(connection)
                    .await?;
                Ok(begun.id)
            })
        }))
    }

    fn end(&self, id: i64, status: u16) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                diesel::update(log::table.find(id))
                    .set(log::status.eq(i32::from(status)))
                    .execute(connection)
                    .await?;
                Ok(())
            })
        }))
    }

    fn list(&self, page: AuditPage) -> BoxFuture<'_, StoreResult<Vec<AuditEntry>>> {
        Box::pin(self.database.run(move |connection| Box::pin(async move { list(connection, &page).await })))
    }

    fn purge(&self, older_than: Duration, limit: usize) -> BoxFuture<'_, StoreResult<u64>> {
        let age_ms = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let purged = sql_query(PURGE)
                    .bind::<BigInt, _>(age_ms)
                    .bind::<BigInt, _>(limit)
                    .execute(connection)
                    .await?;
                Ok(purged as u64)
            })
        }))
    }
}
