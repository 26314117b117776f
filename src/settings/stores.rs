//! What the backends of cluster mode are told.

use super::{Settings, SettingsError, SslMode, Start};
use crate::backends::kafka::{self, KafkaOptions};
use crate::backends::mongo::MongoOptions;
use crate::backends::postgres::{PostgresOptions, TlsMode};
use crate::backends::redis::RedisOptions;
use crate::domain::config::Secret;

/// In embedded mode an address that is not named is an empty text.
impl Settings {
    /// How the event log is opened.
    pub fn kafka_options(&self) -> KafkaOptions {
        KafkaOptions {
            brokers: self.kafka.bootstrap_servers().unwrap_or_default(),
            options: self.kafka.options.clone(),
            source_prefix: self.source.prefix.clone(),
            transfer_topic: self.kafka.transfer_topic.clone(),
            dead_topic: self.kafka.dead_topic.clone(),
            events_topic: self.kafka.events_topic.clone(),
            start: match self.kafka.start {
                Start::Now => kafka::Start::Now,
                Start::Earliest => kafka::Start::Earliest,
                Start::At(ms) => kafka::Start::At(ms),
            },
            partitions: self.transfer.partitions,
            retention: self.transfer.retention,
            session_timeout: self.kafka.session_timeout,
        }
    }

    /// How Redis is reached.
    pub fn redis_options(&self) -> RedisOptions {
        RedisOptions {
            url: self.redis.url().unwrap_or_else(|| Secret::new("")),
            password: self.redis.password.clone(),
            prefix: self.redis.prefix.clone(),
        }
    }

    /// Redis for the queues: a URL with everything in it.
    ///
    /// # Errors
    /// It cannot take the password.
    pub fn queue_url(&self) -> Result<Secret, SettingsError> {
        let url = self.redis.url().unwrap_or_else(|| Secret::new(""));
        let Some(password) = &self.redis.password else { return Ok(url) };
        let wrong = || SettingsError::new("redis.url", "is no URL that can take a password");
        let mut whole = url::Url::parse(url.expose()).map_err(|_| wrong())?;
        whole.set_password(Some(password.expose())).map_err(|()| wrong())?;
        Ok(Secret::new(whole.as_str()))
    }

    /// How MongoDB is reached.
    pub fn mongo_options(&self) -> MongoOptions {
        let given = |text: &String| (!text.is_empty()).then(|| text.clone());
        MongoOptions {
            hosts: self.mongo.hosts().unwrap_or_else(|| Secret::new("")),
            user: given(&self.mongo.user),
            password: self.mongo.password.clone(),
            database: given(&self.mongo.db),
            query: given(&self.mongo.query),
            prefix: self.mongo.prefix.clone(),
        }
    }

    /// How PostgreSQL is reached.
    ///
    /// # Errors
    /// The file of its certificate authorities cannot be read any more.
    pub fn postgres_options(&self) -> Result<PostgresOptions, SettingsError> {
        let postgres = &self.postgres;
        let extra_roots = match &postgres.ca_file {
            Some(path) => Some(std::fs::read(path).map_err(|err| {
                SettingsError::new("postgres.ca_file", format!("cannot read {}: {err}", path.display()))
            })?),
            None => None,
        };
        Ok(PostgresOptions {
            url: postgres.url.clone(),
            host: postgres.host.clone(),
            port: postgres.port,
            database: postgres.db.clone(),
            user: postgres.user.clone(),
            password: postgres.password.clone(),
            prefix: postgres.prefix.clone(),
            pool_size: postgres.pool_size,
            tls: match postgres.sslmode {
                SslMode::Disable => TlsMode::Disable,
                SslMode::Prefer => TlsMode::Prefer,
                SslMode::Require => TlsMode::Require,
                SslMode::VerifyFull => TlsMode::VerifyFull,
            },
            extra_roots,
            ..PostgresOptions::default()
        })
    }
}
