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
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::path::{FIRST, id, query};
use super::problem::Problem;
use super::schema::{self, BoardLimit, DashboardClient, Offset};
use crate::actors::dashboard::{
    ActorQuery, ActorReport, ClientQuery, ClientSort, ClientView, Overview, Page, PhaseFilter, Point,
};
use crate::domain::replica::ReplicaName;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Asked {
    /// Stands in the id, the webhook, the owner or the reason; case does not count.
    filter: Option<String>,
    /// Which phase, or all that somebody should look at.
    #[param(inline, value_type = Option<schema::PhaseFilter>)]
    phase: Option<PhaseFilter>,
    /// What comes first: problems, unless something else is said.
    #[serde(default)]
    #[param(inline, value_type = Option<schema::ClientSort>)]
    sort: ClientSort,
    /// The other way round.
    #[serde(default)]
    #[param(required = false)]
    reverse: bool,
    #[serde(default)]
    #[param(inline, required = false)]
    offset: Offset,
    #[serde(default)]
    #[param(inline)]
    limit: BoardLimit,
    /// With the last hour.
    #[serde(default)]
    #[param(required = false)]
    hour: bool,
}

/// The last snapshot.
#[derive(Serialize, ToSchema)]
struct Board<'a> {
    /// Rises with each snapshot.
    number: u64,
    service: ServiceView,
    #[schema(value_type = Overview)]
    overview: &'a Overview,
    /// A point each 10 seconds, when it is asked for.
    #[schema(value_type = Option<Vec<Point>>)]
    hour: Option<&'a [Point]>,
    clients: ClientPage<'a>,
}

/// A page of the clients on the dashboard.
#[derive(Serialize, ToSchema)]
struct ClientPage<'a> {
    #[schema(value_type = Vec<ClientView>)]
    rows: &'a [Arc<ClientView>],
    #[serde(flatten)]
    place: Place,
}

/// Where a page stands.
#[derive(Serialize, ToSchema)]
struct Place {
    /// How many fit the question.
    matched: usize,
    offset: usize,
    /// Goes on with it, as `offset`.
    next: Option<usize>,
}

impl Place {
    fn of<T>(page: &Page<T>, offset: usize) -> Self {
        let end = offset.saturating_add(page.rows.len());
        Self { matched: page.matched, offset, next: (end < page.matched).then_some(end) }
    }
}

/// The last snapshot: the sums, with `hour` the last hour, and a page of the clients
#[utoipa::path(get, path = "/v1/dashboard", params(Asked), responses((status = 200, body = Board<'static>)))]
pub(super) async fn overview(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let Asked { filter, phase, sort, reverse, offset: Offset(offset), limit: BoardLimit(limit), hour } =
        query(&request)?;
    let snapshot = shared.service.dashboard.snapshot();
    let page = ClientQuery { filter, phase, sort, reverse, offset }.find(&snapshot.clients, limit);
    Ok(HttpResponse::Ok().json(Board {
        number: snapshot.number,
        service: service(&shared, &snapshot.overview),
        overview: &snapshot.overview,
        hour: hour.then_some(&snapshot.hour),
        clients: ClientPage { rows: &page.rows, place: Place::of(&page, offset) },
    }))
}

/// One client, with the minutes of its last hour.
#[derive(Serialize, ToSchema)]
struct ClientBoard<'a> {
    /// When the snapshot was made, milliseconds since 1970.
    at_ms: i64,
    #[schema(value_type = ClientView)]
    client: &'a ClientView,
    /// Delivered and failed of each minute; the last one still runs. Empty: nothing happened in all of them.
    #[schema(value_type = Vec<Vec<u32>>)]
    minutes: Vec<(u32, u32)>,
    /// Its delivery actor; `null`: it rests.
    actor: Option<ActorReport>,
}

/// One client on the dashboard, with the minutes of its last hour
#[utoipa::path(get, path = "/v1/dashboard/{client}", params(DashboardClient), responses(
    (status = 200, body = ClientBoard<'static>),
    (status = 404, description = "There is no such client"),
))]
pub(super) async fn client(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let wanted = id(&request, FIRST, "client id")?;
    let snapshot = shared.service.dashboard.snapshot();
    let view = snapshot
        .client(&wanted)
        .ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "there is no such client"))?;
    Ok(HttpResponse::Ok().json(ClientBoard {
        at_ms: snapshot.overview.at_ms,
        client: view,
        minutes: view.minutes_so_far(),
        actor: shared.service.dashboard.actor_of(view),
    }))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ActorsAsked {
    /// Stands in the id or the last cause; case does not count.
    filter: Option<String>,
    /// Only this kind.
    kind: Option<String>,
    /// Only those in this state of their life: `running`, `restarting`, `failed`, `stopped`; or `problem`: all that are not well or were restarted.
    state: Option<String>,
    /// Only those of this replica.
    replica: Option<String>,
    #[serde(default)]
    #[param(inline, required = false)]
    offset: Offset,
    #[serde(default)]
    #[param(inline)]
    limit: BoardLimit,
}

/// A page of the actors.
#[derive(Serialize, ToSchema)]
struct ActorPage<'a> {
    rows: &'a [ActorReport],
    #[serde(flatten)]
    place: Place,
}

/// The actors of all replicas that are seen, those first that are not well, a page at a time
#[utoipa::path(get, path = "/v1/actors", params(ActorsAsked), responses((status = 200, body = ActorPage<'static>)))]
pub(super) async fn actors(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let ActorsAsked { filter, kind, state, replica, offset: Offset(offset), limit: BoardLimit(limit) } =
        query(&request)?;
    let dashboard = &shared.service.dashboard;
    let page = ActorQuery { filter, kind, state, replica, offset }.find(dashboard.actors(), limit);
    Ok(HttpResponse::Ok().json(ActorPage { rows: &page.rows, place: Place::of(&page, offset) }))
}

/// What a process is.
#[derive(Serialize, ToSchema)]
struct ServiceView {
    /// Whose numbers these are.
    scope: &'static str,
    /// Its name among the replicas.
    #[schema(value_type = String)]
    replica: ReplicaName,
    version: &'static str,
    mode: &'static str,
    /// What this process does.
    roles: Vec<&'static str>,
    ready: bool,
    /// What is missing until it is.
    missing: Option<&'static str>,
    uptime_seconds: u64,
    /// Who watches.
    streams: usize,
}

/// What this process is, and whose the numbers are.
fn service(shared: &Shared, overview: &Overview) -> ServiceView {
    ServiceView {
        scope: if overview.replicas.len() > 1 { "all replicas" } else { "this replica" },
        replica: shared.service.dashboard.here().clone(),
        version: env!("CARGO_PKG_VERSION"),
        mode: shared.service.mode,
        roles: shared.service.roles.clone(),
        ready: shared.service.readiness.missing().is_none(),
        missing: shared.service.readiness.missing(),
        uptime_seconds: shared.started.elapsed().as_secs(),
        streams: shared.streams.open(),
    }
}
