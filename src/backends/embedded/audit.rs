//! What operators did by the API.

use std::sync::Arc;
use std::time::Duration;

use diesel::prelude::*;

use super::database::Database;
use super::errors::JobError;
use super::schema::audit_log as log;
use crate::backends::stored::{StoredAction, action};
use crate::domain::audit::{AuditEntry, NewAction};
use crate::ports::audit::{AuditLog, AuditPage, LARGEST_AUDIT_PAGE};
use crate::ports::clock::Clock;
use crate::ports::{BoxFuture, StoreResult};

pub(super) struct SqliteAuditLog {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

impl SqliteAuditLog {
    pub(super) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }
}

impl AuditLog for SqliteAuditLog {
    fn begin(&self, action: NewAction) -> BoxFuture<'_, StoreResult<i64>> {
        let at_ms = self.clock.now_ms();
        Box::pin(self.database.write(move |connection| {
            Ok(diesel::insert_into(log::table)
                .values((
                    log::at_ms.eq(at_ms),
                    log::done_by.eq(&*action.by.name),
                    log::role.eq(action.by.role.as_str()),
                    log::action.eq(&*action.action),
                    log::subject.eq(&action.subject),
                ))
                .returning(log::id)
                .get_result(connection)?)
        }))
    }

    fn end(&self, id: i64, status: u16) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.database.write(move |connection| {
            diesel::update(log::table.find(id)).set(log::status.eq(i32::from(status))).execute(connection)?;
            Ok(())
        }))
    }

    fn list(&self, page: AuditPage) -> BoxFuture<'_, StoreResult<Vec<AuditEntry>>> {
        Box::pin(self.database.read(move |connection| {
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
            let rows: Vec<StoredAction> = query.load(connection)?;
            rows.into_iter().map(|row| action(row).map_err(JobError::from)).collect()
        }))
    }

    fn purge(&self, older_than: Duration, limit: usize) -> BoxFuture<'_, StoreResult<u64>> {
        let age_ms = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
        let before_ms = self.clock.now_ms().saturating_sub(age_ms);
        Box::pin(self.database.write(move |connection| {
            let old = log::table.filter(log::at_ms.lt(before_ms)).order(log::at_ms.asc());
            let old = old.limit(i64::try_from(limit).unwrap_or(i64::MAX)).select(log::id);
            let ids: Vec<i64> = old.load(connection)?;
            let mut gone = 0;
            for ids in ids.chunks(500) {
                gone += diesel::delete(log::table.filter(log::id.eq_any(ids))).execute(connection)?;
            }
            Ok(gone as u64)
        }))
    }
}
