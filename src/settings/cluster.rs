//! What cluster mode needs to know: Kafka, Redis, MongoDB, PostgreSQL.
//!
//! A store is named by a URL, or by host and credentials in the platform's own variables; the URL wins.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::{Start, values};
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
    /// Where operational events are copied to.
    pub events_topic: String,
    /// How long a member of a group may be silent before its partitions go to another.
    #[serde(deserialize_with = "values::duration")]
    pub session_timeout: Duration,
    /// Settings for librdkafka by name. Any of them may be a password.
    #[serde(skip)]
    pub options: BTreeMap<String, Secret>,
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
    /// `redis://` or `rediss://`; wins over host and port.
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
    /// Where it is, as a URL without the password; `None` when it is not named.
    pub fn url(&self) -> Option<Secret> {
        if self.url.is_some() || self.host.is_empty() {
            return self.url.clone();
        }
        Some(Secret::new(format!("redis://{}/", authority(&self.host, self.port))))
    }
}

/// The platform's databases.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mongo {
    /// Databases are `<prefix>-<name>`.
    pub prefix: String,
    /// `mongodb://` or `mongodb+srv://`; wins over `host`. What it leaves out the other keys say.
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
    /// The URL or the hosts; `None` when it is not named.
    pub fn hosts(&self) -> Option<Secret> {
        let hosts = || (!self.host.is_empty()).then(|| Secret::new(&self.host));
        self.url.clone().or_else(hosts)
    }
}

/// The stash, client states and leases.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Postgres {
    /// `postgres://` or `postgresql://`; what it says wins over the other keys.
    #[serde(deserialize_with = "values::password")]
    pub url: Option<Secret>,
    /// Its host; empty: `url`.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The database.
    pub db: String,
    /// What stands before `dispatcher` in the name of the schema that holds our tables.
    pub prefix: String,
    /// Who we are.
    pub user: String,
    /// And our password.
    #[serde(deserialize_with = "values::password")]
    pub password: Option<Secret>,
    /// Whether the connection is encrypted.
    pub sslmode: SslMode,
    /// Certificate authorities besides the public ones, PEM.
    #[serde(deserialize_with = "values::optional_path")]
    pub ca_file: Option<PathBuf>,
    /// Connections of one process.
    pub pool_size: u32,
}

/// How a connection to PostgreSQL is protected, in libpq's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted when the server can; its certificate is not looked at.
    Prefer,
    /// Encrypted or not at all; its certificate is not looked at.
    Require,
    /// Encrypted, and the certificate is of a known authority and for that host.
    VerifyFull,
}

impl Postgres {
    /// Whether it says where the server is.
    pub fn is_named(&self) -> bool {
        self.url.is_some() || !self.host.is_empty()
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
