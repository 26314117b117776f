//! A group's place in the source stream.
//!
//! One thread does everything that touches the consumer: reading, transactions, answering the group. So no partition can go while a
//! transaction with its offsets is written, and what is checked before a transaction is true until it ends.

mod places;
mod reader;
pub(super) mod start;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::Thread;
use std::time::Duration;

use rdkafka::admin::AdminClient;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use self::places::Places;
pub(super) use self::reader::Reader;
use super::ends::Ends;
use super::ingest::Destinations;
use super::member::ended;
use super::offsets::{Partition, unread};
use super::watch::Watch;
use crate::domain::change_event::SourceRecord;
use crate::ports::event_log::{IngestWork, Lag, SourceConsumer};
use crate::ports::{BoxFuture, StoreError, StoreResult};

/// What the consumer asks its thread.
enum Ask {
    Commit(IngestWork, oneshot::Sender<StoreResult<()>>),
    Rewind(oneshot::Sender<StoreResult<()>>),
    Place(oneshot::Sender<StoreResult<ReadTo>>),
}

/// How far it has read.
#[derive(Clone)]
struct ReadTo {
    /// The next offset to read of each partition.
    positions: BTreeMap<Partition, i64>,
    /// What was read and is not committed.
    pending: Lag,
}

/// The thread may be within a transaction: where it was before is told then. What came since counts as not read.
const PLACE_WITHIN: Duration = Duration::from_millis(20);

/// What the consumer and its thread share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    places: Places,
    /// The thread has ended.
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct KafkaSourceConsumer {
    destinations: Destinations,
    admin: Arc<AdminClient<Watch>>,
    ends: Arc<Ends>,
    /// As it was told last.
    read_to: Mutex<Option<ReadTo>>,
    shared: Arc<Shared>,
    asks: mpsc::Sender<Ask>,
    /// Ends when `asks` is gone.
    thread: Thread,
}

impl KafkaSourceConsumer {
    async fn next_batch(&self) -> StoreResult<Vec<SourceRecord>> {
        loop {
            // Before looking, so that what comes after the look wakes us.
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = self.shared.lock();
                if let Some(batch) = state.places.receive() {
                    drop(state);
                    self.thread.unpark();
                    return Ok(batch);
                }
                if state.closed {
                    return Err(ended());
                }
            }
            changed.await;
        }
    }

    /// What the topics take is asked anew before anything is too large for them, and when they refuse something: whoever gave the work
    /// gives it again.
    async fn write(&self, work: IngestWork) -> StoreResult<()> {
        if self.destinations.is_too_small_for(&work.transfers) {
            self.destinations.read_limits(&self.admin).await?;
        }
        let written = self.ask(|answer| Ask::Commit(work, answer)).await;
        if let Err(StoreError::Refused(_)) = &written {
            self.destinations.read_limits(&self.admin).await?;
        }
        written
    }

    async fn ask_lag(&self) -> StoreResult<Lag> {
        let told = match timeout(PLACE_WITHIN, self.ask(Ask::Place)).await {
            Ok(told) => Some(told?),
            Err(_) => None,
        };
        let ReadTo { positions, pending } = {
            let mut read_to = self.read_to.lock().unwrap_or_else(PoisonError::into_inner);
            if told.is_some() {
                *read_to = told;
            }
            let busy = || StoreError::Unavailable("the consumer is at work".to_owned());
            read_to.clone().ok_or_else(busy)?
        };
        let partitions = positions.keys().cloned().collect();
        let count = move |ends| {
            Ok(Lag { records: pending.records + unread(&positions, &ends), ..pending })
        };
        self.ends.find(partitions, count).await
    }

    async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<StoreResult<T>>) -> Ask) -> StoreResult<T> {
        let (answer, answered) = oneshot::channel();
        self.asks.send(ask(answer)).map_err(|_| ended())?;
        self.thread.unpark();
        answered.await.map_err(|_| ended())?
    }
}

impl SourceConsumer for KafkaSourceConsumer {
    fn next(&self) -> BoxFuture<'_, StoreResult<Vec<SourceRecord>>> {
        Box::pin(self.next_batch())
    }

    fn commit(&self, work: IngestWork) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.write(work))
    }

    fn rewind(&self) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.ask(Ask::Rewind))
    }

    fn lag(&self) -> BoxFuture<'_, StoreResult<Lag>> {
        Box::pin(self.ask_lag())
    }
}

impl Drop for KafkaSourceConsumer {
    fn drop(&mut self) {
        // The thread looks for its asker when it wakes.
        self.asks = mpsc::channel().0;
        self.thread.unpark();
    }
}
