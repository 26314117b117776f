//! Writes transactions: records, and the offsets of a group with them.

#[cfg(test)]
mod bench;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rdkafka::ClientConfig;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{Message, OwnedHeaders};
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer as _, ProducerContext, PurgeConfig, ThreadedProducer,
};
use rdkafka::topic_partition_list::TopicPartitionList;

use super::errors::{classed, store_error};
use super::watch::Watch;
use crate::ports::{StoreError, StoreResult};

/// The brokers have this long to abort; then the producer begins anew, which aborts as well.
const ABORT_TIMEOUT: Duration = Duration::from_secs(3);

/// A record to produce.
pub(super) struct Outgoing {
    pub(super) topic: Arc<str>,
    /// `None`: by the key, as Kafka's Java client does.
    pub(super) partition: Option<i32>,
    pub(super) key: Option<Bytes>,
    pub(super) value: Option<Bytes>,
    pub(super) headers: OwnedHeaders,
}

/// Offsets that a member of a group commits in a transaction.
pub(super) struct GroupOffsets {
    pub(super) next: TopicPartitionList,
    /// The member with its generation: the brokers refuse those of a member that is out.
    pub(super) member: ConsumerGroupMetadata,
}

/// Where a record was written.
pub(super) type Place = (i32, i64);

/// A transactional producer. Its methods block.
pub(super) struct Transactions {
    config: ClientConfig,
    timeout: Duration,
    watch: Watch,
    producer: Option<ThreadedProducer<Reports>>,
    /// The last transaction may be open still.
    unfinished: bool,
}

impl Transactions {
    pub(super) fn new(config: ClientConfig, timeout: Duration, watch: Watch) -> Self {
        Self { config, timeout, watch, producer: None, unfinished: false }
    }

    /// Writes everything or nothing. After an error whose outcome is not known the group's committed offsets tell it: a producer
    /// that begins anew ends the old transaction first.
    pub(super) fn write(
        &mut self,
        records: Vec<Outgoing>,
        offsets: Option<&GroupOffsets>,
    ) -> StoreResult<Vec<Place>> {
        let producer = match self.producer.take() {
            Some(producer) => producer,
            None => self.connect()?,
        };
        let deadline = Instant::now() + self.timeout;
        let failure = match transact(&producer, records, offsets, deadline) {
            Ok(places) => {
                self.watch.well();
                self.producer = Some(producer);
                return Ok(places);
            }
            Err(failure) => failure,
        };
        if failure.may_abort && abort(&producer) {
            self.producer = Some(producer);
        } else {
            log::warn!("producer begins anew err={}", failure.err);
            drop(producer);
            self.unfinished = true;
            // If not now, then before anybody asks what came of it.
            let _ = self.end_last();
        }
        Err(failure.err)
    }

    /// Ends a transaction that was left open: until then the brokers do not say what the group has committed.
    pub(super) fn end_last(&mut self) -> StoreResult<()> {
        if self.unfinished {
            self.producer = Some(self.connect()?);
        }
        Ok(())
    }

    fn connect(&mut self) -> StoreResult<ThreadedProducer<Reports>> {
        let reports = Reports(self.watch.clone());
        let producer: ThreadedProducer<Reports> = self.config.create_with_context(reports)?;
        producer.init_transactions(self.timeout)?;
        self.unfinished = false;
        Ok(producer)
    }
}

struct Failure {
    err: StoreError,
    /// Whether the transaction is still ours to abort.
    may_abort: bool,
}

impl Failure {
    fn abortable(err: StoreError) -> Self {
        Self { err, may_abort: true }
    }

    fn of(err: KafkaError) -> Self {
        let may_abort = match &err {
            KafkaError::Transaction(err) => !err.is_fatal(),
            _ => true,
        };
        Self { err: store_error(err), may_abort }
    }
}

fn transact(
    producer: &ThreadedProducer<Reports>,
    records: Vec<Outgoing>,
    offsets: Option<&GroupOffsets>,
    deadline: Instant,
) -> Result<Vec<Place>, Failure> {
    producer.begin_transaction().map_err(Failure::of)?;
    let flight = Arc::new(Flight::of(records.len()));
    for (index, record) in records.into_iter().enumerate() {
        send(producer, &flight, index, record, deadline)
            .map_err(|err| Failure::abortable(flight.reason().unwrap_or(err)))?;
    }
    if let Some(GroupOffsets { next, member }) = offsets {
        until(deadline, |left| producer.send_offsets_to_transaction(next, member, left))
            .map_err(Failure::of)?;
    }
    let places = flight.landed(deadline).map_err(Failure::abortable)?;
    settle(producer);
    match until(deadline, |left| producer.commit_transaction(left)) {
        Ok(()) => Ok(places),
        Err(KafkaError::Transaction(err)) if err.txn_requires_abort() => {
            Err(Failure::of(KafkaError::Transaction(err)))
        }
        // It may have happened.
        Err(err) => Err(Failure { err: store_error(err), may_abort: false }),
    }
}

/// Asks again as long as the error says that it helps.
fn until(
    deadline: Instant,
    mut ask: impl FnMut(Duration) -> Result<(), KafkaError>,
) -> Result<(), KafkaError> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match ask(left.max(Duration::from_millis(1))) {
            Err(KafkaError::Transaction(err)) if err.is_retriable() && !left.is_zero() => {}
            answer => return answer,
        }
    }
}

fn send(
    producer: &ThreadedProducer<Reports>,
    flight: &Arc<Flight>,
    index: usize,
    record: Outgoing,
    deadline: Instant,
) -> StoreResult<()> {
    let mut base: BaseRecord<'_, [u8], [u8], Box<Ticket>> =
        BaseRecord::with_opaque_to(&record.topic, Box::new(Ticket { flight: Arc::clone(flight), index }))
            .headers(record.headers);
    base.partition = record.partition;
    base.key = record.key.as_deref();
    base.payload = record.value.as_deref();
    loop {
        match producer.send(base) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(Code::QueueFull), back)) if Instant::now() < deadline => {
                base = back;
                flight.progress();
            }
            Err((err, _)) => return Err(store_error(err)),
        }
    }
}

/// Waits for librdkafka to have put away the last report: asked to commit before that, it looks again only after 100 ms.
fn settle(producer: &ThreadedProducer<Reports>) {
    for _ in 0..10_000 {
        if producer.in_flight_count() == 0 {
            return;
        }
        thread::yield_now();
    }
}

fn abort(producer: &ThreadedProducer<Reports>) -> bool {
    producer.purge(PurgeConfig::default().queue());
    producer.abort_transaction(ABORT_TIMEOUT).is_ok()
}

/// The records of a transaction that are on their way.
struct Flight {
    state: Mutex<FlightState>,
    changed: Condvar,
}

struct FlightState {
    in_air: usize,
    places: Vec<Place>,
    /// Why the transaction fails: the first reason, or the first that is more than a consequence of another.
    failed: Option<(Code, StoreError)>,
    /// Somebody waits for any of them.
    wants_room: bool,
}

impl Flight {
    fn of(records: usize) -> Self {
        let state =
            FlightState { in_air: records, places: vec![(-1, -1); records], failed: None, wants_room: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, FlightState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the transaction fails, as far as it is told.
    fn reason(&self) -> Option<StoreError> {
        self.lock().failed.take().map(|(_, err)| err)
    }

    /// Waits until some have landed, or a moment.
    fn progress(&self) {
        let mut state = self.lock();
        state.wants_room = true;
        drop(self.changed.wait_timeout(state, Duration::from_millis(100)));
    }

    /// Waits for all.
    fn landed(&self, deadline: Instant) -> StoreResult<Vec<Place>> {
        let mut state = self.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.in_air == 0 || left.is_zero() {
                return match state.failed.take() {
                    Some((_, err)) => Err(err),
                    None if state.in_air == 0 => Ok(std::mem::take(&mut state.places)),
                    None => Err(StoreError::Unavailable("records were not written in time".to_owned())),
                };
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Comes back with the report of a record.
pub(super) struct Ticket {
    flight: Arc<Flight>,
    index: usize,
}

/// Takes the reports of librdkafka.
pub(super) struct Reports(Watch);

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.0.log(level, facility, line);
    }

    fn error(&self, err: KafkaError, reason: &str) {
        self.0.error(err, reason);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<Ticket>;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: Box<Ticket>) {
        let mut state = ticket.flight.lock();
        state.in_air = state.in_air.saturating_sub(1);
        match result {
            Ok(message) => state.places[ticket.index] = (message.partition(), message.offset()),
            Err((err, message)) => {
                let code = err.rdkafka_error_code().unwrap_or(Code::Unknown);
                let text = format!("a record of {} was not written: {code}", message.topic());
                if state.failed.as_ref().is_none_or(|(first, _)| matches!(first, Code::PurgeQueue)) {
                    state.failed = Some((code, classed(code, text)));
                }
            }
        }
        if state.in_air == 0 || std::mem::take(&mut state.wants_room) {
            ticket.flight.changed.notify_all();
        }
    }
}
