//! The dashboard: what its page shows, and the page.
//!
//! Everything is answered from the last snapshot: no question asks a store. The page is compiled in. It holds no data, so that it may be sent to
//! whoever has yet to log in; without an admin token only this machine gets it.

pub(super) mod assets;
pub(super) mod session;
pub(super) mod stream;

use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use super::path::{FIRST, id, query};
use super::problem::Problem;
use crate::actors::dashboard::{ActorQuery, ClientQuery, ClientSort, ClientView, Overview, Page, PhaseFilter};

const DEFAULT_PAGE: usize = 50;
const LARGEST_PAGE: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    filter: Option<String>,
    phase: Option<PhaseFilter>,
    #[serde(default)]
    sort: ClientSort,
    #[serde(default)]
    reverse: bool,
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
    #[serde(default)]
    hour: bool,
}

/// The last snapshot: the sums, with `hour` the last hour, and a page of the clients.
pub(super) async fn overview(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let Asked { filter, phase, sort, reverse, offset, limit, hour } = query(&request)?;
    let limit = limit.unwrap_or(DEFAULT_PAGE).min(LARGEST_PAGE);
    let snapshot = shared.service.dashboard.snapshot();
    let page = ClientQuery { filter, phase, sort, reverse, offset }.find(&snapshot.clients, limit);
    Ok(HttpResponse::Ok().json(json!({
        "number": snapshot.number,
        "service": service(&shared, &snapshot.overview),
        "overview": snapshot.overview,
        "hour": hour.then_some(&snapshot.hour),
        "clients": listed(&page, offset),
    })))
}

/// One client, with the minutes of its last hour.
pub(super) async fn client(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let wanted = id(&request, FIRST, "client id")?;
    let snapshot = shared.service.dashboard.snapshot();
    let found = snapshot.clients.binary_search_by(|client| client.client.as_str().cmp(wanted.as_str()));
    let view: &Arc<ClientView> = found
        .ok()
        .and_then(|place| snapshot.clients.get(place))
        .ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "there is no such client"))?;
    Ok(HttpResponse::Ok().json(json!({
        "at_ms": snapshot.overview.at_ms,
        "client": view,
        "minutes": view.minutes,
    })))
}

/// The actors of all replicas that are seen, those first that are not well, a page at a time.
pub(super) async fn actors(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        filter: Option<String>,
        kind: Option<String>,
        state: Option<String>,
        replica: Option<String>,
        #[serde(default)]
        offset: usize,
        limit: Option<usize>,
    }
    let Asked { filter, kind, state, replica, offset, limit } = query(&request)?;
    let limit = limit.unwrap_or(DEFAULT_PAGE).min(LARGEST_PAGE);
    let page = ActorQuery { filter, kind, state, replica, offset }.find(shared.service.dashboard.actors(), limit);
    Ok(HttpResponse::Ok().json(listed(&page, offset)))
}

fn listed<T: serde::Serialize>(page: &Page<T>, offset: usize) -> Value {
    let end = offset.saturating_add(page.rows.len());
    json!({
        "rows": page.rows,
        "matched": page.matched,
        "offset": offset,
        "next": (end < page.matched).then_some(end),
    })
}

/// What this process is, and whose the numbers are.
fn service(shared: &Shared, overview: &Overview) -> Value {
    json!({
        "scope": if overview.replicas.len() > 1 { "all replicas" } else { "this replica" },
        "replica": shared.service.dashboard.here(),
        "version": env!("CARGO_PKG_VERSION"),
        "mode": shared.service.mode,
        "roles": shared.service.roles,
        "ready": shared.service.readiness.missing().is_none(),
        "missing": shared.service.readiness.missing(),
        "uptime_seconds": shared.started.elapsed().as_secs(),
        "streams": shared.streams.open(),
    })
}
