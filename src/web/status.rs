//! `/status`, the probes and `/metrics`: they need no token, and hold no secret.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use futures_util::future::join_all;
use prometheus::{Encoder, TextEncoder};
use serde_json::{Value, json};

use super::problem::Problem;
use super::{Shared, StoreProbe, WebState};

/// How long a store may take to answer a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn livez() -> HttpResponse {
    HttpResponse::Ok().body("alive\n")
}

/// Ready for traffic. Never the health of dependencies: else all replicas would be taken out at once.
pub(super) async fn readyz(shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    match shared.service.readiness.missing() {
        None => Ok(HttpResponse::Ok().body("ready\n")),
        Some(missing) => Err(Problem::unavailable(missing)),
    }
}

/// Every actor, every store, and what waits. 503 when one of them is down or the service is not ready.
pub(super) async fn status(shared: web::Data<Shared>) -> HttpResponse {
    let service = &shared.service;
    let _turn = shared.probing.lock().await;
    let stores = join_all(service.stores.iter().map(probe)).await;
    refresh(&shared).await;
    let roles = roles(service).await;
    let actors = (service.actors)();
    // An actor that restarts comes back; one that failed too often does not.
    let has_failed = |actor: &Value| actor["state"] == "failed";
    let state = match service.readiness.missing() {
        Some(missing) => missing,
        None if stores.iter().any(|store| store["healthy"] == false) => "a store is down",
        None if actors.iter().any(has_failed) => "an actor is down",
        None => "ok",
    };
    let metrics = &service.metrics;
    let lag = |stream| metrics.lag.with_label_values(&[stream]).get();
    let rows = |state| metrics.stash_rows.with_label_values(&[state]).get();
    let document = json!({
        "status": state,
        "version": env!("CARGO_PKG_VERSION"),
        "mode": service.mode,
        "roles": roles,
        "uptime_seconds": shared.started.elapsed().as_secs(),
        "lag": { "source": lag("source"), "transfer": lag("transfer") },
        "queued": metrics.queued.get(),
        "in_flight": metrics.in_flight.get(),
        "stash": {
            "pending": rows("pending"),
            "dead": rows("dead"),
            "oldest_waiting_seconds": metrics.oldest_waiting_seconds.get(),
        },
        "stores": stores,
        "actors": actors,
    });
    let code = if state == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    HttpResponse::build(code).json(document)
}

/// What this process does, and what no replica does.
async fn roles(service: &WebState) -> Value {
    let unattended = tokio::time::timeout(PROBE_TIMEOUT, (service.unattended_roles)(())).await;
    let nobody = unattended.ok().flatten().map_or_else(|| json!("unknown"), |roles| json!(roles));
    json!({ "here": service.roles, "nobody": nobody })
}

async fn probe(store: &StoreProbe) -> Value {
    let answer = match tokio::time::timeout(PROBE_TIMEOUT, (store.check)(())).await {
        Ok(answer) => answer,
        Err(_) => Err("no answer in time".to_owned()),
    };
    match answer {
        Ok(()) => json!({ "name": store.name, "healthy": true }),
        Err(error) => json!({ "name": store.name, "healthy": false, "error": error }),
    }
}

/// Brings the gauges up to date; a store that hangs leaves them as they were.
async fn refresh(shared: &Shared) {
    if tokio::time::timeout(PROBE_TIMEOUT, (shared.service.before_scrape)(())).await.is_err() {
        log::warn!("gauges were not brought up to date in time");
    }
}

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
