//! Writes transactions: records, and the offsets of a group with them.

#[cfg(test)]
mod bench;
mod flight;
mod pace;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rdkafka::ClientConfig;
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::message::OwnedHeaders;
use rdkafka::producer::{BaseRecord, Producer as _, PurgeConfig, ThreadedProducer};
use rdkafka::topic_partition_list::TopicPartitionList;

use self::flight::{Flight, Reports, Ticket};
use self::pace::{Pace, Seen};
use super::errors::{OpenError, open_error, refused_transactions, store_error, unwritten_error};
use super::options::{REQUEST_TIMEOUT, millis};
use super::watch::Watch;
use crate::ports::event_log::lease_is_over;
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

impl Outgoing {
    fn bytes(&self) -> usize {
        self.key.as_ref().map_or(0, Bytes::len) + self.value.as_ref().map_or(0, Bytes::len)
    }
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
    /// `batch.size` as it was configured.
    batch_bytes: usize,
    pace: Pace,
    watch: Watch,
    producer: Option<Timed>,
    /// The last transaction may be open still.
    unfinished: bool,
}

/// A producer with the time that the brokers give its transactions.
struct Timed {
    producer: ThreadedProducer<Reports>,
    time: Duration,
}

impl Transactions {
    /// `timeout` is for small transactions: large ones have longer.
    pub(super) fn new(config: ClientConfig, timeout: Duration, watch: Watch) -> Self {
        let batch_bytes = config.get(BATCH_SIZE).and_then(|bytes| bytes.parse().ok()).unwrap_or(usize::MAX);
        Self { config, batch_bytes, pace: Pace::new(timeout), watch, producer: None, unfinished: false }
    }

    /// Begins, so that what the brokers do not allow is known before anything depends on it.
    pub(super) fn begin(&mut self) -> Result<(), OpenError> {
        self.producer = Some(self.connect(self.pace.base()).map_err(|err| {
            let advice = refused_transactions(&err);
            advice.map_or_else(
                || open_error(err.clone()),
                |advice| OpenError::Refused(format!("{err}: {advice}")),
            )
        })?);
        Ok(())
    }

    /// The topics take no larger batches than this from now on.
    pub(super) fn fit(&mut self, batch_bytes: usize) {
        let bytes = batch_bytes.min(self.batch_bytes).to_string();
        if self.config.get(BATCH_SIZE) != Some(bytes.as_str()) {
            self.config.set(BATCH_SIZE, bytes);
            self.producer = None;
        }
    }

    /// Writes everything or nothing. After an error whose outcome is not known the group's committed offsets tell it: a producer
    /// that begins anew ends the old transaction first. `Refused`: it will never be written, whatever the brokers' health; what is too much
    /// for one transaction may go in parts.
    pub(super) fn write(
        &mut self,
        records: Vec<Outgoing>,
        offsets: Option<&GroupOffsets>,
    ) -> StoreResult<Vec<Place>> {
        self.write_while(records, offsets, &|| true)
    }

    /// The same, but nothing when `held` does not hold right before the commit: `Fenced` then.
    pub(super) fn write_while(
        &mut self,
        records: Vec<Outgoing>,
        offsets: Option<&GroupOffsets>,
        held: &dyn Fn() -> bool,
    ) -> StoreResult<Vec<Place>> {
        let bytes = records.iter().map(Outgoing::bytes).sum();
        let Timed { producer, time } = self.timed(self.pace.time_for(bytes))?;
        let deadline = Instant::now() + time;
        let flight = Arc::new(Flight::of(records.len()));
        let failure = match transact(&producer, &flight, records, offsets, held, deadline) {
            Ok(places) => {
                self.watch.well();
                self.pace.worked();
                self.producer = Some(Timed { producer, time });
                return Ok(places);
            }
            Err(failure) => failure,
        };
        let seen = flight.seen(deadline);
        let is_known = failure.may_abort;
        if is_known && abort(&producer) {
            self.producer = Some(Timed { producer, time });
        } else {
            log::warn!("producer begins anew err={}", failure.err);
            drop(producer);
            self.unfinished = true;
            // If not now, then before anybody asks what came of it.
            let _ = self.end_last();
        }
        Err(self.judged(failure.err, is_known, bytes, time, seen))
    }

    /// What is too large for the longest time is refused: it would be tried for ever. Not when it may have been written after all.
    fn judged(
        &mut self,
        err: StoreError,
        is_known: bool,
        bytes: usize,
        time: Duration,
        seen: Seen,
    ) -> StoreError {
        if !err.is_transient() || !self.pace.failed(time, seen) || !is_known {
            return err;
        }
        let time = humantime::format_duration(time);
        StoreError::Refused(format!("{} records of {bytes} bytes are too much for {time}", seen.records))
    }

    /// Ends a transaction that was left open: until then the brokers do not say what the group has committed.
    pub(super) fn end_last(&mut self) -> StoreResult<()> {
        if self.unfinished {
            self.producer = Some(self.connect(self.pace.base())?);
        }
        Ok(())
    }

    /// A producer whose transactions have this time, or what the brokers allow.
    fn timed(&mut self, time: Duration) -> StoreResult<Timed> {
        match self.producer.take() {
            Some(timed) if timed.time == time => Ok(timed),
            other => {
                drop(other);
                Ok(self.connect(time)?)
            }
        }
    }

    fn connect(&mut self, mut time: Duration) -> KafkaResult<Timed> {
        loop {
            let mut config = self.config.clone();
            config.set("transaction.timeout.ms", millis(time));
            let producer: ThreadedProducer<Reports> =
                config.create_with_context(Reports(self.watch.clone()))?;
            match producer.init_transactions(REQUEST_TIMEOUT) {
                Ok(()) => {
                    self.unfinished = false;
                    return Ok(Timed { producer, time });
                }
                Err(err)
                    if err.rdkafka_error_code() == Some(Code::InvalidTransactionTimeout)
                        && self.pace.is_refused(time) =>
                {
                    log::warn!(
                        "brokers allow no transaction of {}: see their transaction.max.timeout.ms",
                        humantime::format_duration(time)
                    );
                    time = self.pace.time_for(usize::MAX);
                }
                Err(err) => return Err(err),
            }
        }
    }
}

const BATCH_SIZE: &str = "batch.size";

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
        Self { err: unwritten_error(err), may_abort }
    }
}

fn transact(
    producer: &ThreadedProducer<Reports>,
    flight: &Arc<Flight>,
    records: Vec<Outgoing>,
    offsets: Option<&GroupOffsets>,
    held: &dyn Fn() -> bool,
    deadline: Instant,
) -> Result<Vec<Place>, Failure> {
    producer.begin_transaction().map_err(Failure::of)?;
    for (index, record) in records.into_iter().enumerate() {
        send(producer, flight, index, record, deadline)
            .map_err(|err| Failure::abortable(flight.reason().unwrap_or(err)))?;
    }
    if let Some(GroupOffsets { next, member }) = offsets {
        until(deadline, |left| producer.send_offsets_to_transaction(next, member, left))
            .map_err(Failure::of)?;
    }
    let places = flight.landed(deadline).map_err(Failure::abortable)?;
    settle(producer);
    if !held() {
        return Err(Failure::abortable(lease_is_over()));
    }
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
            Err((err, _)) => return Err(unwritten_error(err)),
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
