//! A group's place in the transfer log.
//!
//! Two threads: the reader polls, hands out batches, and answers the group; the committer commits, also while the reader waits for
//! partitions to be left. A commit that the brokers answered is the proof that the partitions were still ours when it was sent.

mod committer;
mod places;
mod reader;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Thread;

use rdkafka::consumer::BaseConsumer;
use tokio::sync::Notify;

use self::committer::Committer;
use self::places::Places;
pub(super) use self::reader::Reader;
use super::ends::Ends;
use super::member::{Member, ended};
use super::offsets::{self, Partition, unread};
use crate::ports::event_log::{Lag, SendPermission, TransferConsumer, TransferEvent};
use crate::ports::{BoxFuture, StoreResult};

/// What the consumer and its threads share.
struct Shared {
    state: Mutex<State>,
    changed: Notify,
    permission: SendPermission,
    /// Held while a commit is under way: a partition is not let go under it.
    committing: Mutex<()>,
    /// Held while records go from librdkafka into `state`: whoever counts them finds them in one of both.
    reading: Mutex<()>,
}

#[derive(Default)]
struct State {
    places: Places,
    /// The consumer was dropped, or the reader has ended.
    closed: bool,
}

impl Shared {
    fn new() -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            permission: SendPermission::none(),
            committing: Mutex::default(),
            reading: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn committing(&self) -> MutexGuard<'_, ()> {
        self.committing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reading(&self) -> MutexGuard<'_, ()> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells who waits that one of the threads has ended, however it did.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.permission.withdraw();
        self.0.changed.notify_waiters();
    }
}

pub(super) struct KafkaTransferConsumer {
    shared: Arc<Shared>,
    reader: Thread,
    committer: Committer,
    topic: Arc<str>,
    /// The reader's.
    consumer: Weak<BaseConsumer<Member>>,
    ends: Arc<Ends>,
}

impl KafkaTransferConsumer {
    async fn next_event(&self) -> StoreResult<TransferEvent> {
        loop {
            // Before looking, so that what comes after the look wakes us.
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = self.shared.lock();
                if let Some(event) = state.places.receive() {
                    drop(state);
                    self.reader.unpark();
                    return Ok(event);
                }
                if state.closed {
                    return Err(ended());
                }
            }
            changed.await;
        }
    }

    async fn ask_lag(&self) -> StoreResult<Lag> {
        let (shared, consumer, topic) =
            (Arc::clone(&self.shared), Weak::clone(&self.consumer), Arc::clone(&self.topic));
        let places = move |shared: &Shared| -> BTreeMap<Partition, i64> {
            let all = shared.lock().places.all().into_iter();
            let place = |(number, committed)| Some(((Arc::clone(&topic), i32::try_from(number).ok()?), committed));
            all.filter_map(place).collect()
        };
        let partitions = places(&shared).into_keys().collect();
        let count = move |ends| {
            let mut positions = places(&shared);
            let _reading = shared.reading();
            offsets::advance(&*consumer.upgrade().ok_or_else(ended)?, &mut positions);
            let pending = shared.lock().places.pending();
            Ok(Lag { records: pending.records + unread(&positions, &ends), ..pending })
        };
        self.ends.find(partitions, count).await
    }
}

impl TransferConsumer for KafkaTransferConsumer {
    fn next(&self) -> BoxFuture<'_, StoreResult<TransferEvent>> {
        Box::pin(self.next_event())
    }

    fn commit(&self, offsets: BTreeMap<u32, i64>) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.committer.commit(offsets))
    }

    fn pause(&self, partition: u32) {
        self.shared.lock().places.set_paused(partition, true);
    }

    fn resume(&self, partition: u32) {
        self.shared.lock().places.set_paused(partition, false);
        self.shared.changed.notify_waiters();
        self.reader.unpark();
    }

    fn permission(&self) -> SendPermission {
        self.shared.permission.clone()
    }

    fn lag(&self) -> BoxFuture<'_, StoreResult<Lag>> {
        Box::pin(self.ask_lag())
    }
}

impl Drop for KafkaTransferConsumer {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.reader.unpark();
    }
}

#[cfg(test)]
mod tests;
