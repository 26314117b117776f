//! The HTTP side: the API, `/status`, the probes, `/metrics`.
//!
//! The table of the paths is in `routes`. What each takes and answers stands at its handler, and in the OpenAPI document that is made of
//! that (`GET /v1/openapi.json`, `docs/openapi.json`).
//!
//! | below | who may |
//! |---|---|
//! | `/v1` | whoever has a token: viewers look, operators act, and what they do is written down (`audit`). Without any token this machine, as an operator |
//! | `/dashboard`, `/bullmq` | anybody, for the page holds no data; without any token this machine |
//! | `/status`, `/livez`, `/readyz`, `/metrics` | anybody |
//!
//! Errors are problem documents (RFC 9457).

mod access;
mod actions;
mod actors;
mod attempts;
mod audit;
mod blocked_owners;
mod body;
mod clients;
mod dashboard;
mod dead_letters;
mod decisions;
mod events;
mod export;
mod heavy_jobs;
mod openapi;
mod operational_events;
mod path;
mod problem;
mod queues;
mod readiness;
mod redact;
mod replays;
mod routes;
mod schema;
mod source_letters;
mod starting;
mod stash;
mod status;

#[cfg(test)]
mod tests;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::dev::Server;
use actix_web::middleware::{DefaultHeaders, from_fn};
use actix_web::{App, HttpServer, Route, web};
use actix_web_prom::PrometheusMetricsBuilder;
use tokio::sync::{Mutex, Semaphore};

use self::dashboard::stream::Streams;
use crate::actors::dashboard::Dashboard;
use crate::domain::access::AccessTokens;
use crate::domain::attempt::Attempt;
use crate::domain::change_event::SourceNames;
use crate::domain::config::ClientId;
use crate::domain::guard::Decided;
use crate::domain::replica::ReplicaName;
use crate::metrics::Metrics;
use crate::ports::BoxFuture;
use crate::ports::actor_restarts::{NobodyActed, RestartAnswer, RestartWish};
use crate::ports::attempts::Attempts;
use crate::ports::audit::AuditLog;
use crate::ports::client_configs::ClientConfigs;
use crate::ports::client_states::ClientStates;
use crate::ports::clock::Clock;
use crate::ports::decisions::Decisions;
use crate::ports::event_log::EventLog;
use crate::ports::job_queue::JobQueue;
use crate::ports::operational_events::OperationalEvents;
use crate::ports::session_keys::SessionKey;
use crate::ports::stash::Stash;
use crate::ports::stash_rows::StashRows;
use crate::workers::heavy::HeavyDesk;
pub use readiness::Readiness;
pub use starting::{Startup, starting};

/// Bytes of a request to `POST /v1/events`.
pub const REQUEST_BYTES: usize = 32 << 20;
/// KiB of event requests that are in memory at a time; more wait to be read.
const INTAKE_KIB: usize = 128 << 10;

/// Something that is asked and answers later.
pub type Ask<A, T> = Arc<dyn Fn(A) -> BoxFuture<'static, T> + Send + Sync>;

/// Something that is known at once, or not at all.
pub type LookUp<K, T> = Arc<dyn Fn(&K) -> Option<T> + Send + Sync>;

/// A store, and how to find out whether it answers.
#[derive(Clone)]
pub struct StoreProbe {
    /// Its name on `/status`.
    pub name: String,
    /// Asks it; the error is shown.
    pub check: Ask<(), Result<(), String>>,
}

/// What the HTTP side needs of the service.
pub struct WebState {
    /// `embedded` or `cluster`.
    pub mode: &'static str,
    /// What this process does.
    pub roles: Vec<&'static str>,
    /// What no replica does; `None`: that cannot be known right now.
    pub unattended_roles: Ask<(), Option<Vec<&'static str>>>,
    /// Whether the API is answered; status, probes and metrics always are.
    pub serves_api: bool,
    /// How source records are named: bare values become records of `<prefix>.<db>.<collection>`.
    pub source_names: SourceNames,
    /// The tokens, one of which every request of the API carries; while there is none, only this machine is answered.
    pub access: AccessTokens,
    /// Seals the sessions of browsers.
    pub session_key: SessionKey,
    /// What operators did.
    pub audit: Arc<dyn AuditLog>,
    /// The client configs.
    pub configs: Arc<dyn ClientConfigs>,
    /// Ready when everything that delivers uses the client's new config.
    pub refresh_config: Ask<ClientId, Result<(), String>>,
    /// What operators decided.
    pub decisions: Arc<dyn Decisions>,
    /// What they decided about clients and owners, as everything that routes and delivers knows it.
    pub decided: Arc<dyn Fn() -> Decided + Send + Sync>,
    /// Ready when that is what the store has.
    pub refresh_decided: Ask<(), Result<(), String>>,
    /// Asks the owner of a client to try its webhook now.
    pub try_now: Ask<ClientId, ()>,
    /// The queues, in the order in which they are shown.
    pub queues: Vec<Arc<dyn JobQueue>>,
    /// Where heavy jobs are asked for.
    pub heavy_desk: HeavyDesk,
    /// Whether there is a MongoDB to read for a resync.
    pub can_resync: bool,
    /// The log that takes events.
    pub log: Arc<dyn EventLog>,
    /// What waits.
    pub stash: Arc<dyn Stash>,
    /// The same, as operators see it.
    pub stash_rows: Arc<dyn StashRows>,
    /// The states of the clients.
    pub states: Arc<dyn ClientStates>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// All metrics.
    pub metrics: Metrics,
    /// Brings gauges up to date before they are read.
    pub before_scrape: Ask<(), ()>,
    /// The status of every actor, as its cell tells it. One whose `state` is `failed` turns `/status` to 503.
    pub actors: Arc<dyn Fn() -> Vec<serde_json::Value> + Send + Sync>,
    /// Has an actor begin anew, on whichever replica it is; answered with that replica.
    pub restart_actor: Ask<RestartWish, Result<(ReplicaName, RestartAnswer), NobodyActed>>,
    /// What a client's delivery actor last said of itself, while it has one: fresher than the stored state.
    pub delivery: LookUp<ClientId, serde_json::Value>,
    /// What happened that the operator wants to know of.
    pub operational_events: Arc<dyn OperationalEvents>,
    /// The attempts to deliver that are remembered.
    pub attempts: Arc<dyn Attempts>,
    /// The last ordinary deliveries of a client that is served here, the newest first.
    pub recent_deliveries: Ask<ClientId, Vec<Attempt>>,
    /// What the dashboard shows.
    pub dashboard: Dashboard,
    /// Every store.
    pub stores: Vec<StoreProbe>,
    /// How far the start or the stop has come.
    pub readiness: Arc<Readiness>,
}

/// The state of the service, and what the HTTP side itself keeps.
struct Shared {
    service: WebState,
    started: Instant,
    /// Room for the bodies of event requests, in KiB.
    intake: Semaphore,
    /// One writer of client configs at a time: a `PUT` that keeps the value reads before it writes.
    config_writes: Mutex<()>,
    /// One prober at a time: `/status` and `/metrics` need no token, and must not be a lever on the stores.
    probing: Mutex<()>,
    /// One log-in at a time.
    log_ins: Mutex<()>,
    /// Those who watch.
    streams: Streams,
}

/// Serves on `listener` until the server is stopped by its handle. Signals are the caller's.
///
/// # Errors
/// When the listener cannot be used, or a metric is registered already.
pub fn start(state: WebState, listener: TcpListener) -> io::Result<Server> {
    let requests = PrometheusMetricsBuilder::new("dispatcher")
        .registry(state.metrics.registry.clone())
        .mask_unmatched_patterns("unmatched")
        .build()
        .map_err(io::Error::other)?;
    let shared = web::Data::new(Shared {
        service: state,
        started: Instant::now(),
        intake: Semaphore::new(INTAKE_KIB),
        config_writes: Mutex::new(()),
        probing: Mutex::new(()),
        log_ins: Mutex::new(()),
        streams: Streams::default(),
    });
    let serves_api = shared.service.serves_api;
    let server = HttpServer::new(move || {
        let headers = DefaultHeaders::new()
            .add(("cache-control", "no-store"))
            .add(("x-content-type-options", "nosniff"));
        App::new()
            .app_data(shared.clone())
            .configure(routes::always)
            .configure(if serves_api { api } else { no_api })
            .default_service(nothing(NOTHING_HERE))
            .wrap(headers)
            .wrap(requests.clone())
    })
    .workers(2)
    .max_connections(1024)
    .client_request_timeout(Duration::from_secs(10))
    .keep_alive(Duration::from_secs(75))
    .shutdown_timeout(5)
    .disable_signals()
    .listen(listener)?;
    Ok(server.run())
}

fn no_api(app: &mut web::ServiceConfig) {
    app.service(web::scope("/v1").default_service(nothing("this process has not the role `web`")));
}

fn api(app: &mut web::ServiceConfig) {
    let api = web::scope("/v1").wrap(from_fn(access::guard)).configure(routes::api);
    app.service(api.default_service(nothing(NOTHING_HERE)))
        .service(web::scope("/dashboard").wrap(from_fn(access::guard_page)).configure(routes::page));
}

/// What is said of a path that leads nowhere.
const NOTHING_HERE: &str = "there is nothing at this path";

fn nothing(why: &'static str) -> Route {
    web::to(async move || problem::not_found(why))
}
