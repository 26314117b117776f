//! How far the source group has come, for whoever is not its member.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::admin::AdminClient;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::Offset;

use super::errors::store_error;
use super::member::Member;
use super::offsets::{self, Partition, Point, list_of};
use super::options::{KafkaOptions, REQUEST_TIMEOUT};
use super::topics::Cluster;
use super::watch::Watch;
use super::worker::Worker;
use crate::ports::source_progress::{SourcePlaces, SourceProgress};
use crate::ports::{BoxFuture, StoreError, StoreResult};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How long the first record of a partition is waited for, or the end of a transaction in its place.
const PEEK: Duration = Duration::from_secs(2);

/// What is fetched to see whether there is anything.
const PEEK_BYTES: usize = 64 * 1024;

pub(super) struct KafkaSourceProgress {
    options: KafkaOptions,
    group: String,
    admin: Arc<AdminClient<Watch>>,
    watch: Watch,
    /// Asks for the group, and never joins it. To connect takes longer than to ask.
    consumer: Arc<Mutex<Option<BaseConsumer<Member>>>>,
}

impl KafkaSourceProgress {
    pub(super) fn new(
        options: KafkaOptions,
        group: String,
        admin: Arc<AdminClient<Watch>>,
        watch: Watch,
    ) -> Self {
        Self { options, group, admin, watch, consumer: Arc::default() }
    }

    /// Asks on a thread that may block. A consumer that had trouble is not asked again.
    async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&BaseConsumer<Member>) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (kept, watch) = (Arc::clone(&self.consumer), self.watch.clone());
        let config = self.options.member(&self.group, PEEK_BYTES);
        Worker::once("kafka-progress", move || {
            let known = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
            let consumer = match known {
                Some(consumer) => consumer,
                None => config.create_with_context(Member::new(watch))?,
            };
            let answer = ask(&consumer)?;
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(consumer);
            Ok(answer)
        })
        .await
    }
}

impl SourceProgress for KafkaSourceProgress {
    fn ends(&self) -> BoxFuture<'_, StoreResult<SourcePlaces>> {
        let (admin, sources) = (Arc::clone(&self.admin), self.options.sources());
        Box::pin(self.ask(move |consumer| {
            let partitions = Cluster::ask(admin.inner(), REQUEST_TIMEOUT)?.partitions_of(&sources);
            let ends = offsets::find(consumer, &partitions, Point::End, REQUEST_TIMEOUT)?;
            match partitions.iter().find(|partition| !ends.contains_key(*partition)) {
                None => Ok(SourcePlaces(ends)),
                Some((topic, number)) => {
                    Err(StoreError::Unavailable(format!("the end of {topic}/{number} is not known")))
                }
            }
        }))
    }

    fn passes<'a>(&'a self, places: &'a SourcePlaces, within: Duration) -> BoxFuture<'a, StoreResult<bool>> {
        let mut ahead = places.0.clone();
        Box::pin(self.ask(move |consumer| {
            let deadline = Instant::now() + within;
            loop {
                remove_passed(consumer, &mut ahead)?;
                if ahead.is_empty() || Instant::now() >= deadline {
                    return Ok(ahead.is_empty());
                }
                thread::sleep(LOOK_EVERY);
            }
        }))
    }
}

/// Removes the places that the group has passed. Blocks.
fn remove_passed(consumer: &BaseConsumer<Member>, ahead: &mut BTreeMap<Partition, i64>) -> StoreResult<()> {
    let partitions: Vec<Partition> = ahead.keys().cloned().collect();
    let mut next = offsets::committed(consumer, &partitions, REQUEST_TIMEOUT)?;
    let unread: Vec<Partition> =
        partitions.into_iter().filter(|partition| !next.contains_key(partition)).collect();
    // It begins there at the oldest record.
    next.extend(offsets::find(consumer, &unread, Point::Low, REQUEST_TIMEOUT)?);
    ahead.retain(|partition, place| next.get(partition).is_none_or(|next| next < place));
    next.retain(|partition, _| ahead.contains_key(partition));
    if next.is_empty() {
        return Ok(());
    }
    // What is committed stands behind the last record; the end of a transaction comes after it, and is an offset too.
    let read = peek(consumer, &next, ahead)?;
    ahead.retain(|partition, _| !read.contains(partition));
    Ok(())
}

/// The partitions that have no record between `next` and `ends`.
fn peek(
    consumer: &BaseConsumer<Member>,
    next: &BTreeMap<Partition, i64>,
    ends: &BTreeMap<Partition, i64>,
) -> StoreResult<BTreeSet<Partition>> {
    let mut positions = next.clone();
    let reached = |positions: &BTreeMap<Partition, i64>| -> BTreeSet<Partition> {
        let reached = positions.iter().filter(|(partition, next)| ends.get(*partition) <= Some(*next));
        reached.map(|(partition, _)| partition.clone()).collect()
    };
    let mut found = BTreeSet::new();
    let deadline = Instant::now() + PEEK;
    let list = list_of(next.iter().map(|(partition, next)| (partition, Offset::Offset(*next))))?;
    consumer.assign(&list)?;
    while found.len() + reached(&positions).len() < next.len() && Instant::now() < deadline {
        match consumer.poll(Duration::from_millis(50)) {
            Some(Ok(record)) => {
                let partition = (Arc::from(record.topic()), record.partition());
                if ends.get(&partition).is_some_and(|end| record.offset() < *end) {
                    positions.remove(&partition);
                    found.insert(partition);
                } else {
                    positions.insert(partition, record.offset());
                }
            }
            Some(Err(err)) => return Err(store_error(err)),
            None => offsets::advance(consumer, &mut positions),
        }
    }
    consumer.unassign()?;
    Ok(reached(&positions))
}
