//! `/status`, the probes and `/metrics`: they need no token, and hold no secret.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::ContentType;
use actix_web::{HttpResponse, web};
use futures_util::future::join_all;
use prometheus::{Encoder, TextEncoder};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::problem::Problem;
use super::{Shared, StoreProbe, WebState};

/// How long a store may take to answer a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether the process answers
#[utoipa::path(get, path = "/livez", responses((status = 200, body = String, content_type = "text/plain; charset=utf-8")))]
pub(super) async fn livez() -> HttpResponse {
    text("alive\n")
}

fn text(text: &'static str) -> HttpResponse {
    HttpResponse::Ok().content_type(ContentType::plaintext()).body(text)
}

/// Whether it is ready for traffic
///
/// Never the health of dependencies: else all replicas would be taken out at once.
#[utoipa::path(get, path = "/readyz", responses(
    (status = 200, body = String, content_type = "text/plain; charset=utf-8"),
    (status = 503, description = "Not yet, or not any more"),
))]
pub(super) async fn readyz(shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    match shared.service.readiness.missing() {
        None => Ok(text("ready\n")),
        Some(missing) => Err(Problem::unavailable(missing)),
    }
}

/// How the process is.
#[derive(Serialize, ToSchema)]
struct Status {
    /// `ok`, or what is not.
    status: &'static str,
    version: &'static str,
    /// `embedded` or `cluster`.
    mode: &'static str,
    roles: StatusRoles,
    uptime_seconds: u64,
    lag: StatusLag,
    queued: i64,
    in_flight: i64,
    stash: StatusStash,
    stores: Vec<StatusStore>,
    /// Every actor of this process.
    #[schema(value_type = Vec<Object>)]
    actors: Vec<Value>,
}

/// Who does what.
#[derive(Serialize, ToSchema)]
struct StatusRoles {
    /// What this process does.
    here: Vec<&'static str>,
    /// What no replica does, or `unknown`.
    #[schema(value_type = Value)]
    nobody: Value,
}

/// Records that are not read yet.
#[derive(Serialize, ToSchema)]
struct StatusLag {
    source: i64,
    transfer: i64,
}

/// What waits in the stash.
#[derive(Serialize, ToSchema)]
struct StatusStash {
    pending: i64,
    dead: i64,
    oldest_waiting_seconds: f64,
}

/// A store.
#[derive(Serialize, ToSchema)]
struct StatusStore {
    name: String,
    healthy: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Every actor, every store, and what waits
#[utoipa::path(get, path = "/status", responses(
    (status = 200, body = Status, description = "All is well"),
    (status = 503, body = Status, description = "Something is down, or the service is not ready"),
))]
pub(super) async fn status(shared: web::Data<Shared>) -> HttpResponse {
    let service = &shared.service;
    let _turn = shared.probing.lock().await;
    // At once: a store that is slow makes the others no later.
    let stores = join_all(service.stores.iter().map(probe));
    let (stores, (), roles) = tokio::join!(stores, refresh(&shared), roles(service));
    let actors = (service.actors)();
    // An actor that restarts comes back; one that failed too often does not.
    let has_failed = |actor: &Value| actor["state"] == "failed";
    let state = match service.readiness.missing() {
        Some(missing) => missing,
        None if stores.iter().any(|store| !store.healthy) => "a store is down",
        None if actors.iter().any(has_failed) => "an actor is down",
        None => "ok",
    };
    let metrics = &service.metrics;
    let lag = |stream| metrics.lag.with_label_values(&[stream]).get();
    let rows = |state| metrics.stash_rows.with_label_values(&[state]).get();
    let document = Status {
        status: state,
        version: env!("CARGO_PKG_VERSION"),
        mode: service.mode,
        roles,
        uptime_seconds: shared.started.elapsed().as_secs(),
        lag: StatusLag { source: lag("source"), transfer: lag("transfer") },
        queued: metrics.queued.get(),
        in_flight: metrics.in_flight.get(),
        stash: StatusStash {
            pending: rows("pending"),
            dead: rows("dead"),
            oldest_waiting_seconds: metrics.oldest_waiting_seconds.get(),
        },
        stores,
        actors,
    };
    let code = if state == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    HttpResponse::build(code).json(document)
}

/// What this process does, and what no replica does.
async fn roles(service: &WebState) -> StatusRoles {
    let unattended = tokio::time::timeout(PROBE_TIMEOUT, (service.unattended_roles)(())).await;
    let nobody = unattended.ok().flatten().map_or_else(|| Value::from("unknown"), Value::from);
    StatusRoles { here: service.roles.clone(), nobody }
}

async fn probe(store: &StoreProbe) -> StatusStore {
    let answer = match tokio::time::timeout(PROBE_TIMEOUT, (store.check)(())).await {
        Ok(answer) => answer,
        Err(_) => Err("no answer in time".to_owned()),
    };
    StatusStore { name: store.name.clone(), healthy: answer.is_ok(), error: answer.err() }
}

/// Brings the gauges up to date; a store that hangs leaves them as they were.
async fn refresh(shared: &Shared) {
    if tokio::time::timeout(PROBE_TIMEOUT, (shared.service.before_scrape)(())).await.is_err() {
        log::warn!("gauges were not brought up to date in time");
    }
}

/// All metrics, as Prometheus reads them
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, body = String, content_type = "text/plain; version=0.0.4"),
    (status = 500, description = "They cannot be written"),
))]
pub(super) async fn metrics(shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let _turn = shared.probing.lock().await;
    refresh(&shared).await;
    let encoder = TextEncoder::new();
    let mut text = Vec::new();
    encoder
        .encode(&shared.service.metrics.registry.gather(), &mut text)
        .map_err(|err| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, err.to_string()))?;
    Ok(HttpResponse::Ok().content_type(encoder.format_type()).body(text))
}
