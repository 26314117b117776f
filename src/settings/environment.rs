//! The environment variables that are settings: the platform's names and our own.

use std::collections::HashMap;
use std::path::Path;

use super::{Mode, SettingsError};
use crate::domain::config::Secret;

/// Environment variables by name, so that no test has to touch the process.
pub type Environment = HashMap<String, String>;

/// An environment variable and the key that it sets.
pub(super) struct Variable {
    pub(super) name: &'static str,
    pub(super) key: &'static str,
    /// Its value is never shown, and `<name>_FILE` may name a file that holds it.
    pub(super) secret: bool,
}

const fn plain(name: &'static str, key: &'static str) -> Variable {
    Variable { name, key, secret: false }
}

const fn secret(name: &'static str, key: &'static str) -> Variable {
    Variable { name, key, secret: true }
}

const ADMIN_TOKEN: Variable = secret("DISPATCHER_ADMIN_TOKEN", "api.admin_token");

/// Each variable stands beside its key in `config/default.toml` too.
pub(super) const VARIABLES: &[Variable] = &[
    plain("DISPATCHER_MODE", "mode"),
    plain("DISPATCHER_ROLES", "roles"),
    plain("DISPATCHER_DATA_DIR", "data_dir"),
    plain("DISPATCHER_API_HOST", "api.host"),
    plain("DISPATCHER_API_PORT", "api.port"),
    ADMIN_TOKEN,
    plain("DISPATCHER_SOURCE_PREFIX", "source.prefix"),
    plain("DISPATCHER_SIGNAL_COLLECTION", "source.signal_collections"),
    plain("DISPATCHER_CONSUMER_GROUP_ID", "source.group"),
    plain("KAFKA_BROKERS", "kafka.brokers"),
    plain("KAFKA_HOST", "kafka.host"),
    plain("KAFKA_PORT", "kafka.port"),
    plain("DISPATCHER_START", "kafka.start"),
    plain("DISPATCHER_TRANSFER_TOPIC", "kafka.transfer_topic"),
    plain("DISPATCHER_DEAD_TOPIC", "kafka.dead_topic"),
    plain("DISPATCHER_EVENTS_TOPIC", "kafka.events_topic"),
    secret("REDIS_URL", "redis.url"),
    plain("REDIS_HOST", "redis.host"),
    plain("REDIS_PORT", "redis.port"),
    secret("REDIS_PASSWORD", "redis.password"),
    plain("REDIS_PREFIX", "redis.prefix"),
    plain("MONGO_PREFIX", "mongo.prefix"),
    secret("MONGO_URL", "mongo.url"),
    plain("MONGO_HOST", "mongo.host"),
    plain("MONGO_DB", "mongo.db"),
    plain("MONGO_USER", "mongo.user"),
    secret("MONGO_PASS", "mongo.password"),
    plain("MONGO_QUERY", "mongo.query"),
    secret("POSTGRES_URL", "postgres.url"),
    plain("POSTGRES_HOST", "postgres.host"),
    plain("POSTGRES_PORT", "postgres.port"),
    plain("POSTGRES_DB", "postgres.db"),
    plain("POSTGRES_PREFIX", "postgres.prefix"),
    plain("POSTGRES_USER", "postgres.user"),
    secret("POSTGRES_PASSWORD", "postgres.password"),
    plain("POSTGRES_CA_FILE", "postgres.ca_file"),
    plain("DISPATCHER_QUEUE_PREFIX", "queue.prefix"),
    plain("DISPATCHER_WORKER_CONCURRENCY", "workers.dispatcher"),
    plain("DISPATCHER_SCHEDULE_WORKER_CONCURRENCY", "workers.dispatcher-schedule"),
    plain("DISPATCHER_HEAVY_WORKER_CONCURRENCY", "workers.dispatcher-heavy"),
    plain("CLEANER_STASH_LOGS_TTL", "stash.ttl"),
    plain("DISPATCHER_RESYNC_SETTLE", "heavy.settle"),
    plain("DISPATCHER_GUARD_BLOCKED", "guard.blocked"),
    plain("DISPATCHER_RETRY_BASE", "retry.base"),
    secret("DISPATCHER_OPERATOR_WEBHOOK", "operator.webhook"),
    secret("DISPATCHER_OPERATOR_SECRET", "operator.secret"),
    plain("DISPATCHER_RETRY_TTL", "retry.ttl"),
    plain("DISPATCHER_CANARY_INTERVAL", "canary.every"),
    plain("DISPATCHER_EGRESS_ALLOW", "egress.allow"),
    plain("DISPATCHER_TLS_CA_FILE", "tls.ca_file"),
    plain("DISPATCHER_STOP_IN_FLIGHT", "stop.in_flight"),
    plain("RUST_LOG", "log.filter"),
];

/// The variables that imply cluster mode.
pub(super) const CLUSTER_VARIABLES: &[&str] = &["KAFKA_HOST", "KAFKA_BROKERS"];

/// Settings of the platform that this version has no use for: who sets one is told.
const UNUSED_VARIABLES: &[&str] = &["OTLP_HOST", "OTLP_PORT"];

/// Those that only cluster mode has a use for. The platform's addresses are not among them: they are everywhere.
const CLUSTER_ONLY_VARIABLES: &[&str] =
    &["DISPATCHER_DEAD_TOPIC", "DISPATCHER_EVENTS_TOPIC", "DISPATCHER_START", "DISPATCHER_TRANSFER_TOPIC"];

/// Those of the variables that are set and change nothing: not yet, or not in this mode.
pub fn unused(environment: &Environment, mode: Mode) -> Vec<&'static str> {
    let cluster_only = if mode == Mode::Embedded { CLUSTER_ONLY_VARIABLES } else { &[] };
    let names = UNUSED_VARIABLES.iter().chain(cluster_only).copied();
    names.filter(|name| get(environment, name).is_some()).collect()
}

/// A variable that is set and not empty.
pub(super) fn get<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
    environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

impl Variable {
    /// Its value and the name of what gave it: the variable itself, or its `_FILE` twin.
    pub(super) fn read(&self, environment: &Environment) -> Result<Option<(String, String)>, SettingsError> {
        let direct = get(environment, self.name);
        let twin = format!("{}_FILE", self.name);
        let file = if self.secret { get(environment, &twin) } else { None };
        match (direct, file) {
            (Some(_), Some(_)) => {
                Err(SettingsError::new(self.key, format!("both {} and {twin} are set: keep one", self.name)))
            }
            (Some(value), None) => Ok(Some((value.to_owned(), self.name.to_owned()))),
            (None, Some(path)) => match read_secret(Path::new(path)) {
                Ok(value) => Ok(Some((value, twin))),
                Err(problem) => Err(SettingsError::new(self.key, problem).set_in(twin)),
            },
            (None, None) => Ok(None),
        }
    }
}

/// The secret in a file, without the line end that editors add.
pub(super) fn read_secret(path: &Path) -> Result<String, String> {
    let text =
        std::fs::read_to_string(path).map_err(|err| format!("cannot read {}: {err}", path.display()))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        return Err(format!("{} is empty", path.display()));
    }
    Ok(secret.to_owned())
}

/// The admin token of the environment, for commands that talk to a running service.
///
/// # Errors
/// When its file cannot be read, or the variable and the file are both given.
pub fn admin_token(environment: &Environment) -> Result<Option<Secret>, SettingsError> {
    Ok(ADMIN_TOKEN.read(environment)?.map(|(token, _)| Secret::new(token)))
}
