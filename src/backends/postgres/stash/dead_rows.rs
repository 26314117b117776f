//! Rows that were given up: looked at, brought back, deleted. The words `state <> 'pending'` are the condition of their
//! indexes.

use diesel::sql_types::{Array, BigInt, Binary, Bool, Integer, Nullable, Text};
use diesel::{OptionalExtension as _, QueryableByName, sql_query};
use diesel_async::{AsyncPgConnection, RunQueryDsl as _};

use super::super::errors::JobResult;
use super::super::{key, text};
use super::rows::DrainRow;
use crate::backends::stored::StoredDeadRow;
use crate::domain::config::ClientId;
use crate::domain::dead_row::{ByAge, DeadRow, DeadRowQuery};
use crate::domain::transfer::{EventId, NewTransfer, Transfer, TransferKind};

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Binary)]
    client: Vec<u8>,
    #[diesel(sql_type = Binary)]
    event_id: Vec<u8>,
    #[diesel(sql_type = Binary)]
    document: Vec<u8>,
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
    #[diesel(sql_type = Text)]
    state: String,
    #[diesel(sql_type = BigInt)]
    attempts: i64,
    #[diesel(sql_type = BigInt)]
    payload_failures: i64,
    #[diesel(sql_type = BigInt)]
    first_failed_at_ms: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    last_failed_at_ms: Option<i64>,
    #[diesel(sql_type = Nullable<Binary>)]
    last_reason: Option<Vec<u8>>,
    #[diesel(sql_type = Nullable<Integer>)]
    last_status: Option<i32>,
}

impl Row {
    fn read(self) -> JobResult<DeadRow> {
        let row = StoredDeadRow {
            client: text(self.client, "client")?,
            event_id: text(self.event_id, "event id")?,
            document: self.document,
            place: (self.incarnation, self.partition, self.offset),
            source: (text(self.source_topic, "source topic")?, self.source_partition, self.source_offset),
            ts_ms: self.ts_ms,
            bytes: self.bytes,
            state: self.state,
            attempts: self.attempts,
            payload_failures: self.payload_failures,
            failed_at_ms: (self.first_failed_at_ms, self.last_failed_at_ms),
            reason: self.last_reason.map(|reason| text(reason, "reason")).transpose()?,
            status: self.last_status,
        };
        Ok(row.read()?)
    }
}

const COLUMNS: &str = "SELECT client, event_id, document, incarnation, partition, \"offset\", source_topic,
        source_partition, source_offset, ts_ms, bytes, state, attempts, payload_failures,
        first_failed_at_ms, last_failed_at_ms, last_reason, last_status
    FROM stash";

/// Rows between two places, which one index has in order.
pub(super) async fn list(
    connection: &mut AsyncPgConnection,
    query: &DeadRowQuery,
) -> JobResult<Vec<DeadRow>> {
    let client = query.client.as_ref().map(|client| key(client.as_str())).transpose()?;
    let whose = if client.is_some() { "client = $1" } else { "$1 IS NULL" };
    let direction = match query.order {
        ByAge::OldestFirst => "ASC",
        ByAge::NewestFirst => "DESC",
    };
    let (from, until) = query.between();
    let rows: Vec<Row> = sql_query(format!(
        "{COLUMNS} WHERE {whose} AND state <> 'pending' AND state = $2
        AND (first_failed_at_ms, incarnation, partition, \"offset\") > ($3, $4, $5, $6)
        AND (first_failed_at_ms, incarnation, partition, \"offset\") < ($7, $8, $9, $10)
        ORDER BY first_failed_at_ms {direction}, incarnation {direction}, partition {direction},
            \"offset\" {direction} LIMIT $11"
    ))
    .bind::<Nullable<Binary>, _>(client)
    .bind::<Text, _>(query.kind.state().as_str())
    .bind::<BigInt, _>(from.first_failed_at_ms)
    .bind::<BigInt, _>(i64::from(from.sequence.incarnation))
    .bind::<BigInt, _>(i64::from(from.sequence.partition))
    .bind::<BigInt, _>(from.sequence.offset)
    .bind::<BigInt, _>(until.first_failed_at_ms)
    .bind::<BigInt, _>(i64::from(until.sequence.incarnation))
    .bind::<BigInt, _>(i64::from(until.sequence.partition))
    .bind::<BigInt, _>(until.sequence.offset)
    .bind::<BigInt, _>(i64::try_from(query.limit).unwrap_or(i64::MAX))
    .load(connection)
    .await?;
    rows.into_iter().map(Row::read).collect()
}

/// One row that was given up.
pub(super) async fn one(
    connection: &mut AsyncPgConnection,
    client: &ClientId,
    event: &EventId,
) -> JobResult<Option<DeadRow>> {
    let row: Option<Row> =
        sql_query(format!("{COLUMNS} WHERE client = $1 AND event_id = $2 AND state <> 'pending'"))
            .bind::<Binary, _>(key(client.as_str())?)
            .bind::<Binary, _>(key(event.as_str())?)
            .get_result(connection)
            .await
            .optional()?;
    row.map(Row::read).transpose()
}

/// What it carries.
pub(super) async fn payload(
    connection: &mut AsyncPgConnection,
    client: &ClientId,
    event: &EventId,
) -> JobResult<Option<NewTransfer>> {
    let row: Option<DrainRow> =
        sql_query("SELECT * FROM stash WHERE client = $1 AND event_id = $2 AND state <> 'pending'")
            .bind::<Binary, _>(key(client.as_str())?)
            .bind::<Binary, _>(key(event.as_str())?)
            .get_result(connection)
            .await
            .optional()?;
    row.map(|row| Ok(row.read()?.transfer.content.clone())).transpose()
}

/// Deletes one row that was given up.
pub(super) async fn delete(
    connection: &mut AsyncPgConnection,
    client: &ClientId,
    event: &EventId,
) -> JobResult<bool> {
    let deleted = sql_query("DELETE FROM stash WHERE client = $1 AND event_id = $2 AND state <> 'pending'")
        .bind::<Binary, _>(key(client.as_str())?)
        .bind::<Binary, _>(key(event.as_str())?)
        .execute(connection)
        .await?;
    Ok(deleted > 0)
}

/// Lets the rows of replays wait again.
pub(super) async fn replay(connection: &mut AsyncPgConnection, replays: &[&Transfer]) -> JobResult<()> {
    const REPLAY: &str =
        "UPDATE stash SET state = 'pending', claim = NULL, next_attempt_at_ms = 0, kind = r.kind,
            incarnation = CASE WHEN r.forced THEN r.incarnation ELSE stash.incarnation END,
            partition = CASE WHEN r.forced THEN r.partition ELSE stash.partition END,
            \"offset\" = CASE WHEN r.forced THEN r.\"offset\" ELSE stash.\"offset\" END
        FROM unnest($1, $2, $3, $4, $5, $6, $7)
            AS r (client, event_id, kind, forced, incarnation, partition, \"offset\")
        WHERE stash.client = r.client AND stash.event_id = r.event_id AND stash.state <> 'pending'
        AND (r.forced OR stash.state = 'dead' AND NOT EXISTS (SELECT FROM stash AS newer
            WHERE newer.client = r.client AND newer.document_hash = stash.document_hash AND newer.state = 'pending'
            AND (newer.incarnation, newer.partition, newer.\"offset\")
                > (stash.incarnation, stash.partition, stash.\"offset\")))";
    fn column<'a, T>(replays: &[&'a Transfer], value: impl Fn(&'a Transfer) -> T) -> Vec<T> {
        replays.iter().map(|replay| value(replay)).collect()
    }
    sql_query(REPLAY)
        .bind::<Array<Binary>, _>(column(replays, |replay| replay.client.as_str().as_bytes()))
        .bind::<Array<Binary>, _>(column(replays, |replay| replay.event_id.as_str().as_bytes()))
        .bind::<Array<Text>, _>(column(replays, |replay| replay.kind.as_str()))
        .bind::<Array<Bool>, _>(column(replays, |replay| replay.kind == TransferKind::ForcedReplay))
        .bind::<Array<BigInt>, _>(column(replays, |replay| i64::from(replay.sequence.incarnation)))
        .bind::<Array<BigInt>, _>(column(replays, |replay| i64::from(replay.sequence.partition)))
        .bind::<Array<BigInt>, _>(column(replays, |replay| replay.sequence.offset))
        .execute(connection)
        .await?;
    Ok(())
}
