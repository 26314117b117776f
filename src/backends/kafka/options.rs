//! How the log is opened, and what librdkafka is told.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::ClientConfig;

use super::sources::SourceTopics;
use crate::domain::config::Secret;

/// The largest record of our own topics: 32 MiB. A record of `POST /v1/events` has 16 MiB at most, and some more as base64.
pub(super) const MAX_RECORD_BYTES: usize = 32 * 1024 * 1024;

/// How long a request to the brokers may take before it counts as failed.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// After this time the brokers abort a small transaction whose producer died; large ones have longer. Until then nobody reads beyond it:
/// it is as long as it takes the group to notice. `transaction.timeout.ms` in the options replaces it.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// A batch of records, before it is compressed.
const BATCH_BYTES: usize = 1_000_000;

/// Above the longest that a revoked partition is waited for, and the transaction that may run while a source partition goes.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(300);

/// Settings of librdkafka that the guarantees rest on.
const OWNED: [&str; 28] = [
    "acks",
    "allow.auto.create.topics",
    "auto.commit.enable",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "enable.partition.eof",
    "enabled_events",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "isolation.level",
    "log.queue",
    "max.poll.interval.ms",
    "message.max.bytes",
    "metadata.broker.list",
    "partition.assignment.strategy",
    "partitioner",
    "request.required.acks",
    "session.timeout.ms",
    "statistics.interval.ms",
    "topic.metadata.refresh.interval.ms",
    "transactional.id",
];

/// Whether the service sets this setting of librdkafka itself: it cannot be passed on.
pub fn owned_option(name: &str) -> bool {
    OWNED.binary_search(&name).is_ok()
}

/// Where a group begins that was never seen before, in the topics that exist then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With what comes from now on.
    Now,
    /// With the oldest record.
    Earliest,
    /// With the first record of this time or later, milliseconds since 1970.
    At(i64),
}

/// How [`KafkaEventLog`](super::KafkaEventLog) is opened.
#[derive(Debug, Clone)]
pub struct KafkaOptions {
    /// Some of the brokers, `host:port` with commas.
    pub brokers: String,
    /// Settings that librdkafka gets as they are; those that are [`owned_option`]s are refused.
    pub options: BTreeMap<String, Secret>,
    /// Source topics are `<prefix>.<db>.<collection>`.
    pub source_prefix: String,
    /// The transfer log.
    pub transfer_topic: String,
    /// Where dead letters are kept.
    pub dead_topic: String,
    /// Where operational events are copied to.
    pub events_topic: String,
    /// For groups that were never seen before.
    pub start: Start,
    /// Partitions of the transfer topic, when it is created.
    pub partitions: u32,
    /// How long the transfer topic keeps records, when it is created.
    pub retention: Duration,
    /// How long a member of a group may be silent before its partitions go to another.
    pub session_timeout: Duration,
}

impl KafkaOptions {
    /// Which topics are read.
    pub(super) fn sources(&self) -> SourceTopics {
        SourceTopics::new(&self.source_prefix)
    }

    /// A client that reads, and is no member of a group.
    pub(super) fn reader(&self) -> ClientConfig {
        self.config(&[], &READING)
    }

    /// A member of a group. At most `prefetch` bytes wait in each of its queues.
    pub(super) fn member(&self, group: &str, prefetch: usize) -> ClientConfig {
        let kilobytes = (prefetch / 1024).max(1).to_string();
        let defaults = [
            ("queued.max.messages.kbytes", kilobytes.as_str()),
            ("fetch.max.bytes", "8388608"),
            // With small queues the default second of waiting would be most of the time.
            ("fetch.queue.backoff.ms", "10"),
        ];
        let mut config = self.config(&defaults, &READING);
        config.set("group.id", group);
        config.set("partition.assignment.strategy", "cooperative-sticky");
        config.set("session.timeout.ms", millis(self.session_timeout));
        config.set("max.poll.interval.ms", millis(MAX_POLL_INTERVAL.max(self.session_timeout)));
        config
    }

    /// A producer of transactions, to topics that take batches of this size. Its id is its own: what fences a member of a group is
    /// the group's generation.
    pub(super) fn producer(&self, purpose: &str, batch_bytes: usize) -> ClientConfig {
        let batch_bytes = batch_bytes.min(BATCH_BYTES).to_string();
        let defaults = [
            ("compression.type", "zstd"),
            // A transaction waits for its records: they are to go at once.
            ("linger.ms", "0"),
            // Right after a transaction the brokers refuse the next one for some milliseconds: the default would make them 100.
            ("retry.backoff.ms", "5"),
            ("batch.size", batch_bytes.as_str()),
            ("queue.buffering.max.kbytes", "131072"),
        ];
        let owned = [("enable.idempotence", "true"), ("acks", "all"), ("partitioner", "murmur2_random")];
        let mut config = self.config(&defaults, &owned);
        config.set("transactional.id", format!("dispatcher-{purpose}-{:032x}", fastrand::u128(..)));
        config.set("message.max.bytes", (MAX_RECORD_BYTES + RECORD_ROOM).to_string());
        config
    }

    /// How long a small transaction may take as a whole.
    pub(super) fn transaction_timeout(&self) -> Duration {
        let given = self.options.get("transaction.timeout.ms").and_then(|value| value.expose().parse().ok());
        given.map_or(TRANSACTION_TIMEOUT, Duration::from_millis)
    }

    fn config(&self, defaults: &[(&str, &str)], owned: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("client.id", "dispatcher");
        config.set("reconnect.backoff.max.ms", "2000");
        // A connection that cannot be opened is no reason to wait longer than for an answer.
        config.set("socket.connection.setup.timeout.ms", millis(REQUEST_TIMEOUT));
        for (name, value) in defaults {
            config.set(*name, *value);
        }
        for (name, value) in &self.options {
            config.set(name, value.expose());
        }
        config.set("bootstrap.servers", &self.brokers);
        // New topics are found within this time.
        config.set("topic.metadata.refresh.interval.ms", "5000");
        for (name, value) in owned {
            config.set(*name, *value);
        }
        config
    }
}

/// Where a partition begins is decided by us, and said when records are missing: librdkafka would go on in silence.
const READING: [(&str, &str); 5] = [
    ("allow.auto.create.topics", "false"),
    ("isolation.level", "read_committed"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("auto.offset.reset", "error"),
];

/// What a record's frame may take beside key, value and headers.
const RECORD_ROOM: usize = 64 * 1024;

pub(super) fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_guarantees_rest_on_is_owned() {
        assert!(OWNED.is_sorted());
        for name in ["group.id", "enable.auto.commit", "isolation.level", "transactional.id", "acks"] {
            assert!(owned_option(name), "{name}");
        }
        for name in ["security.protocol", "sasl.password", "ssl.ca.location", "linger.ms"] {
            assert!(!owned_option(name), "{name}");
        }
    }
}
