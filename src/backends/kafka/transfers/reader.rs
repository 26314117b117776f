//! The thread that reads the transfer log, and answers the group.

mod group;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::TopicPartitionList;
use tokio_util::sync::CancellationToken;

use self::group::Leaving;
use super::committer::Committer;
use super::places::Read;
use super::{Closing, KafkaTransferConsumer, Shared};
use crate::backends::kafka::ends::Ends;
use crate::backends::kafka::filling::Filling;
use crate::backends::kafka::gaps::Gaps;
use crate::backends::kafka::member::{Beginning, Member};
use crate::backends::kafka::record;
use crate::backends::kafka::watch::Watch;
use crate::ports::clock::Clock;
use crate::ports::event_log::BatchLimits;
use crate::ports::{StoreError, StoreResult};

/// The thread wakes by itself this often; everything that it waits for wakes it at once.
const IDLE: Duration = Duration::from_millis(100);

/// Reads the transfer log for a [`KafkaTransferConsumer`].
pub(in super::super) struct Reader {
    pub(in super::super) config: ClientConfig,
    pub(in super::super) topic: Arc<str>,
    pub(in super::super) incarnation: u32,
    pub(in super::super) member: Member,
    pub(in super::super) limits: BatchLimits,
    pub(in super::super) session_timeout: Duration,
    pub(in super::super) clock: Arc<dyn Clock>,
    pub(in super::super) ends: Arc<Ends>,
    pub(in super::super) gaps: Gaps,
    pub(in super::super) watch: Watch,
    pub(in super::super) stop: CancellationToken,
    /// Its drop says that the group was left.
    pub(in super::super) left: Box<dyn Send>,
}

impl Reader {
    /// Joins the group, on threads of its own.
    pub(in super::super) fn start(self) -> StoreResult<KafkaTransferConsumer> {
        let shared = Arc::new(Shared::new());
        let closing = Closing(Arc::clone(&shared));
        let mut consumer: BaseConsumer<Member> = self.config.create_with_context(self.member.clone())?;
        let reader: Arc<std::sync::OnceLock<Thread>> = Arc::default();
        let wakes = Arc::clone(&reader);
        consumer.set_nonempty_callback(move || {
            if let Some(reader) = wakes.get() {
                reader.unpark();
            }
        });
        consumer.subscribe(&[&self.topic])?;
        let consumer = Arc::new(consumer);
        let read_by = Arc::downgrade(&consumer);
        let committer = Committer::start(
            Arc::clone(&shared),
            Weak::clone(&read_by),
            Arc::clone(&self.topic),
            self.clock,
            self.session_timeout,
        )?;
        let running = Running {
            consumer,
            committer: committer.clone(),
            topic: self.topic,
            incarnation: self.incarnation,
            member: self.member,
            limits: self.limits,
            gaps: self.gaps,
            watch: self.watch,
            stop: self.stop,
            shared: Arc::clone(&shared),
            queues: BTreeMap::new(),
            assigning: None,
            beginning: Beginning::default(),
            is_over: false,
            leaving: None,
            out_of_range: BTreeSet::new(),
            ask_again: Instant::now(),
        };
        let (left, topic) = (self.left, Arc::clone(&running.topic));
        let thread = thread::Builder::new()
            .name("kafka-transfer".to_owned())
            .spawn(move || {
                let _said_last = (left, closing);
                running.run();
            })
            .map_err(|err| StoreError::Unavailable(format!("no thread: {err}")))?;
        let reader = reader.get_or_init(|| thread.thread().clone()).clone();
        Ok(KafkaTransferConsumer { shared, reader, committer, topic, consumer: read_by, ends: self.ends })
    }
}

/// A partition that is read.
struct Queue {
    records: PartitionQueue<Member>,
    filling: Filling<Read>,
    /// It holds a record that is none of ours: nothing behind it is read.
    stuck: bool,
}

/// The thread's own.
struct Running {
    consumer: Arc<BaseConsumer<Member>>,
    committer: Committer,
    topic: Arc<str>,
    incarnation: u32,
    member: Member,
    limits: BatchLimits,
    gaps: Gaps,
    watch: Watch,
    stop: CancellationToken,
    shared: Arc<Shared>,
    queues: BTreeMap<u32, Queue>,
    /// What the group gave, while it is not known where to begin.
    assigning: Option<TopicPartitionList>,
    beginning: Beginning,
    /// Another consumer is to go on.
    is_over: bool,
    leaving: Option<Leaving>,
    /// Partitions that cannot be read where they are.
    out_of_range: BTreeSet<u32>,
    /// Not before this time the brokers are asked again for what they did not answer.
    ask_again: Instant,
}

impl Running {
    fn run(mut self) {
        while !self.stop.is_cancelled() && !self.is_over && !self.shared.lock().closed {
            self.rebalance();
            self.mend();
            if !self.read() {
                thread::park_timeout(IDLE);
            }
        }
        self.queues.clear();
        let _committing = self.shared.committing();
        self.member.close(&self.consumer);
    }

    /// Reads what is wanted and there. `false`: nothing.
    fn read(&mut self) -> bool {
        self.serve(Duration::ZERO);
        let wanted = self.shared.lock().places.wanted();
        let mut batches = Vec::new();
        let shared = Arc::clone(&self.shared);
        let reading = shared.reading();
        for number in wanted {
            let Some(queue) = self.queues.get_mut(&number) else { continue };
            if fill(queue, self.incarnation, &self.watch, &self.topic) {
                self.out_of_range.insert(number);
            }
            if !queue.filling.is_empty() {
                batches.push((number, queue.filling.take()));
            }
        }
        if batches.is_empty() {
            drop(reading);
            // An event would hide others behind it: librdkafka gets a moment before this thread sleeps.
            self.serve(Duration::from_millis(1));
            return false;
        }
        let mut state = self.shared.lock();
        for (number, batch) in batches {
            state.places.publish(number, batch);
        }
        drop(state);
        self.shared.changed.notify_waiters();
        true
    }

    /// Lets librdkafka tell what is no record: each partition has a queue of its own for those.
    fn serve(&self, wait: Duration) {
        while let Some(event) = self.consumer.poll(wait) {
            match event {
                Ok(message) => log::error!("record beside its queue partition={}", message.partition()),
                // Librdkafka goes on by itself; the watch has it.
                Err(err) => log::debug!("transfer log err={err}"),
            }
        }
    }
}

/// Reads up to a batch. `true`: the partition cannot be read where it is.
fn fill(queue: &mut Queue, incarnation: u32, watch: &Watch, topic: &str) -> bool {
    while !queue.stuck && !queue.filling.is_full() {
        match queue.records.poll(Duration::ZERO) {
            None => break,
            Some(Ok(message)) => match record::decode(&message, incarnation) {
                Ok(transfer) => {
                    queue.filling.push(transfer.weight(), (time_of(&message), Arc::new(transfer)));
                }
                Err(err) => {
                    queue.stuck = true;
                    let (partition, offset) = (message.partition(), message.offset());
                    let reason = format!(
                        "record of the transfer topic is none of ours, its partition stops err={err} topic={topic} \
                         partition={partition} offset={offset}"
                    );
                    watch.is_stuck(partition.unsigned_abs(), reason);
                }
            },
            Some(Err(KafkaError::MessageConsumption(Code::AutoOffsetReset))) => return true,
            Some(Err(err)) => log::debug!("transfer log err={err}"),
        }
    }
    false
}

fn time_of(message: &BorrowedMessage<'_>) -> i64 {
    message.timestamp().to_millis().unwrap_or(0)
}
