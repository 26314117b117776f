//! Rows as an operator sees them, in the order of their changes.

use std::sync::Arc;

use bytes::Bytes;
use diesel::sql_types::{BigInt, Binary, Integer, Nullable, Text};
use diesel::{OptionalExtension as _, QueryableByName, sql_query};
use diesel_async::{AsyncPgConnection, RunQueryDsl as _};

use super::super::database::Database;
use super::super::errors::JobResult;
use super::super::{key, text};
use crate::backends::stored::{StoredRow, in_order};
use crate::domain::config::ClientId;
use crate::domain::dead_row::GivenUp;
use crate::domain::stash::RowState;
use crate::domain::stash_view::{RowQuery, RowView};
use crate::domain::transfer::{EventId, Sequence};
use crate::ports::stash_rows::{LARGEST_ROW_PAGE, StashRows};
use crate::ports::{BoxFuture, StoreResult};

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Binary)]
    event_id: Vec<u8>,
    #[diesel(sql_type = Binary)]
    document: Vec<u8>,
    #[diesel(sql_type = Text)]
    state: String,
    #[diesel(sql_type = Text)]
    kind: String,
    #[diesel(sql_type = BigInt)]
    incarnation: i64,
    #[diesel(sql_type = BigInt)]
    partition: i64,
    #[diesel(sql_type = BigInt)]
    offset: i64,
    #[diesel(sql_type = Binary)]
    source_topic: Vec<u8>,
    #[diesel(sql_type = Integer)]
    source_partition: i32,
    #[diesel(sql_type = BigInt)]
    source_offset: i64,
    #[diesel(sql_type = BigInt)]
    ts_ms: i64,
    #[diesel(sql_type = BigInt)]
    bytes: i64,
    #[diesel(sql_type = BigInt)]
    stashed_at_ms: i64,
    #[diesel(sql_type = BigInt)]
    attempts: i64,
    #[diesel(sql_type = BigInt)]
    payload_failures: i64,
    #[diesel(sql_type = BigInt)]
    next_attempt_at_ms: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    first_failed_at_ms: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    last_failed_at_ms: Option<i64>,
    #[diesel(sql_type = Nullable<Binary>)]
    last_reason: Option<Vec<u8>>,
    #[diesel(sql_type = Nullable<Integer>)]
    last_status: Option<i32>,
}

impl Row {
    fn read(self) -> JobResult<RowView> {
        let row = StoredRow {
            event_id: text(self.event_id, "event id")?,
            document: self.document,
            state: self.state,
            kind: self.kind,
            place: (self.incarnation, self.partition, self.offset),
            source: (text(self.source_topic, "source topic")?, self.source_partition, self.source_offset),
            ts_ms: self.ts_ms,
            bytes: self.bytes,
            stashed_at_ms: self.stashed_at_ms,
            attempts: self.attempts,
            payload_failures: self.payload_failures,
            next_attempt_at_ms: self.next_attempt_at_ms,
            failed_at_ms: (self.first_failed_at_ms, self.last_failed_at_ms),
            reason: self.last_reason.map(|reason| text(reason, "reason")).transpose()?,
            status: self.last_status,
        };
        Ok(row.read()?)
    }
}

const COLUMNS: &str = "SELECT event_id, document, state, kind, incarnation, partition, \"offset\", source_topic,
        source_partition, source_offset, ts_ms, bytes, stashed_at_ms, attempts, payload_failures, next_attempt_at_ms,
        first_failed_at_ms, last_failed_at_ms, last_reason, last_status
    FROM stash";

/// Before every row.
const BEGIN: Sequence = Sequence { incarnation: 0, partition: 0, offset: -1 };

/// The rows of one state, which one index has in order. The state stands in the statement as it is: by that a plan that is made once for all
/// finds the index of the state.
async fn of_state(
    connection: &mut AsyncPgConnection,
    query: &RowQuery,
    state: RowState,
    limit: usize,
) -> JobResult<Vec<RowView>> {
    let after = query.after.unwrap_or(BEGIN);
    let document = if query.document.is_some() { "document_hash = $5" } else { "$5 IS NULL" };
    let state = match state {
        RowState::Pending => "state = 'pending'",
        RowState::Dead => "state <> 'pending' AND state = 'dead'",
        RowState::Superseded => "state <> 'pending' AND state = 'superseded'",
    };
    let rows: Vec<Row> = sql_query(format!(
        "{COLUMNS} WHERE client = $1 AND {state} AND (incarnation, partition, \"offset\") > ($2, $3, $4) AND {document}
        ORDER BY incarnation, partition, \"offset\" LIMIT $6"
    ))
    .bind::<Binary, _>(key(query.client.as_str())?)
    .bind::<BigInt, _>(i64::from(after.incarnation))
    .bind::<BigInt, _>(i64::from(after.partition))
    .bind::<BigInt, _>(after.offset)
    .bind::<Nullable<Binary>, _>(query.document.as_ref().map(|hash| hash.0.as_slice()))
    .bind::<BigInt, _>(limit as i64)
    .load(connection)
    .await?;
    rows.into_iter().map(Row::read).collect()
}

async fn rows(connection: &mut AsyncPgConnection, query: &RowQuery) -> JobResult<Vec<RowView>> {
    let limit = query.limit.min(LARGEST_ROW_PAGE);
    let mut lists = Vec::new();
    for state in query.state.map_or(RowState::ALL.to_vec(), |state| vec![state]) {
        lists.push(of_state(connection, query, state, limit).await?);
    }
    Ok(in_order(lists, limit))
}

#[derive(QueryableByName)]
struct Body {
    #[diesel(sql_type = Binary)]
    body: Vec<u8>,
}

pub(in crate::backends::postgres) struct PgStashRows {
    database: Arc<Database>,
}

impl PgStashRows {
    pub(in crate::backends::postgres) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

impl StashRows for PgStashRows {
    fn rows(&self, query: RowQuery) -> BoxFuture<'_, StoreResult<Vec<RowView>>> {
        Box::pin(self.database.run(move |connection| Box::pin(async move { rows(connection, &query).await })))
    }

    fn row<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<RowView>>> {
        let (client, event) = (client.clone(), event.clone());
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let row: Option<Row> = sql_query(format!("{COLUMNS} WHERE client = $1 AND event_id = $2"))
                    .bind::<Binary, _>(key(client.as_str())?)
                    .bind::<Binary, _>(key(event.as_str())?)
                    .get_result(connection)
                    .await
                    .optional()?;
                row.map(Row::read).transpose()
            })
        }))
    }

    fn body<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<Bytes>>> {
        let (client, event) = (client.clone(), event.clone());
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let found: Option<Body> =
                    sql_query("SELECT body FROM stash WHERE client = $1 AND event_id = $2")
                        .bind::<Binary, _>(key(client.as_str())?)
                        .bind::<Binary, _>(key(event.as_str())?)
                        .get_result(connection)
                        .await
                        .optional()?;
                Ok(found.map(|found| found.body.into()))
            })
        }))
    }

    fn purge_given_up<'a>(
        &'a self,
        client: &'a ClientId,
        kind: GivenUp,
        until_ms: i64,
        limit: usize,
    ) -> BoxFuture<'a, StoreResult<u64>> {
        // The words `state <> 'pending'` are the condition of the index.
        const PURGE: &str =
            "DELETE FROM stash WHERE (client, event_id) IN (SELECT client, event_id FROM stash
            WHERE client = $1 AND state <> 'pending' AND state = $2 AND first_failed_at_ms < $3
            ORDER BY first_failed_at_ms LIMIT $4 FOR UPDATE) AND state <> 'pending'";
        let client = client.clone();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let purged = sql_query(PURGE)
                    .bind::<Binary, _>(key(client.as_str())?)
                    .bind::<Text, _>(kind.state().as_str())
                    .bind::<BigInt, _>(until_ms)
                    .bind::<BigInt, _>(i64::try_from(limit).unwrap_or(i64::MAX))
                    .execute(connection)
                    .await?;
                Ok(purged as u64)
            })
        }))
    }
}
