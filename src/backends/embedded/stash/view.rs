//! Rows as an operator sees them, in the order of their changes.

use std::sync::Arc;

use bytes::Bytes;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Binary, Integer, Nullable, Text};
use diesel::sqlite::SqliteConnection;

use super::super::database::Database;
use super::super::errors::JobResult;
use super::super::schema::stash;
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
    #[diesel(sql_type = Text)]
    event_id: String,
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
    #[diesel(sql_type = Text)]
    source_topic: String,
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
    #[diesel(sql_type = Nullable<Text>)]
    last_reason: Option<String>,
    #[diesel(sql_type = Nullable<Integer>)]
    last_status: Option<i32>,
}

impl Row {
    fn read(self) -> JobResult<RowView> {
        let row = StoredRow {
            event_id: self.event_id,
            document: self.document,
            state: self.state,
            kind: self.kind,
            place: (self.incarnation, self.partition, self.offset),
            source: (self.source_topic, self.source_partition, self.source_offset),
            ts_ms: self.ts_ms,
            bytes: self.bytes,
            stashed_at_ms: self.stashed_at_ms,
            attempts: self.attempts,
            payload_failures: self.payload_failures,
            next_attempt_at_ms: self.next_attempt_at_ms,
            failed_at_ms: (self.first_failed_at_ms, self.last_failed_at_ms),
            reason: self.last_reason,
            status: self.last_status,
        };
        Ok(row.read()?)
    }
}

const COLUMNS: &str = "SELECT event_id, document, state, kind, incarnation, partition, offset, source_topic,
        source_partition, source_offset, ts_ms, bytes, stashed_at_ms, attempts, payload_failures, next_attempt_at_ms,
        first_failed_at_ms, last_failed_at_ms, last_reason, last_status
    FROM stash";

/// Before every row.
const BEGIN: Sequence = Sequence { incarnation: 0, partition: 0, offset: -1 };

/// The rows of one state, which one index has in order.
fn of_state(
    connection: &mut SqliteConnection,
    query: &RowQuery,
    state: RowState,
    limit: usize,
) -> JobResult<Vec<RowView>> {
    let after = query.after.unwrap_or(BEGIN);
    let rows: Vec<Row> = sql_query(page_of(query))
        .bind::<Text, _>(query.client.as_str())
        .bind::<Text, _>(state.as_str())
        .bind::<BigInt, _>(i64::from(after.incarnation))
        .bind::<BigInt, _>(i64::from(after.partition))
        .bind::<BigInt, _>(after.offset)
        .bind::<Nullable<Binary>, _>(query.document.as_ref().map(|hash| hash.0.as_slice()))
        .bind::<BigInt, _>(limit as i64)
        .load(connection)?;
    rows.into_iter().map(Row::read).collect()
}

fn page_of(query: &RowQuery) -> String {
    let document = if query.document.is_some() { "document_hash = ?" } else { "? IS NULL" };
    format!(
        "{COLUMNS} WHERE client = ? AND state = ? AND (incarnation, partition, offset) > (?, ?, ?) AND {document}
        ORDER BY incarnation, partition, offset LIMIT ?"
    )
}

pub(in crate::backends::embedded) struct SqliteStashRows {
    database: Arc<Database>,
}

impl SqliteStashRows {
    pub(in crate::backends::embedded) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

impl StashRows for SqliteStashRows {
    fn rows(&self, query: RowQuery) -> BoxFuture<'_, StoreResult<Vec<RowView>>> {
        Box::pin(self.database.read(move |connection| {
            let limit = query.limit.min(LARGEST_ROW_PAGE);
            let states = query.state.map_or(RowState::ALL.to_vec(), |state| vec![state]);
            let lists = states.into_iter().map(|state| of_state(connection, &query, state, limit));
            Ok(in_order(lists.collect::<JobResult<_>>()?, limit))
        }))
    }

    fn row<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<RowView>>> {
        let (client, event) = (client.clone(), event.clone());
        Box::pin(self.database.read(move |connection| {
            let row: Option<Row> = sql_query(format!("{COLUMNS} WHERE client = ? AND event_id = ?"))
                .bind::<Text, _>(client.as_str())
                .bind::<Text, _>(event.as_str())
                .get_result(connection)
                .optional()?;
            row.map(Row::read).transpose()
        }))
    }

    fn body<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<Bytes>>> {
        let (client, event) = (client.clone(), event.clone());
        Box::pin(self.database.read(move |connection| {
            let body: Option<Vec<u8>> = stash::table
                .filter(stash::client.eq(client.as_str()))
                .filter(stash::event_id.eq(event.as_str()))
                .select(stash::body)
                .first(connection)
                .optional()?;
            Ok(body.map(Bytes::from))
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
        const PURGE: &str = "DELETE FROM stash WHERE id IN (SELECT id FROM stash
            WHERE client = ? AND state <> 'pending' AND state = ? AND first_failed_at_ms < ?
            ORDER BY first_failed_at_ms LIMIT ?)";
        let client = client.clone();
        Box::pin(self.database.write(move |connection| {
            let purged = sql_query(PURGE)
                .bind::<Text, _>(client.as_str())
                .bind::<Text, _>(kind.state().as_str())
                .bind::<BigInt, _>(until_ms)
                .bind::<BigInt, _>(i64::try_from(limit).unwrap_or(i64::MAX))
                .execute(connection)?;
            Ok(purged as u64)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{migrated, plan};
    use super::*;
    use crate::domain::transfer::DocumentHash;

    #[test]
    fn no_page_reads_more_than_its_answer() {
        let mut connection = migrated();
        for (document, index) in [
            (None, "stash_order (client=? AND state=? AND "),
            (Some(DocumentHash([1; 16])), "stash_document (client=? AND document_hash=? AND state=? AND "),
        ] {
            let query = RowQuery { client: ClientId::new("a"), state: None, document, after: None, limit: 1 };
            let plan = plan(&mut connection, &page_of(&query));
            let found = format!("SEARCH stash USING INDEX {index}(incarnation,partition,offset)>");
            assert!(plan.contains(&found) && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
