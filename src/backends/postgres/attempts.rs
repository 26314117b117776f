//! Attempts to deliver.

use std::collections::BTreeSet;
use std::sync::Arc;

use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Binary};
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use super::database::Database;
use super::errors::JobResult;
use super::schema::attempts;
use super::{client_id, key, text};
use crate::domain::attempt::Attempt;
use crate::domain::config::ClientId;
use crate::domain::transfer::EventId;
use crate::ports::attempts::{Attempts, LARGEST_ATTEMPT_PAGE};
use crate::ports::{BoxFuture, StoreError, StoreResult};

/// Leaves each client its newest.
const KEEP_NEWEST: &str = "DELETE FROM attempts USING unnest($1) AS touched (client)
    CROSS JOIN LATERAL (
        SELECT id FROM attempts AS newest WHERE newest.client = touched.client
        ORDER BY id DESC OFFSET $2 LIMIT 1
    ) AS edge
    WHERE attempts.client = touched.client AND attempts.id <= edge.id";

const PURGE: &str = "DELETE FROM attempts WHERE id IN (SELECT id FROM attempts WHERE at_ms < $1 LIMIT 10000)";

type Row = (i64, Vec<u8>, Vec<u8>, Vec<u8>, i64, i64, bool, Option<i32>, Vec<u8>, i64, Vec<u8>);

pub(super) struct PgAttempts {
    database: Arc<Database>,
}

impl PgAttempts {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

async fn append(connection: &mut AsyncPgConnection, new: &[Attempt], keep: u32) -> JobResult<()> {
    let mut rows = Vec::with_capacity(new.len());
    for attempt in new {
        rows.push((
            attempts::client.eq(key(attempt.client.as_str())?),
            attempts::event_id.eq(key(attempt.event_id.as_str())?),
            attempts::document.eq(attempt.document.as_bytes()),
            attempts::at_ms.eq(attempt.at_ms),
            attempts::attempt.eq(i64::from(attempt.attempt)),
            attempts::delivered.eq(attempt.delivered),
            attempts::status.eq(attempt.status.map(i32::from)),
            attempts::reason.eq(attempt.reason.as_bytes()),
            attempts::latency_ms.eq(i64::try_from(attempt.latency_ms).unwrap_or(i64::MAX)),
            attempts::answer.eq(attempt.answer.as_bytes()),
        ));
    }
    diesel::insert_into(attempts::table).values(rows).on_conflict_do_nothing().execute(connection).await?;
    // In one order for all, so that two batches do not wait for each other in a circle.
    let clients: BTreeSet<&[u8]> = new.iter().map(|attempt| attempt.client.as_str().as_bytes()).collect();
    diesel::sql_query(KEEP_NEWEST)
        .bind::<Array<Binary>, _>(clients.into_iter().collect::<Vec<_>>())
        .bind::<BigInt, _>(i64::from(keep))
        .execute(connection)
        .await?;
    Ok(())
}

fn read(row: Row) -> StoreResult<(i64, Attempt)> {
    let (id, client, event_id, document, at_ms, attempt, delivered, status, reason, latency_ms, answer) = row;
    let broken = |what: &str| StoreError::Refused(format!("stored attempt {id} is broken: {what}"));
    let attempt = Attempt {
        at_ms,
        client: client_id(client)?,
        event_id: EventId::from_stored(&text(event_id, "event id")?),
        document: text(document, "document")?.into(),
        attempt: attempt.try_into().map_err(|_| broken("number"))?,
        delivered,
        status: status.map(u16::try_from).transpose().map_err(|_| broken("status"))?,
        reason: text(reason, "reason")?,
        latency_ms: latency_ms.try_into().map_err(|_| broken("latency"))?,
        answer: text(answer, "answer")?,
    };
    Ok((id, attempt))
}

impl Attempts for PgAttempts {
    fn append(&self, new: Vec<Attempt>, keep: u32) -> BoxFuture<'_, StoreResult<()>> {
        if new.is_empty() {
            return Box::pin(async { Ok(()) });
        }
        Box::pin(
            self.database
                .transaction(move |connection| Box::pin(async move { append(connection, &new, keep).await })),
        )
    }

    fn list<'a>(
        &'a self,
        client: &'a ClientId,
        before: Option<i64>,
        limit: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<(i64, Attempt)>>> {
        let client = client.clone();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let rows: Vec<Row> = attempts::table
                    .filter(attempts::client.eq(client.as_str().as_bytes()))
                    .filter(attempts::id.lt(before.unwrap_or(i64::MAX)))
                    .order(attempts::id.desc())
                    .limit(limit.min(LARGEST_ATTEMPT_PAGE) as i64)
                    .load(connection)
                    .await?;
                Ok(rows.into_iter().map(read).collect::<StoreResult<_>>()?)
            })
        }))
    }

    fn purge(&self, before_ms: i64) -> BoxFuture<'_, StoreResult<u64>> {
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let gone = diesel::sql_query(PURGE).bind::<BigInt, _>(before_ms).execute(connection).await?;
                Ok(gone as u64)
            })
        }))
    }
}
