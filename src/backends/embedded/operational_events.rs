//! Operational events.

use std::sync::Arc;

use diesel::dsl::max;
use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;

use super::database::Database;
use super::errors::{JobError, JobResult};
use super::schema::{operational_event_readers as readers, operational_events as events};
use crate::domain::config::ClientId;
use crate::domain::operational_event::{NumberedEvent, OperationalEvent};
use crate::ports::operational_events::{EventOrder, EventPage, LARGEST_EVENT_PAGE, OperationalEvents};
use crate::ports::{BoxFuture, StoreResult};

/// How many go at a time.
const PURGED_AT_ONCE: i64 = 10_000;

type Row = (i64, i64, String, Option<String>, String, String);

pub(super) struct SqliteOperationalEvents {
    database: Arc<Database>,
}

impl SqliteOperationalEvents {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

fn append(connection: &mut SqliteConnection, event: &OperationalEvent) -> JobResult<()> {
    let details = serde_json::to_string(&event.details).map_err(|err| JobError::refused(err.to_string()))?;
    diesel::insert_or_ignore_into(events::table)
        .values((
            events::fingerprint.eq(event.fingerprint().as_slice()),
            events::at_ms.eq(event.at_ms),
            events::happening.eq(event.happening.as_str()),
            events::client.eq(event.client.as_ref().map(ClientId::as_str)),
            events::reason.eq(&event.reason),
            events::details.eq(details),
        ))
        .execute(connection)?;
    Ok(())
}

fn read((id, at_ms, happening, client, reason, details): Row) -> JobResult<NumberedEvent> {
    let broken = |why: String| JobError::refused(format!("stored event {id} is broken: {why}"));
    let event = OperationalEvent {
        happening: happening.parse().map_err(broken)?,
        client: client.map(|client| ClientId::new(&client)),
        at_ms,
        reason,
        details: serde_json::from_str(&details).map_err(|err| broken(err.to_string()))?,
    };
    Ok(NumberedEvent { id, event })
}

impl OperationalEvents for SqliteOperationalEvents {
    fn append(&self, new: Vec<OperationalEvent>) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(
            self.database.write(move |connection| new.iter().try_for_each(|event| append(connection, event))),
        )
    }

    fn list(&self, page: EventPage) -> BoxFuture<'_, StoreResult<Vec<NumberedEvent>>> {
        Box::pin(self.database.read(move |connection| {
            let mut query = events::table
                .select((
                    events::id,
                    events::at_ms,
                    events::happening,
                    events::client,
                    events::reason,
                    events::details,
                ))
                .limit(page.limit.min(LARGEST_EVENT_PAGE) as i64)
                .into_boxed();
            if let Some(client) = &page.client {
                query = query.filter(events::client.eq(client.as_str()));
            }
            if let Some(happening) = page.happening {
                query = query.filter(events::happening.eq(happening.as_str()));
            }
            query = match (page.order, page.after) {
                (EventOrder::Oldest, after) => {
                    query.filter(events::id.gt(after.unwrap_or(i64::MIN))).order(events::id.asc())
                }
                (EventOrder::Newest, after) => {
                    query.filter(events::id.lt(after.unwrap_or(i64::MAX))).order(events::id.desc())
                }
            };
            query.load::<Row>(connection)?.into_iter().map(read).collect()
        }))
    }

    fn purge(&self, before_ms: i64, keep: u64) -> BoxFuture<'_, StoreResult<u64>> {
        Box::pin(self.database.write(move |connection| {
            let newest: Option<i64> = events::table.select(max(events::id)).first(connection)?;
            let edge = newest.unwrap_or(0).saturating_sub_unsigned(keep);
            let old = events::table.filter(events::at_ms.lt(before_ms)).select(events::id);
            let old: Vec<i64> = old.limit(PURGED_AT_ONCE).load(connection)?;
            let many = events::table.filter(events::id.le(edge)).select(events::id).order(events::id.asc());
            let many: Vec<i64> = many.limit(PURGED_AT_ONCE).load(connection)?;
            let mut gone = 0;
            for ids in old.chunks(500).chain(many.chunks(500)) {
                gone += diesel::delete(events::table.filter(events::id.eq_any(ids))).execute(connection)?;
            }
            Ok(gone as u64)
        }))
    }

    fn reader<'a>(&'a self, name: &'a str) -> BoxFuture<'a, StoreResult<i64>> {
        let name = name.to_owned();
        Box::pin(self.database.write(move |connection| {
            let newest: Option<i64> = events::table.select(max(events::id)).first(connection)?;
            diesel::insert_or_ignore_into(readers::table)
                .values((readers::name.eq(&name), readers::last_id.eq(newest.unwrap_or(0))))
                .execute(connection)?;
            Ok(readers::table.find(&name).select(readers::last_id).first(connection)?)
        }))
    }

    fn has_read<'a>(&'a self, name: &'a str, id: i64) -> BoxFuture<'a, StoreResult<()>> {
        let name = name.to_owned();
        Box::pin(self.database.write(move |connection| {
            diesel::update(readers::table.find(&name))
                .filter(readers::last_id.lt(id))
                .set(readers::last_id.eq(id))
                .execute(connection)?;
            Ok(())
        }))
    }
}
