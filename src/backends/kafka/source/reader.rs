//! The thread of a source consumer.

mod group;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rdkafka::ClientConfig;
use rdkafka::admin::AdminClient;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio_util::sync::CancellationToken;

use super::{Ask, KafkaSourceConsumer, ReadTo, Shared};
use crate::backends::kafka::ends::Ends;
use crate::backends::kafka::filling::Filling;
use crate::backends::kafka::gaps::Gaps;
use crate::backends::kafka::ingest::Destinations;
use crate::backends::kafka::member::{Beginning, Member};
use crate::backends::kafka::offsets::{Partition, list_of};
use crate::backends::kafka::producer::{GroupOffsets, Transactions};
use crate::backends::kafka::watch::Watch;
use crate::domain::change_event::SourceRecord;
use crate::domain::transfer::SourcePosition;
use crate::ports::event_log::{BatchLimits, IngestWork};
use crate::ports::{StoreError, StoreResult};

/// The thread wakes by itself this often; everything that it waits for wakes it at once.
const IDLE: Duration = Duration::from_millis(100);

/// A batch that nobody takes for this long: reading is paused, and the group is answered meanwhile.
const STALLED: Duration = Duration::from_secs(1);

/// Reads the source stream for a [`KafkaSourceConsumer`].
pub(in super::super) struct Reader {
    pub(in super::super) config: ClientConfig,
    /// Patterns of the topics to read.
    pub(in super::super) subscription: String,
    pub(in super::super) member: Member,
    pub(in super::super) limits: BatchLimits,
    pub(in super::super) destinations: Destinations,
    pub(in super::super) admin: Arc<AdminClient<Watch>>,
    pub(in super::super) transactions: Transactions,
    pub(in super::super) ends: Arc<Ends>,
    pub(in super::super) gaps: Gaps,
    pub(in super::super) stop: CancellationToken,
    /// Its drop says that the group was left.
    pub(in super::super) left: Box<dyn Send>,
}

impl Reader {
    /// Joins the group, on a thread of its own.
    pub(in super::super) fn start(self) -> StoreResult<KafkaSourceConsumer> {
        let (asks, asked) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let closing = Closing(Arc::clone(&shared));
        let destinations = self.destinations.clone();
        let (admin, ends) = (Arc::clone(&self.admin), Arc::clone(&self.ends));
        let mut consumer: BaseConsumer<Member> = self.config.create_with_context(self.member.clone())?;
        consumer.subscribe(&[&self.subscription])?;
        let thread = thread::Builder::new()
            .name("kafka-source".to_owned())
            .spawn(move || {
                let _closing = closing;
                let thread = thread::current();
                consumer.set_nonempty_callback(move || thread.unpark());
                let shared = Arc::clone(&_closing.0);
                self.running(consumer, asked, shared).run();
            })
            .map_err(|err| StoreError::Unavailable(format!("no thread: {err}")))?;
        let thread = thread.thread().clone();
        let read_to = Mutex::default();
        Ok(KafkaSourceConsumer { shared, asks, thread, destinations, admin, ends, read_to })
    }

    fn running(
        self,
        consumer: BaseConsumer<Member>,
        asked: mpsc::Receiver<Ask>,
        shared: Arc<Shared>,
    ) -> Running {
        Running {
            consumer,
            member: self.member,
            filling: Filling::new(self.limits),
            destinations: self.destinations,
            transactions: self.transactions,
            gaps: self.gaps,
            stop: self.stop,
            asked,
            shared,
            astray: false,
            full_since: None,
            paused: None,
            assigning: None,
            beginning: Beginning::default(),
            is_over: false,
            given_up: BTreeSet::new(),
            ask_again: Instant::now(),
            topic: "".into(),
            _left: self.left,
        }
    }
}

/// Tells who waits that the thread has ended, however it did.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_waiters();
    }
}

/// The thread's own.
struct Running {
    consumer: BaseConsumer<Member>,
    member: Member,
    filling: Filling<SourceRecord>,
    destinations: Destinations,
    transactions: Transactions,
    gaps: Gaps,
    stop: CancellationToken,
    asked: mpsc::Receiver<Ask>,
    shared: Arc<Shared>,
    /// A commit failed: where reading goes on is known after a rewind. Until then nothing that is read counts.
    astray: bool,
    full_since: Option<Instant>,
    /// What was paused because nobody takes the batch.
    paused: Option<TopicPartitionList>,
    /// What the group gave, while it is not known where to begin.
    assigning: Option<TopicPartitionList>,
    beginning: Beginning,
    /// Another consumer is to go on.
    is_over: bool,
    /// Partitions that librdkafka may have given up where they are.
    given_up: BTreeSet<Partition>,
    /// Not before this time the brokers are asked again for what they did not answer.
    ask_again: Instant,
    /// Of the last record.
    topic: Arc<str>,
    /// Dropped behind the consumer.
    _left: Box<dyn Send>,
}

impl Running {
    fn run(mut self) {
        while !self.stop.is_cancelled() && !self.is_over && self.answer() {
            self.rebalance();
            self.mend();
            if !self.read() {
                thread::park_timeout(IDLE);
            }
        }
        self.member.close(&self.consumer);
    }

    /// Does what the consumer asks. `false`: it is gone.
    fn answer(&mut self) -> bool {
        loop {
            match self.asked.try_recv() {
                Ok(Ask::Commit(work, answer)) => drop(answer.send(self.commit(&work))),
                Ok(Ask::Rewind(answer)) => drop(answer.send(self.rewind())),
                Ok(Ask::Place(answer)) => drop(answer.send(Ok(self.place()))),
                Err(mpsc::TryRecvError::Empty) => return true,
                Err(mpsc::TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn commit(&mut self, work: &IngestWork) -> StoreResult<()> {
        self.shared.lock().places.check(&work.offsets)?;
        let records = self.destinations.records(work)?;
        self.transactions.fit(self.destinations.batch_bytes());
        let offsets = self.offsets(work)?;
        let written = self.transactions.write(records, offsets.as_ref());
        match written {
            Ok(_) => self.shared.lock().places.committed(&work.offsets),
            Err(_) => self.astray = true,
        }
        written.map(drop)
    }

    /// The offsets of a transaction. Without its membership they would not be written, and yet be taken for written.
    fn offsets(&self, work: &IngestWork) -> StoreResult<Option<GroupOffsets>> {
        if work.offsets.is_empty() {
            return Ok(None);
        }
        let next = list_of(work.offsets.iter().map(|(partition, next)| (partition, Offset::Offset(*next))))?;
        let member = self.consumer.group_metadata();
        let member = member.ok_or_else(|| StoreError::Fenced("it is no member of its group".to_owned()))?;
        Ok(Some(GroupOffsets { next, member }))
    }

    /// Reads what is there, and hands it out. `false`: there was nothing to do.
    fn read(&mut self) -> bool {
        let handed_out = self.hand_out();
        if self.filling.is_full() {
            self.stalled();
            return handed_out;
        }
        self.flows();
        // Where nothing is expected librdkafka gets a moment: an event that is no record would hide the records behind it.
        let mut wait = if self.filling.is_empty() { Duration::from_millis(1) } else { Duration::ZERO };
        let mut found = false;
        while !self.filling.is_full() {
            match self.consumer.poll(wait) {
                None => break,
                Some(Ok(message)) => {
                    wait = Duration::ZERO;
                    found = true;
                    if !self.astray {
                        let record = record(&message, &mut self.topic);
                        self.filling.push(weight(&record), record);
                    }
                }
                // It does not say which.
                Some(Err(KafkaError::MessageConsumption(Code::AutoOffsetReset))) => {
                    self.given_up = self.shared.lock().places.all().into_keys().collect();
                }
                // Librdkafka goes on by itself; the watch has it.
                Some(Err(err)) => log::debug!("source stream err={err}"),
            }
        }
        self.hand_out() || found || handed_out
    }

    fn hand_out(&mut self) -> bool {
        let mut state = self.shared.lock();
        if self.filling.is_empty() || state.places.is_full() {
            return false;
        }
        state.places.publish(self.filling.take());
        self.shared.changed.notify_waiters();
        true
    }

    /// Nobody takes the batch. Reading pauses when that lasts, for the group must be answered: an event of the group stands in the
    /// same queue as the records.
    fn stalled(&mut self) {
        let since = *self.full_since.get_or_insert_with(Instant::now);
        if since.elapsed() < STALLED {
            return;
        }
        if self.paused.is_none() {
            self.paused = self.consumer.assignment().ok().filter(|list| self.consumer.pause(list).is_ok());
        }
        if let Some(Ok(message)) = self.consumer.poll(Duration::ZERO) {
            let record = record(&message, &mut self.topic);
            self.filling.push(weight(&record), record);
            // Of a partition that was not ours when the others were paused.
            self.paused = None;
        }
    }

    fn flows(&mut self) {
        self.full_since = None;
        if let Some(list) = self.paused.take()
            && let Err(err) = self.consumer.resume(&list)
        {
            // Some of them are another's by now.
            log::debug!("source stream err={err}");
        }
    }

    fn place(&self) -> ReadTo {
        let positions = self.positions();
        ReadTo { positions, pending: self.shared.lock().places.pending(self.filling.iter()) }
    }
}

/// `last` is the topic of the record before: mostly the same.
fn record(message: &BorrowedMessage<'_>, last: &mut Arc<str>) -> SourceRecord {
    if **last != *message.topic() {
        *last = message.topic().into();
    }
    let copied = |bytes: Option<&[u8]>| bytes.map(Bytes::copy_from_slice);
    let headers = message.headers().into_iter().flat_map(Headers::iter);
    SourceRecord {
        position: SourcePosition {
            topic: Arc::clone(last),
            partition: message.partition(),
            offset: message.offset(),
        },
        timestamp_ms: message.timestamp().to_millis().unwrap_or(0),
        key: copied(message.key()),
        value: copied(message.payload()),
        headers: headers
            .map(|header| (header.key.to_owned(), copied(header.value).unwrap_or_default()))
            .collect(),
    }
}

/// The bytes that a record counts for.
fn weight(record: &SourceRecord) -> usize {
    const RECORD: usize = 256;
    let length = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
    let headers: usize = record.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    RECORD + length(&record.key) + length(&record.value) + headers
}

#[cfg(test)]
mod tests;
