//! A member of a consumer group: what the group gives to it and takes from it is kept until its thread handles it.
//!
//! librdkafka lets a member answer an assignment whenever it likes; until then the group waits. So nothing is done in the
//! callback, where only a borrowed consumer is at hand: the thread that polls looks here after each poll.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaRespErr;

use super::watch::Watch;
use crate::ports::StoreError;

/// What the group wants of a member.
pub(super) enum Rebalance {
    /// These are its own from now on: to be answered by [`take`].
    Assign(TopicPartitionList),
    /// These are another's next, or already: to be answered by [`let_go`].
    Revoke(TopicPartitionList),
}

/// The context of a member's consumer.
#[derive(Clone, Default)]
pub(super) struct Member {
    watch: Watch,
    wanted: Arc<Mutex<VecDeque<Rebalance>>>,
    closing: Arc<AtomicBool>,
}

impl Member {
    pub(super) fn new(watch: Watch) -> Self {
        Self { watch, ..Self::default() }
    }

    /// What is to be answered next.
    pub(super) fn wanted(&self) -> Option<Rebalance> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// The thread ends: from now on everything is answered at once, so that the consumer can be dropped.
    pub(super) fn close(&self, consumer: &BaseConsumer<Self>) {
        self.closing.store(true, Ordering::Release);
        while let Some(rebalance) = self.wanted() {
            answer(consumer, &rebalance);
        }
    }
}

impl ClientContext for Member {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.watch.log(level, facility, line);
    }

    fn error(&self, err: KafkaError, reason: &str) {
        self.watch.error(err, reason);
    }
}

impl ConsumerContext for Member {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        err: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        let rebalance = match err {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Rebalance::Assign(partitions.clone()),
            _ => Rebalance::Revoke(partitions.clone()),
        };
        if self.closing.load(Ordering::Acquire) {
            answer(consumer, &rebalance);
        } else {
            self.wanted.lock().unwrap_or_else(PoisonError::into_inner).push_back(rebalance);
        }
    }
}

fn answer(consumer: &BaseConsumer<Member>, rebalance: &Rebalance) {
    let answered = match rebalance {
        Rebalance::Assign(partitions) => take(consumer, partitions),
        Rebalance::Revoke(partitions) => let_go(consumer, partitions),
    };
    if let Err(err) = answered {
        log::debug!("group was not answered err={err}");
    }
}

/// A consumer that cannot begin for this long although the brokers answer will never: librdkafka has lost one of them from sight. Longer than a
/// transaction may hold back what a group has committed: 10 s, and 10 s until the brokers look.
const GIVE_UP: Duration = Duration::from_secs(30);

/// How long the brokers may take to show that they answer.
const ANSWER: Duration = Duration::from_secs(2);

/// Since when a member cannot begin with what the group gave it.
#[derive(Default)]
pub(super) struct Beginning(Option<Instant>);

impl Beginning {
    /// It has begun.
    pub(super) fn worked(&mut self) {
        self.0 = None;
    }

    /// It could not. Returns whether another consumer would do better.
    pub(super) fn failed(&mut self, consumer: &BaseConsumer<Member>) -> bool {
        let since = *self.0.get_or_insert_with(Instant::now);
        since.elapsed() >= GIVE_UP && consumer.fetch_metadata(None, ANSWER).is_ok()
    }
}

/// The thread of a consumer has ended, however it did.
pub(super) fn ended() -> StoreError {
    StoreError::Fenced("the consumer has ended".to_owned())
}

/// Reads these partitions too, each from its offset in the list on.
pub(super) fn take(consumer: &BaseConsumer<Member>, partitions: &TopicPartitionList) -> KafkaResult<()> {
    match consumer.rebalance_protocol() {
        RebalanceProtocol::Eager => consumer.assign(partitions),
        _ => consumer.incremental_assign(partitions),
    }
}

/// Reads these partitions, which are ours, from other offsets on, although librdkafka may have given them up where they were.
pub(super) fn take_again(
    consumer: &BaseConsumer<Member>,
    partitions: &TopicPartitionList,
) -> KafkaResult<()> {
    if let Err(err) = let_go(consumer, partitions) {
        // They were let go by an attempt that went no further.
        log::debug!("partitions were not let go err={err}");
    }
    take(consumer, partitions)
}

/// Reads these partitions no more.
pub(super) fn let_go(consumer: &BaseConsumer<Member>, partitions: &TopicPartitionList) -> KafkaResult<()> {
    match consumer.rebalance_protocol() {
        RebalanceProtocol::Eager => consumer.unassign(),
        _ => consumer.incremental_unassign(partitions),
    }
}
