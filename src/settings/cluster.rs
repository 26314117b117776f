//! What cluster mode needs to know: Kafka, Redis, MongoDB, PostgreSQL.
//!
//! A store is named by a URL, or by host and credentials in the platform's own variables; the URL wins. The backends get one
//! text either way, with names and passwords escaped.

use std::time::Duration;

use serde::Deserialize;

use super::values;
use super::{KafkaOptions, Start};
use crate::domain::config::Secret;

/// The brokers, and the topics that are ours.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kafka {
    /// `host:port` of some brokers; empty: `host` and `port`.
    pub brokers: Vec<String>,
    /// The one broker to begin with; empty: `brokers`.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Where a group that was never seen before begins to read the source topics.
    #[serde(deserialize_with = "values::start")]
    pub start: Start,
    /// The transfer log.
    pub transfer_topic: String,
    /// Source records that could not be read.
    pub dead_topic: String,
    /// Change events that came in over the API and name no topic of their own.
    pub events_topic: String,
    /// How long a member of a group may be silent before its partitions go to another.
    #[serde(deserialize_with = "values::duration")]
    pub session_timeout: Duration,
    /// Settings for librdkafka.
    #[serde(skip)]
    pub options: KafkaOptions,
}

impl Kafka {
    /// The brokers as librdkafka's `bootstrap.servers`; `None` when none is named.
    pub fn bootstrap_servers(&self) -> Option<String> {
        match (self.brokers.as_slice(), self.host.as_str()) {
            ([], "") => None,
            ([], host) => Some(authority(host, self.port)),
            (brokers, _) => Some(brokers.join(",")),
        }
    }
}

/// Copies for others to see, notices, and the queues.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    /// `redis://` or `rediss://`; wins over host, port and password.
    #[serde(deserialize_with = "values::password")]
    pub url: Option<Secret>,
    /// Its host; empty: `url`.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What the server asks for.
    #[serde(deserialize_with = "values::password")]
    pub password: Option<Secret>,
    /// Our keys are `<prefix>:dsp:…`.
    pub prefix: String,
}

impl Redis {
    /// Where it is, as a URL; `None` when it is not named.
    pub fn url(&self) -> Option<Secret> {
        if self.url.is_some() || self.host.is_empty() {
            return self.url.clone();
        }
        let login = login("", self.password.as_ref());
        Some(Secret::new(format!("redis://{login}{}/", authority(&self.host, self.port))))
    }
}

/// The platform's databases.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mongo {
    /// Databases are `<prefix>-<name>`.
    pub prefix: String,
    /// `mongodb://` or `mongodb+srv://`; wins over the rest.
    #[serde(deserialize_with = "values::password")]
    pub url: Option<Secret>,
    /// `host:port`, several with commas; empty: `url`.
    pub host: String,
    /// Where the user is known, unless `query` says it.
    pub db: String,
    /// Who we are; empty: nobody.
    pub user: String,
    /// And our password.
    #[serde(deserialize_with = "values::password")]
    pub password: Option<Secret>,
    /// What follows the `?` of the connection string.
    pub query: String,
}

impl Mongo {
    /// Where it is, as a connection string; `None` when it is not named.
    pub fn url(&self) -> Option<Secret> {
        if self.url.is_some() || self.host.is_empty() {
            return self.url.clone();
        }
        let login = login(&self.user, self.password.as_ref());
        let mark = if self.query.is_empty() { "" } else { "?" };
        Some(Secret::new(format!("mongodb://{login}{}/{}{mark}{}", self.host, escaped(&self.db), self.query)))
    }
}

/// The stash, client states and leases.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Postgres {
    /// `postgres://` or `postgresql://`; wins over host, port, database, user, password and `sslmode`.
    #[serde(deserialize_with = "values::password")]
    pub url: Option<Secret>,
    /// Its host; empty: `url`.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The database.
    pub db: String,
    /// The schema in it that holds our tables.
    pub prefix: String,
    /// Who we are.
    pub user: String,
    /// And our password.
    #[serde(deserialize_with = "values::password")]
    pub password: Option<Secret>,
    /// Whether the connection is encrypted.
    pub sslmode: SslMode,
    /// Connections of one process.
    pub pool_size: u32,
}

/// Whether a connection to PostgreSQL is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SslMode {
    /// Never.
    Disable,
    /// When the server can.
    Prefer,
    /// Always; a server that cannot is a fault.
    Require,
}

impl SslMode {
    /// The word in the settings and in connection strings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Prefer => "prefer",
            Self::Require => "require",
        }
    }
}

impl Postgres {
    /// Where it is, as a URL; `None` when it is not named.
    pub fn url(&self) -> Option<Secret> {
        if self.url.is_some() || self.host.is_empty() {
            return self.url.clone();
        }
        let login = login(&self.user, self.password.as_ref());
        Some(Secret::new(format!(
            "postgres://{login}{}/{}?sslmode={}",
            authority(&self.host, self.port),
            escaped(&self.db),
            self.sslmode.as_str()
        )))
    }
}

/// The BullMQ queues in Redis.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Their keys are `<prefix>:<queue>:…`.
    pub prefix: String,
}

/// `host:port`; an IPv6 address in brackets.
fn authority(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// `user:password@`, or as much of it as there is.
fn login(user: &str, password: Option<&Secret>) -> String {
    match password {
        Some(password) => format!("{}:{}@", escaped(user), escaped(password.expose())),
        None if user.is_empty() => String::new(),
        None => format!("{}@", escaped(user)),
    }
}

/// Percent-encoded, but for letters, digits and `-._~`: safe in every part of a URL.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}
