//! The event log: source records in, transfers out.
//!
//! The source stream is one partition: a record's offset is its place among the records of all topics. What a commit
//! wrote goes through the `tail` to the consumers that wait; who is behind it reads the file.

mod offsets;
mod retention;
mod rows;
mod source;
mod store;
mod tail;
mod transfers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use self::offsets::Stream;
use self::source::SqliteSourceConsumer;
use self::store::Shape;
use self::tail::Tail;
use self::transfers::SqliteTransferConsumer;
use super::EmbeddedOptions;
use super::database::Database;
use crate::domain::change_event::SourceRecord;
use crate::domain::transfer::{NewTransfer, SourcePosition, Transfer};
use crate::ports::clock::Clock;
use crate::ports::event_log::{
    BatchLimits, DeadLetter, EventLog, Lag, NewRecord, SourceConsumer, TransferConsumer,
};
use crate::ports::{BoxFuture, StoreError, StoreResult};

pub(super) struct SqliteEventLog {
    shared: Arc<Shared>,
    retention: Duration,
}

/// What the log and its consumers share.
struct Shared {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
    shape: Shape,
    sources: Tail<SourceRecord>,
    transfers: Tail<Arc<Transfer>>,
    file_reads: AtomicU64,
}

impl Shared {
    /// How far a group is behind in a stream that ends at `ends`.
    async fn lag(&self, group: &str, stream: Stream, ends: Vec<i64>) -> StoreResult<Lag> {
        let group = group.to_owned();
        self.database
            .read(move |connection| {
                let committed = offsets::committed(connection, &group, stream)?;
                let mut lag = Lag::default();
                for (partition, (end, committed)) in ends.into_iter().zip(committed).enumerate() {
                    let records = u64::try_from(end - committed).unwrap_or(0);
                    if records > 0 {
                        lag.records += records;
                        let oldest = store::appended_at(connection, stream, partition, committed)?;
                        lag.oldest_ms = lag.oldest_ms.into_iter().chain(oldest).min();
                    }
                }
                Ok(lag)
            })
            .await
    }

    /// Hands fresh transfers to who waits for them.
    fn push_transfers(&self, transfers: Vec<Arc<Transfer>>) {
        let placed = transfers.into_iter().map(|transfer| (transfer.sequence.partition as usize, transfer));
        self.transfers.push(placed);
    }

    fn count_file_read(&self) {
        self.file_reads.fetch_add(1, Ordering::Relaxed);
    }
}

/// A consumer was asked after the log was closed.
fn closed() -> StoreError {
    StoreError::Unavailable("the log is closed".into())
}

impl SqliteEventLog {
    /// Opens the log, or creates it. Its incarnation is the second of its creation: larger than that of a log that
    /// was in this folder before and was deleted.
    pub(super) async fn open(database: Arc<Database>, options: &EmbeddedOptions) -> StoreResult<Self> {
        let wanted = Shape {
            incarnation: u32::try_from(options.clock.now_ms() / 1000).unwrap_or(1).max(1),
            partitions: options.partitions.max(1),
        };
        let (shape, source_ends, transfer_ends) = database
            .write(move |connection| {
                let shape = store::open(connection, wanted)?;
                let source_ends = offsets::ends(connection, Stream::Source)?;
                Ok((shape, source_ends, offsets::ends(connection, Stream::Transfer)?))
            })
            .await?;
        if shape.partitions != options.partitions {
            log::warn!(
                "transfer log keeps the partitions of its creation partitions={} configured={}",
                shape.partitions,
                options.partitions
            );
        }
        let shared = Arc::new(Shared {
            database,
            clock: Arc::clone(&options.clock),
            shape,
            sources: Tail::new(options.tail, source_ends),
            transfers: Tail::new(options.tail, transfer_ends),
            file_reads: AtomicU64::new(0),
        });
        Ok(Self { shared, retention: options.retention })
    }

    pub(super) fn file_reads(&self) -> u64 {
        self.shared.file_reads.load(Ordering::Relaxed)
    }

    /// Wakes all consumers with an error.
    pub(super) fn close(&self) {
        self.shared.sources.close();
        self.shared.transfers.close();
    }

    /// Removes old records until the oldest ones are to stay. Returns how many went.
    pub(super) async fn remove_old(&self, now_ms: i64) -> StoreResult<u64> {
        let retention_ms = i64::try_from(self.retention.as_millis()).unwrap_or(i64::MAX);
        let before_ms = now_ms.saturating_sub(retention_ms);
        let database = &self.shared.database;
        let mut total = 0;
        loop {
            let removed = database
                .write_in_spare_time(move |connection| retention::remove_source(connection, before_ms))
                .await?;
            total += removed as u64;
            if removed < retention::CHUNK {
                break;
            }
        }
        for partition in 0..self.shared.shape.partitions as usize {
            loop {
                let removed = database
                    .write_in_spare_time(move |connection| {
                        retention::remove_transfers(connection, partition, before_ms)
                    })
                    .await?;
                total += removed as u64;
                if removed < retention::CHUNK {
                    break;
                }
            }
        }
        Ok(total)
    }
}

impl EventLog for SqliteEventLog {
    fn append(&self, records: Vec<NewRecord>) -> BoxFuture<'_, StoreResult<Vec<SourcePosition>>> {
        let (clock, shared) = (Arc::clone(&self.shared.clock), Arc::clone(&self.shared));
        Box::pin(self.shared.database.write_then(
            move |connection| store::append(connection, records, clock.now_ms()),
            move |records| {
                let positions = records.iter().map(|record| record.position.clone()).collect();
                shared.sources.push(records.into_iter().map(|record| (0, record)));
                positions
            },
        ))
    }

    fn partitions(&self) -> u32 {
        self.shared.shape.partitions
    }

    fn incarnation(&self) -> u32 {
        self.shared.shape.incarnation
    }

    fn source(
        &self,
        group: &str,
        limits: BatchLimits,
    ) -> BoxFuture<'_, StoreResult<Arc<dyn SourceConsumer>>> {
        let group = group.to_owned();
        Box::pin(async move {
            let consumer = SqliteSourceConsumer::open(Arc::clone(&self.shared), group, limits).await?;
            Ok(Arc::new(consumer) as Arc<dyn SourceConsumer>)
        })
    }

    fn transfers(
        &self,
        group: &str,
        limits: BatchLimits,
    ) -> BoxFuture<'_, StoreResult<Arc<dyn TransferConsumer>>> {
        let group = group.to_owned();
        Box::pin(async move {
            let consumer = SqliteTransferConsumer::open(Arc::clone(&self.shared), group, limits).await?;
            Ok(Arc::new(consumer) as Arc<dyn TransferConsumer>)
        })
    }

    fn append_transfers(&self, transfers: Vec<NewTransfer>) -> BoxFuture<'_, StoreResult<()>> {
        let (clock, shape, shared) =
            (Arc::clone(&self.shared.clock), self.shared.shape, Arc::clone(&self.shared));
        Box::pin(self.shared.database.write_then(
            move |connection| store::append_transfers(connection, transfers, shape, clock.now_ms()),
            move |transfers| shared.push_transfers(transfers),
        ))
    }

    fn keep_dead(&self, letters: Vec<DeadLetter>) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(
            self.shared.database.write(move |connection| store::append_dead_letters(connection, &letters)),
        )
    }

    fn dead_letters(&self, after: i64, limit: usize) -> BoxFuture<'_, StoreResult<Vec<(i64, DeadLetter)>>> {
        Box::pin(
            self.shared.database.read(move |connection| store::read_dead_letters(connection, after, limit)),
        )
    }
}
