//! The records of a transaction that are on their way.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::Message;
use rdkafka::producer::{DeliveryResult, ProducerContext};

use super::Place;
use super::pace::Seen;
use crate::backends::kafka::errors::unwritten;
use crate::backends::kafka::watch::Watch;
use crate::ports::{StoreError, StoreResult};

pub(super) struct Flight {
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
    taken: usize,
    /// When the brokers took one last.
    took: Instant,
    silence: Duration,
    /// The time of one was over.
    late: bool,
}

impl Flight {
    pub(super) fn of(records: usize) -> Self {
        let state = FlightState {
            in_air: records,
            places: vec![(-1, -1); records],
            failed: None,
            wants_room: false,
            taken: 0,
            took: Instant::now(),
            silence: Duration::ZERO,
            late: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, FlightState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the transaction fails, as far as it is told.
    pub(super) fn reason(&self) -> Option<StoreError> {
        self.lock().failed.take().map(|(_, err)| err)
    }

    /// Waits until some have landed, or a moment.
    pub(super) fn progress(&self) {
        let mut state = self.lock();
        state.wants_room = true;
        drop(self.changed.wait_timeout(state, Duration::from_millis(100)));
    }

    /// Waits for all.
    pub(super) fn landed(&self, deadline: Instant) -> StoreResult<Vec<Place>> {
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

    /// What was seen of it so far.
    pub(super) fn seen(&self, deadline: Instant) -> Seen {
        let state = self.lock();
        Seen {
            records: state.places.len(),
            taken: state.taken,
            silence: state.silence.max(state.took.elapsed()),
            late: state.late || deadline <= Instant::now(),
        }
    }
}

/// Comes back with the report of a record.
pub(in super::super) struct Ticket {
    pub(super) flight: Arc<Flight>,
    pub(super) index: usize,
}

/// Takes the reports of librdkafka.
pub(in super::super) struct Reports(pub(super) Watch);

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
            Ok(message) => {
                state.places[ticket.index] = (message.partition(), message.offset());
                state.taken += 1;
                state.silence = state.silence.max(state.took.elapsed());
                state.took = Instant::now();
            }
            Err((err, message)) => {
                let code = err.rdkafka_error_code().unwrap_or(Code::Unknown);
                state.late |= code == Code::MessageTimedOut;
                let text = format!("a record of {} was not written: {code}", message.topic());
                if state.failed.as_ref().is_none_or(|(first, _)| matches!(first, Code::PurgeQueue)) {
                    state.failed = Some((code, unwritten(code, text)));
                }
            }
        }
        if state.in_air == 0 || std::mem::take(&mut state.wants_room) {
            ticket.flight.changed.notify_all();
        }
    }
}
