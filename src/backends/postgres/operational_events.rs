//! Operational events. Several replicas append; each append holds the row of the numbers until it is committed.

use std::sync::Arc;

use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use super::database::Database;
use super::errors::JobResult;
use super::schema::{
    operational_event_numbers as numbers, operational_event_readers as readers, operational_events as events,
};
use super::{client_id, key, text};
use crate::domain::operational_event::{NumberedEvent, OperationalEvent};
use crate::ports::operational_events::{EventOrder, EventPage, LARGEST_EVENT_PAGE, OperationalEvents};
use crate::ports::{BoxFuture, StoreError, StoreResult};

/// Removes a part of what is too old, or one too many.
const PURGE: &str = "DELETE FROM operational_events WHERE id IN (
    (SELECT id FROM operational_events WHERE at_ms < $1 LIMIT 10000)
    UNION
    (SELECT id FROM operational_events
     WHERE id <= (SELECT last FROM operational_event_numbers) - $2 ORDER BY id LIMIT 10000))";

type Row = (i64, i64, String, Option<Vec<u8>>, Vec<u8>, String);

pub(super) struct PgOperationalEvents {
    database: Arc<Database>,
}

impl PgOperationalEvents {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

async fn append(connection: &mut AsyncPgConnection, new: &[OperationalEvent]) -> JobResult<()> {
    let count = new.len() as i64;
    let last: i64 = diesel::update(numbers::table.find(1))
        .set(numbers::last.eq(numbers::last + count))
        .returning(numbers::last)
        .get_result(connection)
        .await?;
    let mut rows = Vec::with_capacity(new.len());
    for (event, id) in new.iter().zip(last - count + 1..) {
        let details =
            serde_json::to_string(&event.details).map_err(|err| StoreError::Refused(err.to_string()))?;
        let client = event.client.as_ref().map(|client| key(client.as_str())).transpose()?;
        rows.push((
            events::id.eq(id),
            events::fingerprint.eq(event.fingerprint().to_vec()),
            events::at_ms.eq(event.at_ms),
            events::happening.eq(event.happening.as_str()),
            events::client.eq(client),
            events::reason.eq(event.reason.as_bytes()),
            events::details.eq(details),
        ));
    }
    diesel::insert_into(events::table)
        .values(rows)
        .on_conflict(events::fingerprint)
        .do_nothing()
        .execute(connection)
        .await?;
    Ok(())
}

fn read((id, at_ms, happening, client, reason, details): Row) -> StoreResult<NumberedEvent> {
    let broken = |why: String| StoreError::Refused(format!("stored event {id} is broken: {why}"));
    let event = OperationalEvent {
        happening: happening.parse().map_err(broken)?,
        client: client.map(client_id).transpose()?,
        at_ms,
        reason: text(reason, "reason")?,
        details: serde_json::from_str(&details).map_err(|err| broken(err.to_string()))?,
    };
    Ok(NumberedEvent { id, event })
}

async fn list(connection: &mut AsyncPgConnection, page: &EventPage) -> JobResult<Vec<NumberedEvent>> {
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
        query = query.filter(events::client.eq(client.as_str().as_bytes()));
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
    let rows: Vec<Row> = query.load(connection).await?;
    Ok(rows.into_iter().map(read).collect::<StoreResult<_>>()?)
}

impl OperationalEvents for PgOperationalEvents {
    fn append(&self, new: Vec<OperationalEvent>) -> BoxFuture<'_, StoreResult<()>> {
        if new.is_empty() {
            return Box::pin(async { Ok(()) });
        }
        Box::pin(
            self.database
                .transaction(move |connection| Box::pin(async move { append(connection, &new).await })),
        )
    }

    fn list(&self, page: EventPage) -> BoxFuture<'_, StoreResult<Vec<NumberedEvent>>> {
        Box::pin(self.database.run(move |connection| Box::pin(async move { list(connection, &page).await })))
    }

    fn purge(&self, before_ms: i64, keep: u64) -> BoxFuture<'_, StoreResult<u64>> {
        let keep = i64::try_from(keep).unwrap_or(i64::MAX);
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let gone = diesel::sql_query(PURGE)
                    .bind::<BigInt, _>(before_ms)
                    .bind::<BigInt, _>(keep)
                    .execute(connection)
                    .await?;
                Ok(gone as u64)
            })
        }))
    }

    fn reader<'a>(&'a self, name: &'a str) -> BoxFuture<'a, StoreResult<i64>> {
        let name = name.to_owned();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let last: i64 = numbers::table.find(1).select(numbers::last).first(connection).await?;
                diesel::insert_into(readers::table)
                    .values((readers::name.eq(&name), readers::last_id.eq(last)))
                    .on_conflict_do_nothing()
                    .execute(connection)
                    .await?;
                Ok(readers::table.find(&name).select(readers::last_id).first(connection).await?)
            })
        }))
    }

    fn has_read<'a>(&'a self, name: &'a str, id: i64) -> BoxFuture<'a, StoreResult<()>> {
        let name = name.to_owned();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                diesel::update(readers::table.find(&name))
                    .filter(readers::last_id.lt(id))
                    .set(readers::last_id.eq(id))
                    .execute(connection)
                    .await?;
                Ok(())
            })
        }))
    }
}
