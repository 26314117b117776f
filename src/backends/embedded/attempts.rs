//! Attempts to deliver.

use std::collections::BTreeSet;
use std::sync::Arc;

use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;

use super::database::Database;
use super::errors::{JobError, JobResult};
use super::schema::attempts;
use crate::domain::attempt::Attempt;
use crate::domain::config::ClientId;
use crate::domain::transfer::EventId;
use crate::ports::attempts::{Attempts, LARGEST_ATTEMPT_PAGE};
use crate::ports::{BoxFuture, StoreResult};

/// How many go at a time.
const PURGED_AT_ONCE: i64 = 10_000;

type Row = (i64, String, String, Vec<u8>, i64, i64, bool, Option<i32>, String, i64, String);

pub(super) struct SqliteAttempts {
    database: Arc<Database>,
}

impl SqliteAttempts {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

fn append(connection: &mut SqliteConnection, attempt: &Attempt) -> JobResult<()> {
    diesel::insert_or_ignore_into(attempts::table)
        .values((
            attempts::client.eq(attempt.client.as_str()),
            attempts::event_id.eq(attempt.event_id.as_str()),
            attempts::document.eq(attempt.document.as_bytes()),
            attempts::at_ms.eq(attempt.at_ms),
            attempts::attempt.eq(i64::from(attempt.attempt)),
            attempts::delivered.eq(attempt.delivered),
            attempts::status.eq(attempt.status.map(i32::from)),
            attempts::reason.eq(&attempt.reason),
            attempts::latency_ms.eq(i64::try_from(attempt.latency_ms).unwrap_or(i64::MAX)),
            attempts::answer.eq(&attempt.answer),
        ))
        .execute(connection)?;
    Ok(())
}

fn keep_newest(connection: &mut SqliteConnection, client: &ClientId, keep: u32) -> JobResult<()> {
    let of_client = attempts::table.filter(attempts::client.eq(client.as_str()));
    let edge: Option<i64> = of_client
        .select(attempts::id)
        .order(attempts::id.desc())
        .offset(i64::from(keep))
        .first(connection)
        .optional()?;
    if let Some(edge) = edge {
        diesel::delete(of_client.filter(attempts::id.le(edge))).execute(connection)?;
    }
    Ok(())
}

fn read(row: Row) -> JobResult<(i64, Attempt)> {
    let (id, client, event_id, document, at_ms, attempt, delivered, status, reason, latency_ms, answer) = row;
    let broken = |what: &str| JobError::refused(format!("stored attempt {id} is broken: {what}"));
    let attempt = Attempt {
        at_ms,
        client: ClientId::new(&client),
        event_id: EventId::from_stored(&event_id),
        document: String::from_utf8(document).map_err(|_| broken("document"))?.into(),
        attempt: attempt.try_into().map_err(|_| broken("number"))?,
        delivered,
        status: status.map(u16::try_from).transpose().map_err(|_| broken("status"))?,
        reason,
        latency_ms: latency_ms.try_into().map_err(|_| broken("latency"))?,
        answer,
    };
    Ok((id, attempt))
}

impl Attempts for SqliteAttempts {
    fn append(&self, new: Vec<Attempt>, keep: u32) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.database.write_in_spare_time(move |connection| {
            new.iter().try_for_each(|attempt| append(connection, attempt))?;
            let clients: BTreeSet<&ClientId> = new.iter().map(|attempt| &attempt.client).collect();
            clients.into_iter().try_for_each(|client| keep_newest(connection, client, keep))
        }))
    }

    fn list<'a>(
        &'a self,
        client: &'a ClientId,
        before: Option<i64>,
        limit: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<(i64, Attempt)>>> {
        let client = client.clone();
        Box::pin(self.database.read(move |connection| {
            let rows: Vec<Row> = attempts::table
                .filter(attempts::client.eq(client.as_str()))
                .filter(attempts::id.lt(before.unwrap_or(i64::MAX)))
                .order(attempts::id.desc())
                .limit(limit.min(LARGEST_ATTEMPT_PAGE) as i64)
                .load(connection)?;
            rows.into_iter().map(read).collect()
        }))
    }

    fn purge(&self, before_ms: i64) -> BoxFuture<'_, StoreResult<u64>> {
        Box::pin(self.database.write_in_spare_time(move |connection| {
            let old = attempts::table.filter(attempts::at_ms.lt(before_ms)).select(attempts::id);
            let old: Vec<i64> = old.limit(PURGED_AT_ONCE).load(connection)?;
            let mut gone = 0;
            for ids in old.chunks(500) {
                gone +=
                    diesel::delete(attempts::table.filter(attempts::id.eq_any(ids))).execute(connection)?;
            }
            Ok(gone as u64)
        }))
    }
}
