//! Where the streams end, and how far each group has come.

use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;

use super::super::errors::{JobError, JobResult};
use super::super::schema::{consumer_offsets, log_ends, source_records, transfers};

/// The two streams of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    /// Change events: one partition.
    Source,
    /// Transfers.
    Transfer,
}

impl Stream {
    fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Transfer => "transfer",
        }
    }
}

/// Makes the ends of a stream that has none.
pub(super) fn create_ends(
    connection: &mut SqliteConnection,
    stream: Stream,
    partitions: u32,
) -> JobResult<()> {
    for partition in 0..partitions {
        diesel::insert_into(log_ends::table)
            .values((
                log_ends::stream.eq(stream.as_str()),
                log_ends::partition.eq(i64::from(partition)),
                log_ends::next_offset.eq(0),
            ))
            .execute(connection)?;
    }
    Ok(())
}

/// The next offset of each partition.
pub(super) fn ends(connection: &mut SqliteConnection, stream: Stream) -> JobResult<Vec<i64>> {
    Ok(log_ends::table
        .filter(log_ends::stream.eq(stream.as_str()))
        .order(log_ends::partition)
        .select(log_ends::next_offset)
        .load(connection)?)
}

pub(super) fn set_end(
    connection: &mut SqliteConnection,
    stream: Stream,
    partition: usize,
    next: i64,
) -> JobResult<()> {
    diesel::update(log_ends::table.find((stream.as_str(), partition as i64)))
        .set(log_ends::next_offset.eq(next))
        .execute(connection)?;
    Ok(())
}

/// The committed offset of each partition of a group. One that was never seen starts at the oldest record.
pub(super) fn open_group(
    connection: &mut SqliteConnection,
    group: &str,
    stream: Stream,
) -> JobResult<Vec<i64>> {
    let ends = ends(connection, stream)?;
    let found = committed(connection, group, stream)?;
    if found.len() == ends.len() {
        return Ok(found);
    }
    for (partition, end) in (0_i64..).zip(ends) {
        let start = first_offset(connection, stream, partition)?.unwrap_or(end);
        diesel::insert_into(consumer_offsets::table)
            .values((
                consumer_offsets::group_name.eq(group),
                consumer_offsets::stream.eq(stream.as_str()),
                consumer_offsets::partition.eq(partition),
                consumer_offsets::next_offset.eq(start),
            ))
            .execute(connection)?;
    }
    committed(connection, group, stream)
}

fn first_offset(connection: &mut SqliteConnection, stream: Stream, partition: i64) -> JobResult<Option<i64>> {
    Ok(match stream {
        Stream::Source => {
            source_records::table.select(diesel::dsl::min(source_records::offset)).first(connection)?
        }
        Stream::Transfer => transfers::table
            .filter(transfers::partition.eq(partition))
            .select(diesel::dsl::min(transfers::offset))
            .first(connection)?,
    })
}

/// The committed offset of each partition.
pub(super) fn committed(
    connection: &mut SqliteConnection,
    group: &str,
    stream: Stream,
) -> JobResult<Vec<i64>> {
    Ok(consumer_offsets::table
        .filter(consumer_offsets::group_name.eq(group))
        .filter(consumer_offsets::stream.eq(stream.as_str()))
        .order(consumer_offsets::partition)
        .select(consumer_offsets::next_offset)
        .load(connection)?)
}

/// Moves a group on. It never goes back: a late commit of records that are settled anyway changes nothing.
pub(super) fn commit(
    connection: &mut SqliteConnection,
    group: &str,
    stream: Stream,
    partition: u32,
    next: i64,
) -> JobResult<()> {
    let end: Option<i64> = log_ends::table
        .find((stream.as_str(), i64::from(partition)))
        .select(log_ends::next_offset)
        .first(connection)
        .optional()?;
    if end.is_none_or(|end| next > end) {
        return Err(JobError::refused(format!("partition {partition} has no offset {next} to commit")));
    }
    diesel::update(consumer_offsets::table.find((group, stream.as_str(), i64::from(partition))))
        .filter(consumer_offsets::next_offset.lt(next))
        .set(consumer_offsets::next_offset.eq(next))
        .execute(connection)?;
    Ok(())
}

/// What every group has committed: records below are nobody's any more. `None`: no group reads this stream yet.
pub(super) fn floor(
    connection: &mut SqliteConnection,
    stream: Stream,
    partition: i64,
) -> JobResult<Option<i64>> {
    Ok(consumer_offsets::table
        .filter(consumer_offsets::stream.eq(stream.as_str()))
        .filter(consumer_offsets::partition.eq(partition))
        .select(diesel::dsl::min(consumer_offsets::next_offset))
        .first(connection)?)
}
