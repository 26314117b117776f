//! The statements of the log: what is written, and what is read from the file.

use std::collections::HashMap;
use std::sync::Arc;

use diesel::connection::DefaultLoadingMode;
use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;

use super::super::errors::JobResult;
use super::super::schema::{dead_letters, log_meta, source_records, transfer_bodies, transfers};
use super::offsets::{self, Stream};
use super::rows::{DeadLetterRow, NewDeadLetterRow, NewTransferRow, SourceRow, TransferRow};
use super::tail::Batch;
use crate::domain::change_event::SourceRecord;
use crate::domain::transfer::{NewTransfer, Sequence, SourcePosition, Transfer, partition_of};
use crate::ports::event_log::{BatchLimits, DeadLetter, NewRecord};

/// Which creation of the log this is, and how it is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) incarnation: u32,
    pub(super) partitions: u32,
}

/// The shape of the log; a new one is made as `wanted`.
pub(super) fn open(connection: &mut SqliteConnection, wanted: Shape) -> JobResult<Shape> {
    let created = diesel::insert_into(log_meta::table)
        .values((
            log_meta::id.eq(1),
            log_meta::incarnation.eq(i64::from(wanted.incarnation)),
            log_meta::partitions.eq(i64::from(wanted.partitions)),
        ))
        .on_conflict_do_nothing()
        .execute(connection)?;
    if created == 1 {
        offsets::create_ends(connection, Stream::Source, 1)?;
        offsets::create_ends(connection, Stream::Transfer, wanted.partitions)?;
    }
    let (incarnation, partitions): (i64, i64) =
        log_meta::table.select((log_meta::incarnation, log_meta::partitions)).first(connection)?;
    // Both were u32 when they were written.
    Ok(Shape { incarnation: incarnation as u32, partitions: partitions as u32 })
}

/// Appends source records.
pub(super) fn append(
    connection: &mut SqliteConnection,
    records: Vec<NewRecord>,
    now_ms: i64,
) -> JobResult<Vec<SourceRecord>> {
    let first = offsets::ends(connection, Stream::Source)?.first().copied().unwrap_or(0);
    let records: Vec<SourceRecord> = (first..)
        .zip(records)
        .map(|(offset, record)| SourceRecord {
            position: SourcePosition { topic: record.topic, partition: 0, offset },
            timestamp_ms: now_ms,
            key: record.key,
            value: record.value,
            headers: record.headers,
        })
        .collect();
    for record in &records {
        diesel::insert_into(source_records::table).values(SourceRow::of(record)?).execute(connection)?;
    }
    offsets::set_end(connection, Stream::Source, 0, first + records.len() as i64)?;
    Ok(records)
}

/// Appends transfers, each to the partition of its client.
pub(super) fn append_transfers(
    connection: &mut SqliteConnection,
    transfers: Vec<NewTransfer>,
    shape: Shape,
    now_ms: i64,
) -> JobResult<Vec<Arc<Transfer>>> {
    let mut ends = offsets::ends(connection, Stream::Transfer)?;
    let before = ends.clone();
    let transfers: Vec<Arc<Transfer>> = transfers
        .into_iter()
        .map(|content| {
            let partition = partition_of(&content.client, shape.partitions);
            let end = &mut ends[partition as usize];
            let sequence = Sequence { incarnation: shape.incarnation, partition, offset: *end };
            *end += 1;
            Arc::new(Transfer { sequence, content })
        })
        .collect();
    let bodies = append_bodies(connection, &transfers)?;
    for (transfer, body_id) in transfers.iter().zip(bodies) {
        diesel::insert_into(transfers::table)
            .values(NewTransferRow::of(transfer, now_ms, body_id))
            .execute(connection)?;
    }
    for (partition, (before, end)) in before.iter().zip(&ends).enumerate() {
        if before != end {
            offsets::set_end(connection, Stream::Transfer, partition, *end)?;
        }
    }
    Ok(transfers)
}

/// Stores each body once, however many clients share its bytes. Returns the id of each transfer's body.
fn append_bodies(connection: &mut SqliteConnection, transfers: &[Arc<Transfer>]) -> JobResult<Vec<i64>> {
    let last: Option<i64> =
        transfer_bodies::table.select(diesel::dsl::max(transfer_bodies::id)).first(connection)?;
    let mut next = last.unwrap_or(0) + 1;
    let mut bodies: HashMap<(*const u8, usize), (i64, i64, &[u8])> = HashMap::new();
    let mut ids = Vec::with_capacity(transfers.len());
    for transfer in transfers {
        let body = &transfer.body[..];
        let (id, refs, _) = bodies.entry((body.as_ptr(), body.len())).or_insert_with(|| {
            next += 1;
            (next - 1, 0, body)
        });
        *refs += 1;
        ids.push(*id);
    }
    let mut bodies: Vec<_> = bodies.into_values().collect();
    // In the order of their ids the pages are filled one after the other.
    bodies.sort_unstable_by_key(|(id, ..)| *id);
    for (id, refs, body) in bodies {
        diesel::insert_into(transfer_bodies::table)
            .values((
                transfer_bodies::id.eq(id),
                transfer_bodies::refs.eq(refs),
                transfer_bodies::body.eq(body),
            ))
            .execute(connection)?;
    }
    Ok(ids)
}

/// Keeps dead letters.
pub(super) fn append_dead_letters(
    connection: &mut SqliteConnection,
    letters: &[DeadLetter],
) -> JobResult<()> {
    for letter in letters {
        diesel::insert_into(dead_letters::table).values(NewDeadLetterRow::of(letter)?).execute(connection)?;
    }
    Ok(())
}

/// Source records from an offset on, up to the limits. Rows are read one by one, so that a batch of large ones
/// takes no more memory than its limit and one record.
pub(super) fn read_source(
    connection: &mut SqliteConnection,
    from: i64,
    limits: BatchLimits,
) -> JobResult<Vec<SourceRecord>> {
    let mut batch = Batch::new(limits);
    let rows = source_records::table
        .filter(source_records::offset.ge(from))
        .order(source_records::offset)
        .limit(limits.records.max(1) as i64)
        .select(SourceRow::as_select())
        .load_iter::<SourceRow, DefaultLoadingMode>(connection)?;
    for row in rows {
        if !batch.take(row?.read()?) {
            break;
        }
    }
    Ok(batch.records)
}

/// Transfers of a partition from an offset on, up to the limits.
pub(super) fn read_transfers(
    connection: &mut SqliteConnection,
    incarnation: u32,
    partition: usize,
    from: i64,
    limits: BatchLimits,
) -> JobResult<Vec<Arc<Transfer>>> {
    let mut batch = Batch::new(limits);
    let rows = transfers::table
        .inner_join(transfer_bodies::table)
        .filter(transfers::partition.eq(partition as i64))
        .filter(transfers::offset.ge(from))
        .order(transfers::offset)
        .limit(limits.records.max(1) as i64)
        .select((TransferRow::as_select(), transfer_bodies::body))
        .load_iter::<(TransferRow, Vec<u8>), DefaultLoadingMode>(connection)?;
    for row in rows {
        let (row, body) = row?;
        if !batch.take(row.read(body, incarnation)?) {
            break;
        }
    }
    Ok(batch.records)
}

/// Dead letters with an id above `after`.
pub(super) fn read_dead_letters(
    connection: &mut SqliteConnection,
    after: i64,
    limit: usize,
) -> JobResult<Vec<(i64, DeadLetter)>> {
    let rows: Vec<DeadLetterRow> = dead_letters::table
        .filter(dead_letters::id.gt(after))
        .order(dead_letters::id)
        .limit(limit as i64)
        .select(DeadLetterRow::as_select())
        .load(connection)?;
    rows.into_iter().map(DeadLetterRow::read).collect()
}

/// When the first record of a stream at or after an offset was appended.
pub(super) fn appended_at(
    connection: &mut SqliteConnection,
    stream: Stream,
    partition: usize,
    from: i64,
) -> JobResult<Option<i64>> {
    Ok(match stream {
        Stream::Source => source_records::table
            .filter(source_records::offset.ge(from))
            .order(source_records::offset)
            .select(source_records::timestamp_ms)
            .first(connection)
            .optional()?,
        Stream::Transfer => transfers::table
            .filter(transfers::partition.eq(partition as i64))
            .filter(transfers::offset.ge(from))
            .order(transfers::offset)
            .select(transfers::appended_at_ms)
            .first(connection)
            .optional()?,
    })
}
