//! A group's place in the source stream.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::errors::JobError;
use super::offsets::{self, Stream};
use super::tail::Found;
use super::{Shared, closed, store};
use crate::domain::change_event::SourceRecord;
use crate::ports::event_log::{BatchLimits, IngestWork, Lag, SourceConsumer};
use crate::ports::{BoxFuture, StoreError, StoreResult};

pub(super) struct SqliteSourceConsumer {
    shared: Arc<Shared>,
    group: String,
    limits: BatchLimits,
    place: Mutex<Place>,
}

#[derive(Default)]
struct Place {
    /// As it was read or written last. A commit is refused when the store has another: somebody else moved the group on,
    /// and the transfers would stand in the log twice.
    committed: i64,
    /// The next to hand out.
    position: i64,
    /// Handed out and not committed.
    outstanding: VecDeque<(Arc<str>, i64)>,
}

impl Place {
    fn at(committed: i64) -> Self {
        Self { committed, position: committed, outstanding: VecDeque::new() }
    }

    fn hand_out(&mut self, records: &[SourceRecord]) {
        for record in records {
            self.outstanding.push_back((Arc::clone(&record.position.topic), record.position.offset));
            self.position = record.position.offset + 1;
        }
    }

    /// The one offset that these offsets by topic are. Refused when a record that was handed out before it is not among
    /// them: it would be lost.
    fn next_of(&self, offsets: &BTreeMap<(Arc<str>, i32), i64>) -> StoreResult<Option<i64>> {
        let Some(next) = offsets.values().copied().max() else { return Ok(None) };
        if next < self.committed || next > self.position {
            return Err(StoreError::Refused(format!(
                "source offset {next} is not between the committed {} and the read {}",
                self.committed, self.position
            )));
        }
        for (topic, offset) in self.outstanding.iter().take_while(|(_, offset)| *offset < next) {
            if offsets.get(&(Arc::clone(topic), 0)).is_none_or(|next| next <= offset) {
                return Err(StoreError::Refused(format!("commit leaves out {topic}/0@{offset}")));
            }
        }
        Ok(Some(next))
    }

    fn committed(&mut self, next: i64) {
        self.committed = next;
        while self.outstanding.front().is_some_and(|(_, offset)| *offset < next) {
            self.outstanding.pop_front();
        }
    }
}

impl SqliteSourceConsumer {
    pub(super) async fn open(shared: Arc<Shared>, group: String, limits: BatchLimits) -> StoreResult<Self> {
        let name = group.clone();
        let committed = shared
            .database
            .write(move |connection| offsets::open_group(connection, &name, Stream::Source))
            .await?;
        let place = Mutex::new(Place::at(committed.first().copied().unwrap_or(0)));
        Ok(Self { shared, group, limits, place })
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn next_batch(&self) -> StoreResult<Vec<SourceRecord>> {
        loop {
            // Before looking, so that what comes after the look wakes us.
            let mut changed = std::pin::pin!(self.shared.sources.changed());
            changed.as_mut().enable();
            if self.shared.sources.is_closed() {
                return Err(closed());
            }
            let from = self.place().position;
            match self.shared.sources.find(0, from, self.limits) {
                Found::Here(records) => {
                    // The place moves on where nothing is awaited any more: who drops this future gets them again.
                    let mut place = self.place();
                    if place.position == from {
                        place.hand_out(&records);
                        return Ok(records);
                    }
                }
                Found::InFile { end } => {
                    if let Some(records) = self.read_file(from, end).await? {
                        return Ok(records);
                    }
                }
                Found::Nothing => changed.await,
            }
        }
    }

    async fn read_file(&self, from: i64, end: i64) -> StoreResult<Option<Vec<SourceRecord>>> {
        self.shared.count_file_read();
        let limits = self.limits;
        let records =
            self.shared.database.read(move |connection| store::read_source(connection, from, limits)).await?;
        let mut place = self.place();
        if place.position != from {
            return Ok(None);
        }
        if records.is_empty() {
            log::error!("source_gap records are gone from={from} end={end} group={}", self.group);
            place.position = end;
            return Ok(None);
        }
        place.hand_out(&records);
        Ok(Some(records))
    }

    async fn commit_work(&self, work: IngestWork) -> StoreResult<()> {
        let (expected, next) = {
            let place = self.place();
            (place.committed, place.next_of(&work.offsets)?)
        };
        let (group, shared) = (self.group.clone(), Arc::clone(&self.shared));
        let (clock, shape) = (Arc::clone(&shared.clock), shared.shape);
        self.shared
            .database
            .write_then(
                move |connection| {
                    if let Some(next) = next {
                        let stored = offsets::committed(connection, &group, Stream::Source)?;
                        if stored != [expected] {
                            return Err(JobError::fenced("another consumer of the group committed"));
                        }
                        offsets::commit(connection, &group, Stream::Source, 0, next)?;
                    }
                    store::append_dead_letters(connection, &work.dead_letters)?;
                    store::append_transfers(connection, work.transfers, shape, clock.now_ms())
                },
                move |transfers| shared.push_transfers(transfers),
            )
            .await?;
        if let Some(next) = next {
            self.place().committed(next);
        }
        Ok(())
    }

    async fn go_back(&self) -> StoreResult<()> {
        let group = self.group.clone();
        let committed = self
            .shared
            .database
            .read(move |connection| offsets::committed(connection, &group, Stream::Source))
            .await?;
        *self.place() = Place::at(committed.first().copied().unwrap_or(0));
        self.shared.sources.wake();
        Ok(())
    }
}

impl SourceConsumer for SqliteSourceConsumer {
    fn next(&self) -> BoxFuture<'_, StoreResult<Vec<SourceRecord>>> {
        Box::pin(self.next_batch())
    }

    fn commit(&self, work: IngestWork) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.commit_work(work))
    }

    fn rewind(&self) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.go_back())
    }

    fn lag(&self) -> BoxFuture<'_, StoreResult<Lag>> {
        Box::pin(self.shared.lag(&self.group, Stream::Source, self.shared.sources.ends()))
    }
}
