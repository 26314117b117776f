//! What the settings must fulfil beyond their types.

use std::path::Path;
use std::time::Duration;

use super::cluster::{Kafka, Mongo, Postgres, Redis};
use super::{Mode, Settings, SettingsError};
use crate::domain::config::Secret;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Settings {
    /// Ranges, and pairs of settings that exclude each other.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        name("source.prefix", &self.source.prefix)?;
        name("source.group", &self.source.group)?;
        self.api.access()?;
        require(!self.data_dir.as_os_str().is_empty(), "data_dir", "must not be empty")?;

        require((1..=1024).contains(&self.transfer.partitions), "transfer.partitions", "must be 1 to 1024")?;
        within("transfer.retention", self.transfer.retention, MINUTE, 3650 * DAY)?;

        for (queue, concurrency) in &self.workers {
            require((1..=1000).contains(concurrency), &format!("workers.{queue}"), "must be 1 to 1000")?;
        }
        require(self.stash.client_rows >= 1, "stash.client_rows", "must be at least 1")?;
        require(self.stash.client_bytes >= 1, "stash.client_bytes", "must be at least 1")?;
        require(self.heavy.client_rows >= 1, "heavy.client_rows", "must be at least 1")?;
        within("heavy.settle", self.heavy.settle, Duration::ZERO, 10 * MINUTE)?;
        require((1..=5000).contains(&self.heavy.page), "heavy.page", "must be 1 to 5000")?;
        require(self.heavy.per_second >= 1, "heavy.per_second", "must be at least 1")?;
        within("stash.ttl", self.stash.ttl, MINUTE, 3650 * DAY)?;
        require(
            self.mode == Mode::Cluster || self.roles.are_all(),
            "roles",
            "embedded mode has one process, which does everything: leave it out, or name all of them",
        )?;

        let delivery = &self.delivery;
        let positive = "must be at least 1";
        require(delivery.client_records >= 1, "delivery.client_records", positive)?;
        require(delivery.client_bytes >= 1024, "delivery.client_bytes", "must be at least 1KiB")?;
        require(
            delivery.total_bytes >= delivery.client_bytes,
            "delivery.total_bytes",
            "must not be below delivery.client_bytes",
        )?;
        require(delivery.unsettled_per_partition >= 1, "delivery.unsettled_per_partition", positive)?;
        require(delivery.threads <= 256, "delivery.threads", "must be 0 to 256")?;
        within("delivery.insurance_after", delivery.insurance_after, Duration::from_millis(10), MINUTE)?;
        within("delivery.idle_after", delivery.idle_after, Duration::from_millis(10), DAY)?;
        within("delivery.connect_timeout", delivery.connect_timeout, Duration::from_millis(10), MINUTE)?;
        require(
            (1024..=16 << 20).contains(&delivery.answer_bytes),
            "delivery.answer_bytes",
            "must be 1KiB to 16MiB",
        )?;

        let retry = &self.retry;
        within("retry.base", retry.base, Duration::from_millis(1), DAY)?;
        require(retry.cap >= retry.base, "retry.cap", "must not be below retry.base")?;
        within("retry.cap", retry.cap, Duration::from_millis(1), DAY)?;
        require((1.0..=10.0).contains(&retry.factor), "retry.factor", "must be 1 to 10")?;
        require((0.0..=0.9).contains(&retry.jitter), "retry.jitter", "must be 0 to 0.9")?;
        within("retry.ttl", retry.ttl, Duration::from_secs(1), 365 * DAY)?;
        within("canary.every", self.canary.every, Duration::from_millis(1), DAY)?;
        require(self.canary.cap >= self.canary.every, "canary.cap", "must not be below canary.every")?;
        within("canary.cap", self.canary.cap, Duration::from_millis(1), DAY)?;
        require(retry.payload_attempts >= 1, "retry.payload_attempts", positive)?;

        let operator = &self.operator;
        let is_url = operator.webhook.is_none() || operator.url().is_some();
        require(
            is_url,
            "operator.webhook",
            "must be an http or https address with a host, without user and password",
        )?;
        let alone = operator.secret.is_none() || operator.webhook.is_some();
        require(alone, "operator.secret", "needs operator.webhook (DISPATCHER_OPERATOR_WEBHOOK)")?;
        within("operator.events_retention", operator.events_retention, MINUTE, 3650 * DAY)?;
        require(self.attempts.kept <= 10_000, "attempts.kept", "must be 0 to 10000")?;
        within("attempts.retention", self.attempts.retention, MINUTE, 3650 * DAY)?;
        within("audit.retention", self.audit.retention, MINUTE, 3650 * DAY)?;

        within("stop.in_flight", self.stop.in_flight, Duration::ZERO, 10 * MINUTE)?;
        readable("tls.ca_file", self.tls.ca_file.as_deref())?;
        self.check_kafka(&self.kafka)?;
        self.redis.check()?;
        self.mongo.check()?;
        self.postgres.check()?;
        let queue = &self.queue.prefix;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:{}".contains(&byte);
        require(
            (1..=200).contains(&queue.len()) && queue.bytes().all(fits),
            "queue.prefix",
            "must be letters, digits, '.', '_', '-', ':', '{' and '}', at most 200",
        )?;
        let ours = format!("{}:dsp", self.redis.prefix);
        let meets = *queue == ours || queue.starts_with(&format!("{ours}:"));
        require(!meets, "queue.prefix", "must not begin as the service's own keys, <redis.prefix>:dsp")?;
        if self.mode == Mode::Cluster { self.check_cluster() } else { Ok(()) }
    }

    fn check_kafka(&self, kafka: &Kafka) -> Result<(), SettingsError> {
        for (index, broker) in kafka.brokers.iter().enumerate() {
            require(is_host(broker), &format!("kafka.brokers[{index}]"), HOST)?;
        }
        address("kafka", &kafka.host, kafka.port)?;
        within("kafka.session_timeout", kafka.session_timeout, Duration::from_secs(3), 5 * MINUTE)?;
        let topics = [
            ("kafka.transfer_topic", &kafka.transfer_topic),
            ("kafka.dead_topic", &kafka.dead_topic),
            ("kafka.events_topic", &kafka.events_topic),
        ];
        let source = format!("{}.", self.source.prefix);
        for (index, (key, topic)) in topics.iter().enumerate() {
            name(key, topic)?;
            if topic.starts_with(&source) {
                let problem = format!(
                    "must not begin with {source:?}: the source topics do (source.prefix), and it would be read as one"
                );
                return Err(SettingsError::new(*key, problem));
            }
            if let Some((other, _)) = topics[..index].iter().find(|(_, earlier)| earlier == topic) {
                return Err(SettingsError::new(*key, format!("must not be the topic of {other}")));
            }
        }
        Ok(())
    }

    /// What cluster mode cannot do without.
    fn check_cluster(&self) -> Result<(), SettingsError> {
        require(
            cfg!(feature = "cluster"),
            "mode",
            "this build has no cluster mode: build it with the feature `cluster`, or set DISPATCHER_MODE=embedded",
        )?;
        let needed = [
            (self.kafka.bootstrap_servers().is_some(), "kafka.brokers", "KAFKA_BROKERS or KAFKA_HOST"),
            (self.redis.url().is_some(), "redis.host", "REDIS_HOST or REDIS_URL"),
            (self.mongo.hosts().is_some(), "mongo.host", "MONGO_HOST or MONGO_URL"),
            (self.postgres.is_named(), "postgres.host", "POSTGRES_HOST or POSTGRES_URL"),
        ];
        for (is_there, key, variables) in needed {
            require(
                is_there,
                key,
                &format!("cluster mode needs it: set {variables} (DISPATCHER_MODE=embedded needs none)"),
            )?;
        }
        Ok(())
    }
}

impl Redis {
    fn check(&self) -> Result<(), SettingsError> {
        scheme("redis.url", self.url.as_ref(), &["redis://", "rediss://"])?;
        address("redis", &self.host, self.port)?;
        name("redis.prefix", &self.prefix)
    }
}

impl Mongo {
    fn check(&self) -> Result<(), SettingsError> {
        name("mongo.prefix", &self.prefix)?;
        scheme("mongo.url", self.url.as_ref(), &["mongodb://", "mongodb+srv://"])?;
        let hosts = self.host.is_empty() || self.host.split(',').all(is_host);
        require(hosts, "mongo.host", "must be host:port, several with commas")?;
        plain("mongo.db", &self.db)?;
        plain("mongo.user", &self.user)?;
        let is_query = |byte: u8| byte.is_ascii_graphic() && !b"\"'?#".contains(&byte);
        let query = "must be name=value pairs with & between them, without the ?";
        require(self.query.bytes().all(is_query), "mongo.query", query)?;
        let password = "needs mongo.user (MONGO_USER)";
        require(self.password.is_none() || !self.user.is_empty(), "mongo.password", password)
    }
}

impl Postgres {
    fn check(&self) -> Result<(), SettingsError> {
        scheme("postgres.url", self.url.as_ref(), &["postgres://", "postgresql://"])?;
        address("postgres", &self.host, self.port)?;
        plain("postgres.db", &self.db)?;
        require(!self.db.is_empty(), "postgres.db", "must not be empty")?;
        plain("postgres.user", &self.user)?;
        require(!self.user.is_empty(), "postgres.user", "must not be empty")?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        let is_prefix = self.prefix.len() <= 40 && self.prefix.bytes().all(fits);
        require(is_prefix, "postgres.prefix", "must be letters, digits, '_' and '-', at most 40")?;
        readable("postgres.ca_file", self.ca_file.as_deref())?;
        require((1..=1000).contains(&self.pool_size), "postgres.pool_size", "must be 1 to 1000")
    }
}

const HOST: &str = "must be a host, or host:port, without a scheme or a path";

/// A name or address, maybe with a port.
fn is_host(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 255
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte))
}

fn address(section: &str, host: &str, port: u16) -> Result<(), SettingsError> {
    require(host.is_empty() || is_host(host), &format!("{section}.host"), HOST)?;
    require(port != 0, &format!("{section}.port"), "must be 1 to 65535")
}

/// A name that we make other names from: of topics, databases, tables, keys.
fn name(key: &str, text: &str) -> Result<(), SettingsError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_name = (1..=200).contains(&text.len()) && text.bytes().all(fits);
    require(is_name, key, "must be letters, digits, '.', '_' and '-', at most 200")
}

fn plain(key: &str, text: &str) -> Result<(), SettingsError> {
    require(!text.chars().any(char::is_control), key, "must not hold control characters")
}

fn readable(key: &str, path: Option<&Path>) -> Result<(), SettingsError> {
    let Some(path) = path else { return Ok(()) };
    let opened = std::fs::File::open(path);
    opened.map(drop).map_err(|err| SettingsError::new(key, format!("cannot read {}: {err}", path.display())))
}

/// Says nothing of the URL itself: it may hold a password.
fn scheme(key: &str, url: Option<&Secret>, schemes: &[&str]) -> Result<(), SettingsError> {
    let fits = url.is_none_or(|url| schemes.iter().any(|scheme| url.expose().starts_with(scheme)));
    require(fits, key, &format!("must begin with {}", schemes.join(" or ")))
}

fn require(holds: bool, key: &str, problem: &str) -> Result<(), SettingsError> {
    if holds { Ok(()) } else { Err(SettingsError::new(key, problem)) }
}

fn within(key: &str, value: Duration, least: Duration, most: Duration) -> Result<(), SettingsError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let shown = humantime::format_duration;
    Err(SettingsError::new(key, format!("must be {} to {}", shown(least), shown(most))))
}
