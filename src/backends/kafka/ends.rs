//! Where partitions end, asked over a connection where nothing is fetched: on that of a consumer the answer would come behind a fetch that waits
//! for records.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::BaseConsumer;

use super::member::Member;
use super::offsets::{self, Partition, Point};
use super::watch::Watch;
use super::worker::Worker;
use crate::ports::StoreResult;

/// The brokers have this long to answer.
const ANSWER: Duration = Duration::from_secs(1);

/// Brokers that did not answer are left alone for this long: what was known last is told meanwhile.
const REST: Duration = Duration::from_secs(5);

/// Asks for ends, one question after the other.
pub(super) struct Ends {
    config: ClientConfig,
    watch: Watch,
    worker: Worker,
    asked: Arc<Mutex<Asked>>,
}

#[derive(Default)]
struct Asked {
    /// To connect takes longer than to ask.
    consumer: Option<BaseConsumer<Member>>,
    /// What was answered last.
    known: BTreeMap<Partition, i64>,
    rests_until: Option<Instant>,
}

impl Ends {
    /// Connects with the first question. What is written and not readable yet counts as there: of a transaction that was just committed the
    /// brokers show nothing for a moment, and what it holds would be in no stage.
    pub(super) fn new(mut config: ClientConfig, watch: Watch) -> StoreResult<Self> {
        config.set("isolation.level", "read_uncommitted");
        Ok(Self { config, watch, worker: Worker::start("kafka-ends")?, asked: Arc::default() })
    }

    /// Asks for the ends of these partitions, and passes them to `then`, which may block. Of a broker that does not answer they are as they
    /// were known last; of one that never did they are left out.
    ///
    /// # Errors
    /// No broker answers, and none ever did.
    pub(super) async fn find<T: Send + 'static>(
        &self,
        partitions: Vec<Partition>,
        then: impl FnOnce(BTreeMap<Partition, i64>) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (asked, config, watch) = (Arc::clone(&self.asked), self.config.clone(), self.watch.clone());
        let find = move || {
            let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
            let found = asked.find(&partitions, &config, watch);
            drop(asked);
            then(found?)
        };
        self.worker.run(find).await
    }
}

impl Asked {
    fn find(
        &mut self,
        partitions: &[Partition],
        config: &ClientConfig,
        watch: Watch,
    ) -> StoreResult<BTreeMap<Partition, i64>> {
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            return Ok(self.known_of(partitions));
        }
        let consumer = match self.consumer.take() {
            Some(consumer) => consumer,
            None => config.create_with_context(Member::new(watch))?,
        };
        let found = offsets::find(&consumer, partitions, Point::End, ANSWER);
        self.consumer = Some(consumer);
        let is_whole = found.as_ref().is_ok_and(|found| found.len() == partitions.len());
        self.rests_until = (!is_whole).then(|| Instant::now() + REST);
        match found {
            Ok(found) => self.known.extend(found),
            Err(err) if self.known.is_empty() => {
                self.rests_until = None;
                return Err(err);
            }
            Err(err) => log::debug!("ends of partitions are as they were err={err}"),
        }
        Ok(self.known_of(partitions))
    }

    fn known_of(&self, partitions: &[Partition]) -> BTreeMap<Partition, i64> {
        let known = |partition: &Partition| Some((partition.clone(), *self.known.get(partition)?));
        partitions.iter().filter_map(known).collect()
    }
}
