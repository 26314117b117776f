//! The thread that reads the transfer log, and answers the group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio_util::sync::CancellationToken;

use super::super::errors::store_error;
use super::super::filling::Filling;
use super::super::gaps::{Gaps, Stream};
use super::super::member::{self, Member, Rebalance};
use super::super::offsets::{self, Begin, Partition, list_of, partitions_of};
use super::super::options::REQUEST_TIMEOUT;
use super::super::record;
use super::super::watch::Watch;
use super::committer::Committer;
use super::places::Read;
use super::{KafkaTransferConsumer, Shared};
use crate::ports::clock::Clock;
use crate::ports::event_log::{BatchLimits, Left, TransferEvent};
use crate::ports::{StoreError, StoreResult};

/// The thread wakes by itself this often; everything that it waits for wakes it at once.
const IDLE: Duration = Duration::from_millis(100);

/// A revoked partition is waited for this long: a request may take a minute.
const LEAVING: Duration = Duration::from_secs(65);

/// Reads the transfer log for a [`KafkaTransferConsumer`].
pub(in super::super) struct Reader {
    pub(in super::super) config: ClientConfig,
    pub(in super::super) topic: Arc<str>,
    pub(in super::super) incarnation: u32,
    pub(in super::super) member: Member,
    pub(in super::super) limits: BatchLimits,
    pub(in super::super) session_timeout: Duration,
    pub(in super::super) clock: Arc<dyn Clock>,
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
        let mut consumer: BaseConsumer<Member> =
            self.config.create_with_context(self.member.clone()).map_err(store_error)?;
        let reader: Arc<std::sync::OnceLock<Thread>> = Arc::default();
        let wakes = Arc::clone(&reader);
        consumer.set_nonempty_callback(move || {
            if let Some(reader) = wakes.get() {
                reader.unpark();
            }
        });
        consumer.subscribe(&[&self.topic]).map_err(store_error)?;
        let consumer = Arc::new(consumer);
        let committer = Committer::start(
            Arc::clone(&shared),
            Arc::downgrade(&consumer),
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
            leaving: None,
            out_of_range: BTreeSet::new(),
            ask_again: Instant::now(),
        };
        let left = self.left;
        let thread = thread::Builder::new()
            .name("kafka-transfer".to_owned())
            .spawn(move || {
                let _said_last = (left, closing);
                running.run();
            })
            .map_err(|err| StoreError::Unavailable(format!("no thread: {err}")))?;
        let reader = reader.get_or_init(|| thread.thread().clone()).clone();
        Ok(KafkaTransferConsumer { shared, reader, committer })
    }
}

/// Tells who waits that the thread has ended, however it did.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.permission.withdraw();
        self.0.changed.notify_waiters();
    }
}

/// A partition that is read.
struct Queue {
    records: PartitionQueue<Member>,
    filling: Filling<Read>,
    /// It holds a record that is none of ours: nothing behind it is read.
    stuck: bool,
}

/// Partitions that go to another member when they were left.
struct Leaving {
    list: TopicPartitionList,
    partitions: BTreeSet<u32>,
    left: Arc<AtomicBool>,
    until: Instant,
}

/// Held by whoever still uses revoked partitions.
struct Using {
    left: Arc<AtomicBool>,
    reader: Thread,
}

impl Drop for Using {
    fn drop(&mut self) {
        self.left.store(true, Ordering::Release);
        self.reader.unpark();
    }
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
    leaving: Option<Leaving>,
    /// Partitions that cannot be read where they are.
    out_of_range: BTreeSet<u32>,
    /// Not before this time the brokers are asked again for what they did not answer.
    ask_again: Instant,
}

impl Running {
    fn run(mut self) {
        while !self.stop.is_cancelled() && !self.shared.lock().closed {
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

    /// Answers the group, one thing after the other.
    fn rebalance(&mut self) {
        loop {
            if self.leaving.is_some() && !self.left() {
                return;
            }
            let wanted = self.assigning.take().map(Rebalance::Assign).or_else(|| self.member.wanted());
            match wanted {
                Some(Rebalance::Assign(list)) if Instant::now() < self.ask_again => {
                    self.assigning = Some(list);
                    return;
                }
                Some(Rebalance::Assign(list)) => self.assign(list),
                Some(Rebalance::Revoke(list)) => self.revoke(list),
                None => return,
            }
        }
    }

    fn assign(&mut self, list: TopicPartitionList) {
        match self.take(&list) {
            Ok(begins) => {
                let committed =
                    begins.iter().map(|(partition, begin)| (number(partition), begin.from)).collect();
                self.shared.lock().places.assign(committed);
                self.shared.changed.notify_waiters();
                self.committer.prove();
            }
            Err(err) => {
                log::warn!("transfer partitions are not read yet err={err}");
                self.ask_again = Instant::now() + Duration::from_secs(1);
                self.assigning = Some(list);
            }
        }
    }

    /// Reads these partitions from their committed offsets on.
    fn take(&mut self, list: &TopicPartitionList) -> StoreResult<BTreeMap<Partition, Begin>> {
        let partitions = partitions_of(list);
        let begins = offsets::begins(&self.consumer, &partitions, REQUEST_TIMEOUT)?;
        for partition in &partitions {
            self.open(partition)?;
        }
        let from = begins.iter().map(|(partition, begin)| (partition, Offset::Offset(begin.from)));
        member::take(&self.consumer, &list_of(from)?).map_err(store_error)?;
        for (partition, begin) in &begins {
            self.gaps.say(Stream::Transfer, partition, *begin);
        }
        Ok(begins)
    }

    /// Gives a partition a queue of its own, before anything of it comes.
    fn open(&mut self, partition: &Partition) -> StoreResult<()> {
        let queue = self.consumer.split_partition_queue(&partition.0, partition.1);
        let mut records =
            queue.ok_or_else(|| StoreError::Unavailable("a partition is not known yet".to_owned()))?;
        let reader = thread::current();
        records.set_nonempty_callback(move || reader.unpark());
        let queue = Queue { records, filling: Filling::new(self.limits), stuck: false };
        self.queues.insert(number(partition), queue);
        Ok(())
    }

    fn revoke(&mut self, list: TopicPartitionList) {
        if self.consumer.assignment_lost() {
            self.lose();
        }
        let all = self.shared.lock().places.all();
        let partitions: BTreeSet<u32> =
            partitions_of(&list).iter().map(number).filter(|partition| all.contains_key(partition)).collect();
        let left = Arc::new(AtomicBool::new(false));
        let leaving = Leaving { list, partitions, left: Arc::clone(&left), until: Instant::now() + LEAVING };
        if leaving.partitions.is_empty() {
            return self.let_go(&leaving);
        }
        self.close_queues(&leaving.partitions);
        let using = Using { left, reader: thread::current() };
        let event = TransferEvent::Revoked { partitions: leaving.partitions.clone(), left: Left::new(using) };
        self.shared.lock().places.leave(&leaving.partitions, event);
        self.shared.changed.notify_waiters();
        self.leaving = Some(leaving);
    }

    /// Whether nobody uses the revoked partitions any more, or nobody may: then they are let go.
    fn left(&mut self) -> bool {
        if self.consumer.assignment_lost() {
            self.lose();
        }
        let done = self.leaving.take_if(|leaving| {
            leaving.left.load(Ordering::Acquire)
                || leaving.until <= Instant::now()
                || self.shared.lock().places.all().keys().all(|ours| !leaving.partitions.contains(ours))
        });
        let Some(leaving) = done else { return false };
        if !leaving.left.load(Ordering::Acquire) {
            log::warn!(
                "revoked partitions are let go although they are in use partitions={:?}",
                leaving.partitions
            );
        }
        self.let_go(&leaving);
        true
    }

    fn let_go(&self, leaving: &Leaving) {
        let _committing = self.shared.committing();
        self.shared.lock().places.end(&leaving.partitions);
        if let Err(err) = member::let_go(&self.consumer, &leaving.list) {
            log::warn!("transfer partitions were not let go err={err}");
        }
    }

    /// Everything is another's already.
    fn lose(&mut self) {
        let lost = self.shared.lock().places.lose();
        self.shared.permission.withdraw();
        self.shared.changed.notify_waiters();
        self.close_queues(&lost);
        // A commit that is under way may have been answered before.
        let _committing = self.shared.committing();
        self.shared.permission.withdraw();
    }

    fn close_queues(&mut self, partitions: &BTreeSet<u32>) {
        for partition in partitions {
            self.queues.remove(partition);
            self.out_of_range.remove(partition);
            self.watch.is_free(*partition);
        }
    }

    /// Goes on behind what is gone.
    fn mend(&mut self) {
        if self.out_of_range.is_empty() || Instant::now() < self.ask_again {
            return;
        }
        let numbers = std::mem::take(&mut self.out_of_range);
        if let Err(err) = self.mend_all(&numbers) {
            log::warn!("transfer partitions are not read on yet err={err}");
            self.ask_again = Instant::now() + Duration::from_secs(1);
            self.out_of_range = numbers;
        }
    }

    fn mend_all(&mut self, numbers: &BTreeSet<u32>) -> StoreResult<()> {
        let all = self.shared.lock().places.all();
        let ours = all.into_iter().filter(|(number, _)| numbers.contains(number));
        let mut next: BTreeMap<Partition, i64> =
            ours.map(|(number, committed)| (self.partition(number), committed)).collect();
        offsets::advance(&self.consumer, &mut next);
        let partitions: Vec<Partition> = next.keys().cloned().collect();
        let mut begins = offsets::resume(&self.consumer, &partitions, &next, REQUEST_TIMEOUT)?;
        begins.retain(|_, begin| begin.gap.is_some());
        let list = list_of(begins.iter().map(|(partition, begin)| (partition, Offset::Offset(begin.from))))?;
        member::let_go(&self.consumer, &list).map_err(store_error)?;
        for (partition, begin) in &begins {
            self.open(partition)?;
            self.gaps.say(Stream::Transfer, partition, *begin);
            self.shared.lock().places.skip_to(number(partition), begin.from);
        }
        member::take(&self.consumer, &list).map_err(store_error)
    }

    fn partition(&self, number: u32) -> Partition {
        (Arc::clone(&self.topic), i32::try_from(number).unwrap_or(i32::MAX))
    }

    /// Reads what is wanted and there. `false`: nothing.
    fn read(&mut self) -> bool {
        self.serve(Duration::ZERO);
        let wanted = self.shared.lock().places.wanted();
        let mut batches = Vec::new();
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

fn number(partition: &Partition) -> u32 {
    u32::try_from(partition.1).unwrap_or(u32::MAX)
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
