//! The services of cluster mode for the tests, the real ones: each on a free loopback port, with a folder of its own, killed and
//! cleared away with the process. `scripts/services` knows how each is installed and started.
//!
//! ```ignore
//! let redis = services::redis();                   // shared by the tests of the process
//! let prefix = services::unique("cache");          // names of this test alone
//! let own = services::own_postgres();              // a test that stops it has its own
//! own.kill();
//! own.start_again();
//! let link = services::Proxy::to(own.port());      // a wire that can be cut
//! ```
//!
//! Everything blocks, and may be called where an async runtime runs.
//! After a failed test the folders stay, with the services' logs, and their place is said in the last lines of the run.
#![allow(dead_code, unused_imports, reason = "each test binary uses what it needs")]

mod folder;
mod kind;
mod ports;
mod probe;
mod process;
mod proxy;
mod service;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) use kind::{Kind, USER};
pub(crate) use proxy::Proxy;
pub(crate) use service::Service;

/// Apache Kafka, one node; or where `KAFKA_BROKERS` points to.
pub(crate) fn kafka() -> &'static Service {
    static SHARED: Shared = Shared::new();
    shared(&SHARED, Kind::Kafka)
}

/// A server that speaks MongoDB's protocol (FerretDB: no change streams); or where `MONGO_URL` points to.
pub(crate) fn mongo() -> &'static Service {
    static SHARED: Shared = Shared::new();
    shared(&SHARED, Kind::Mongo)
}

/// PostgreSQL, user and database `postgres`, no password; or where `POSTGRES_URL` points to.
pub(crate) fn postgres() -> &'static Service {
    static SHARED: Shared = Shared::new();
    shared(&SHARED, Kind::Postgres)
}

/// Redis; or where `REDIS_URL` points to.
pub(crate) fn redis() -> &'static Service {
    static SHARED: Shared = Shared::new();
    shared(&SHARED, Kind::Redis)
}

/// A Kafka that this test may stop.
pub(crate) fn own_kafka() -> Service {
    Service::own(Kind::Kafka, &[], None)
}

/// A Kafka that this test may stop, and a proxy in front of it. The clients that come in through the proxy stay there: the broker
/// tells them the proxy's port, and its own to those that come to its own.
pub(crate) fn own_kafka_behind_proxy() -> (Service, Proxy) {
    let behind = ports::free_port();
    let proxy = Proxy::to(behind);
    (Service::own(Kind::Kafka, &[behind, proxy.port()], None), proxy)
}

/// A MongoDB server that this test may stop.
pub(crate) fn own_mongo() -> Service {
    Service::own(Kind::Mongo, &[], None)
}

/// A PostgreSQL that this test may stop.
pub(crate) fn own_postgres() -> Service {
    Service::own(Kind::Postgres, &[], None)
}

/// A Redis that this test may stop. What was answered is there after `start_again`.
pub(crate) fn own_redis() -> Service {
    Service::own(Kind::Redis, &[], None)
}

/// A service that asks for [`PASSWORD`]: for tests of what a wrong one does. Its URL has it. Kafka's clients log in as [`USER`] by SASL
/// PLAIN, without TLS.
pub(crate) fn own_with_password(kind: Kind) -> Service {
    Service::own(kind, &[], Some(PASSWORD))
}

/// What services of [`own_with_password`] ask for.
pub(crate) const PASSWORD: &str = "right";

/// A name that no other test has, now or later: good for a topic, a group, a database, a prefix of keys. Lower case, digits and `_`.
pub(crate) fn unique(name: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let second = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{name}_{second:x}_{:x}_{number}", std::process::id())
}

/// A service that could not be started is not tried again: every test that needs it fails at once, with the same words.
type Shared = OnceLock<Result<Service, String>>;

fn shared(shared: &'static Shared, kind: Kind) -> &'static Service {
    match shared.get_or_init(|| Service::shared(kind)) {
        Ok(service) => service,
        Err(fault) => panic!("{fault}"),
    }
}
