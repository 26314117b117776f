//! The four services, and in what they differ for a test.

use super::probe;

/// Whom Kafka and MongoDB know when they ask for a password. PostgreSQL's user is `postgres`, Redis asks for none.
pub(crate) const USER: &str = "dispatcher";

/// Which service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Kafka,
    Mongo,
    Postgres,
    Redis,
}

impl Kind {
    /// As `scripts/services run` knows it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::Mongo => "mongo",
            Self::Postgres => "postgres",
            Self::Redis => "redis",
        }
    }

    /// The environment variable that names one that runs already.
    pub(super) fn variable(self) -> &'static str {
        match self {
            Self::Kafka => "KAFKA_BROKERS",
            Self::Mongo => "MONGO_URL",
            Self::Postgres => "POSTGRES_URL",
            Self::Redis => "REDIS_URL",
        }
    }

    /// What its clients are given, with this password if any.
    pub(super) fn url(self, port: u16, password: Option<&str>) -> String {
        let (scheme, user, path) = match self {
            // Its clients are given settings for the password, beside the address.
            Self::Kafka => return format!("127.0.0.1:{port}"),
            Self::Mongo => ("mongodb", password.map(|_| USER), ""),
            Self::Postgres => ("postgres", Some("postgres"), "/postgres"),
            Self::Redis => ("redis", password.map(|_| ""), ""),
        };
        let password = password.map(|password| format!(":{password}")).unwrap_or_default();
        let user = user.map(|user| format!("{user}{password}@")).unwrap_or_default();
        format!("{scheme}://{user}127.0.0.1:{port}{path}")
    }

    /// Host and port in what its clients are given: of several, the first.
    pub(super) fn address(self, url: &str) -> Option<(String, u16)> {
        let default = match self {
            Self::Kafka => 9092,
            Self::Mongo => 27017,
            Self::Postgres => 5432,
            Self::Redis => 6379,
        };
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let hosts = rest.split(['/', '?']).next()?;
        let hosts = hosts.rsplit_once('@').map_or(hosts, |(_, hosts)| hosts);
        let first = hosts.split(',').next().filter(|first| !first.is_empty())?;
        match first.rsplit_once(':') {
            Some((host, port)) => Some((host.to_owned(), port.parse().ok()?)),
            None => Some((first.to_owned(), default)),
        }
    }

    /// Whether it does its work, asked in its own protocol.
    pub(super) fn answers(self, port: u16, password: Option<&str>) -> bool {
        match self {
            Self::Kafka => probe::kafka(port, password),
            Self::Mongo => probe::mongo(port).is_ok(),
            Self::Postgres => probe::postgres(port).is_ok(),
            Self::Redis => probe::redis(port).is_ok(),
        }
    }
}

#[test]
fn the_password_stands_in_the_url() {
    assert_eq!(Kind::Redis.url(1, None), "redis://127.0.0.1:1");
    assert_eq!(Kind::Redis.url(1, Some("right")), "redis://:right@127.0.0.1:1");
    assert_eq!(Kind::Mongo.url(1, Some("right")), "mongodb://dispatcher:right@127.0.0.1:1");
    assert_eq!(Kind::Postgres.url(1, None), "postgres://postgres@127.0.0.1:1/postgres");
    assert_eq!(Kind::Postgres.url(1, Some("right")), "postgres://postgres:right@127.0.0.1:1/postgres");
}

#[test]
fn the_address_stands_in_the_url() {
    for (kind, url, host, port) in [
        (Kind::Kafka, "a:1,b:2", "a", 1),
        (Kind::Kafka, "a", "a", 9092),
        (Kind::Mongo, "mongodb://me:p%40ss@a:1,b:2/db?replicaSet=rs", "a", 1),
        (Kind::Mongo, "mongodb://a", "a", 27017),
        (Kind::Postgres, "postgres://postgres@127.0.0.1/x", "127.0.0.1", 5432),
        (Kind::Redis, "redis://:secret@a:1/0", "a", 1),
    ] {
        assert_eq!(kind.address(url), Some((host.to_owned(), port)), "{url}");
    }
    assert_eq!(Kind::Redis.address("redis://a:port"), None);
}
