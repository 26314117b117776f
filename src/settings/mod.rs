//! All settings, typed. `config/default.toml` lists every key; [`Settings::load`] reads the layers above it.

mod check;
mod cluster;
mod environment;
mod error;
mod kafka_options;
mod load;
mod roles;
#[cfg(feature = "cluster")]
mod stores;
mod tokens;
mod values;

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use url::Url;

pub use cluster::{Kafka, Mongo, Postgres, Queue, Redis, SslMode};
pub use environment::{Environment, admin_token, unused};
pub use error::SettingsError;
pub use load::Sources;
pub use roles::{Role, Roles};

use crate::backends::http::EgressRule;
use crate::domain::access::AccessToken;
use crate::domain::config::{Secret, SigningKey};
use crate::domain::guard::WhenBlocked;

/// The settings of one process.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Which stores are used.
    pub mode: Mode,
    /// What this process does.
    pub roles: Roles,
    /// Where embedded mode keeps its file.
    pub data_dir: PathBuf,
    /// The HTTP API.
    pub api: Api,
    /// The source stream.
    pub source: Source,
    /// Kafka.
    pub kafka: Kafka,
    /// Redis.
    pub redis: Redis,
    /// The platform's databases.
    pub mongo: Mongo,
    /// PostgreSQL.
    pub postgres: Postgres,
    /// The queues.
    pub queue: Queue,
    /// How many jobs of each queue run at once in this process, by the queue's name.
    pub workers: BTreeMap<String, u32>,
    /// What could not be delivered.
    pub stash: Stash,
    /// Resyncs and replays.
    pub heavy: Heavy,
    /// Who gets what.
    pub routing: Routing,
    /// Blocked owners.
    pub guard: Guard,
    /// The transfer log.
    pub transfer: TransferLog,
    /// Delivery to webhooks.
    pub delivery: Delivery,
    /// When a failed delivery is tried again.
    pub retry: Retry,
    /// Who is told what happens.
    pub operator: Operator,
    /// What is remembered of attempts to deliver.
    pub attempts: Attempts,
    /// What is remembered of operators' actions.
    pub audit: Audit,
    /// When a webhook that fails is tried again.
    pub canary: Canary,
    /// Where webhooks may point to.
    pub egress: Egress,
    /// TLS to webhooks.
    pub tls: Tls,
    /// Stopping.
    pub stop: Stop,
    /// Logging.
    pub log: Log,
}

/// Which stores are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Two SQLite files.
    Embedded,
    /// Kafka, MongoDB, PostgreSQL, Redis.
    Cluster,
}

impl Mode {
    /// The word in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Cluster => "cluster",
        }
    }
}

/// The HTTP API.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Api {
    /// The address it listens on.
    pub host: IpAddr,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// What admin requests must carry; without one only this machine is answered.
    #[serde(deserialize_with = "values::optional_secret")]
    pub admin_token: Option<Secret>,
    /// Others who may use it, each by a token of his own.
    #[serde(skip)]
    pub tokens: Vec<AccessToken>,
}

impl Api {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }
}

/// The source stream.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Topics are `<prefix>.<db>.<collection>`.
    pub prefix: String,
    /// `<collection>` or `<db>.<collection>` of Debezium's signals.
    pub signal_collections: Vec<String>,
    /// The name under which the place in the stream is kept.
    pub group: String,
}

impl Source {
    /// The name under which the place in the transfer log is kept.
    pub fn transfer_group(&self) -> String {
        format!("{}-transfer", self.group)
    }
}

/// Where a group that was never seen before begins to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// What is there is passed over; topics that are created later are read from their beginning.
    Now,
    /// Everything that the log still has.
    Earliest,
    /// From this time on, milliseconds since 1970.
    At(i64),
}

/// Who gets what.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routing {
    /// Whether a client that is taken off a document gets a delete.
    pub revoke: bool,
}

/// Blocked owners.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    /// What becomes of changes for their clients.
    pub blocked: WhenBlocked,
}

/// The transfer log.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferLog {
    /// Partitions, when it is created.
    pub partitions: u32,
    /// How long settled records are kept.
    #[serde(deserialize_with = "values::duration")]
    pub retention: Duration,
}

/// Delivery to webhooks.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delivery {
    /// Records of one client in memory.
    pub client_records: usize,
    /// Bytes of one client in memory.
    #[serde(deserialize_with = "values::size")]
    pub client_bytes: usize,
    /// Bytes of all clients in memory.
    #[serde(deserialize_with = "values::size")]
    pub total_bytes: usize,
    /// Unsettled transfers of one partition.
    pub unsettled_per_partition: usize,
    /// When a request in flight gets a row.
    #[serde(deserialize_with = "values::duration")]
    pub insurance_after: Duration,
    /// When a client without work is retired.
    #[serde(deserialize_with = "values::duration")]
    pub idle_after: Duration,
    /// Threads; 0: one a core.
    pub threads: usize,
    /// To connect, with the TLS handshake.
    #[serde(deserialize_with = "values::duration")]
    pub connect_timeout: Duration,
    /// How much of an answer is read.
    #[serde(deserialize_with = "values::size")]
    pub answer_bytes: usize,
}

/// When a webhook that fails is tried again.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Canary {
    /// The distance while the outage is young.
    #[serde(deserialize_with = "values::duration")]
    pub every: Duration,
    /// The longest distance.
    #[serde(deserialize_with = "values::duration")]
    pub cap: Duration,
}

/// When a failed delivery is tried again.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// After the first failure.
    #[serde(deserialize_with = "values::duration")]
    pub base: Duration,
    /// What each wait is multiplied with.
    pub factor: f64,
    /// The longest wait.
    #[serde(deserialize_with = "values::duration")]
    pub cap: Duration,
    /// The part of itself by which a wait is moved at most, either way.
    pub jitter: f64,
    /// Failures of the payload class before a payload is dead.
    pub payload_attempts: u32,
    /// How long a webhook may be without a success before it is switched off.
    #[serde(deserialize_with = "values::duration")]
    pub ttl: Duration,
}

/// What could not be delivered.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stash {
    /// How long payloads that were given up are kept.
    #[serde(deserialize_with = "values::duration")]
    pub ttl: Duration,
    /// How many payloads may wait for one client.
    pub client_rows: u64,
    /// Their bytes.
    #[serde(deserialize_with = "values::size")]
    pub client_bytes: usize,
}

/// Resyncs and replays.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heavy {
    /// While so many payloads wait for a client, its jobs add none.
    pub client_rows: u64,
    /// How far Debezium may be behind without a resync that takes a copy back for a moment.
    #[serde(deserialize_with = "values::duration")]
    pub settle: Duration,
    /// Documents of one page of a resync.
    pub page: usize,
    /// Documents of a resync in a second, at most.
    pub per_second: u32,
}

/// Who is told what happens.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    /// Where operational events are POSTed to. Receivers put tokens into addresses.
    #[serde(deserialize_with = "values::password")]
    pub webhook: Option<Secret>,
    /// Signs them.
    #[serde(deserialize_with = "values::signing_key")]
    pub secret: Option<SigningKey>,
    /// How long operational events are kept.
    #[serde(deserialize_with = "values::duration")]
    pub events_retention: Duration,
}

impl Operator {
    /// The address: http or https, with a host, without a user. `None`: none is given, or it is no such address.
    pub fn url(&self) -> Option<Url> {
        let url = Url::parse(self.webhook.as_ref()?.expose()).ok()?;
        let is_plain = url.username().is_empty() && url.password().is_none();
        (matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain).then_some(url)
    }
}

/// What is remembered of attempts to deliver.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempts {
    /// The newest of each client.
    pub kept: u32,
    /// How long.
    #[serde(deserialize_with = "values::duration")]
    pub retention: Duration,
}

/// What is remembered of operators' actions.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// How long.
    #[serde(deserialize_with = "values::duration")]
    pub retention: Duration,
}

/// Where webhooks may point to.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    /// What is allowed although it is private.
    #[serde(deserialize_with = "values::egress_rule")]
    pub allow: EgressRule,
}

/// TLS to webhooks.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Certificate authorities besides the public ones, PEM.
    #[serde(deserialize_with = "values::optional_path")]
    pub ca_file: Option<PathBuf>,
}

/// Stopping.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// How long requests on the wire may take to end.
    #[serde(deserialize_with = "values::duration")]
    pub in_flight: Duration,
}

/// Logging.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// In the syntax of `RUST_LOG`.
    pub filter: String,
}
