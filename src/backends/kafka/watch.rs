//! What the clients of librdkafka say by themselves: the last error of the brokers is kept for `/status`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;

/// What is wrong and not over.
#[derive(Clone, Default)]
pub(super) struct Watch(Arc<Mutex<Trouble>>);

#[derive(Default)]
struct Trouble {
    /// The last error of the brokers.
    brokers: Option<String>,
    /// Partitions of the transfer log that cannot be read on.
    stuck: BTreeMap<u32, String>,
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, Trouble> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the brokers said last, until [`Watch::well`].
    pub(super) fn brokers(&self) -> Option<String> {
        self.lock().brokers.clone()
    }

    /// Why a partition cannot be read on.
    pub(super) fn stuck(&self) -> Option<String> {
        self.lock().stuck.values().next().cloned()
    }

    pub(super) fn well(&self) {
        self.lock().brokers = None;
    }

    pub(super) fn is_stuck(&self, partition: u32, reason: String) {
        log::error!("{reason}");
        self.lock().stuck.insert(partition, reason);
    }

    pub(super) fn is_free(&self, partition: u32) {
        self.lock().stuck.remove(&partition);
    }
}

impl ClientContext for Watch {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                log::error!("librdkafka: {facility} {line}");
            }
            // What matters of the rest comes as an error to whoever asked.
            _ => log::debug!("librdkafka: {facility} {line}"),
        }
    }

    fn error(&self, err: KafkaError, reason: &str) {
        // Once: librdkafka repeats itself with every attempt to connect.
        if self.lock().brokers.replace(reason.to_owned()).is_none() {
            log::warn!("kafka: {reason} err={err}");
        }
    }
}
