//! Resyncs and replays of a client: asked for, looked at, ended.

use std::collections::BTreeSet;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::path::{SECOND, client_of, id};
use super::problem::{Problem, ask};
use super::schema::{self, OfClient, OfHeavyJob, Whole};
use super::{Shared, body};
use crate::domain::config::{ClientId, Status};
use crate::domain::heavy_job::{HeavyJob, HeavyState};
use crate::domain::job::JobId;
use crate::workers::heavy::resync::NO_SOURCE;
use crate::workers::queues::{HeavyWork, Replay, Resync};

/// Bytes of a request.
const BODY_BYTES: usize = 64 << 10;
/// Collections that one resync names.
const MOST_COLLECTIONS: usize = 100;
/// Bytes of the name of one, by MongoDB's own limit.
const NAME_BYTES: usize = 255;

/// What is sent again. The body may be left out.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
struct ResyncRequest {
    /// Only these, `<db>.<collection>`.
    #[schema(min_items = 1, max_items = 100)]
    collections: Option<BTreeSet<String>>,
    /// Although the same was done.
    again: bool,
}

/// A job of minutes to hours.
#[derive(Serialize, ToSchema)]
struct HeavyJobShown {
    id: String,
    client: String,
    /// `resync`, `replay`.
    kind: String,
    #[schema(value_type = Object)]
    parameters: Value,
    #[schema(value_type = schema::HeavyState)]
    state: &'static str,
    /// What it has counted.
    progress: Value,
    /// Why it ended as it did.
    reason: Option<String>,
    created_ms: i64,
    updated_ms: i64,
}

#[derive(Serialize, ToSchema)]
struct HeavyJobAsked {
    job: HeavyJobShown,
}

#[derive(Serialize, ToSchema)]
struct HeavyJobs {
    heavy_jobs: Vec<HeavyJobShown>,
}

/// Sends a client again what it may see, as MongoDB has it now
#[utoipa::path(post, path = "/v1/clients/{id}/resync", params(OfClient), request_body = Option<ResyncRequest>, responses(
    (status = 202, body = HeavyJobAsked, description = "It is kept, and will be done"),
    (status = 200, body = HeavyJobAsked, description = "The same was done, or given up, and is remembered"),
    (status = 404, description = "There is no such client"),
    (status = 409, description = "It cannot be done; `reason` says why"),
))]
pub(super) async fn resync(
    request: HttpRequest,
    payload: web::Payload,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    let expected = "{\"collections\": [\"<db>.<collection>\"], \"again\": false}";
    let ResyncRequest { collections, again } = read(&request, payload, expected).await?;
    if !shared.service.can_resync {
        return Err(conflict(NO_SOURCE, "no_source"));
    }
    if let Some(names) = &collections {
        let is_name = |name: &String| name.contains('.') && name.len() <= NAME_BYTES;
        if names.is_empty() || names.len() > MOST_COLLECTIONS || !names.iter().all(is_name) {
            let problem = format!("collections: must be 1 to {MOST_COLLECTIONS} of <db>.<collection>");
            return Err(Problem::bad_request(problem).with("key", "collections"));
        }
    }
    start(&shared, client.clone(), Resync { client, collections }.into(), again).await
}

/// Which part of what is dead. The body may be left out.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
struct ReplayRequest {
    /// First failed at or after this, milliseconds since 1970.
    #[schema(inline)]
    from_ms: Option<Whole>,
    /// First failed before this.
    #[schema(inline)]
    to_ms: Option<Whole>,
    /// Although the receiver has, or will get, something newer.
    force: bool,
    /// Although the same was done.
    again: bool,
}

/// Sends again what is dead of a client, as a job
#[utoipa::path(post, path = "/v1/clients/{id}/replay", params(OfClient), request_body = Option<ReplayRequest>, responses(
    (status = 202, body = HeavyJobAsked, description = "It is kept, and will be done"),
    (status = 200, body = HeavyJobAsked, description = "The same was done, or given up, and is remembered"),
    (status = 404, description = "There is no such client"),
    (status = 409, description = "It cannot be done; `reason` says why"),
))]
pub(super) async fn replay(
    request: HttpRequest,
    payload: web::Payload,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    let expected = "{\"from_ms\", \"to_ms\", \"force\": false, \"again\": false}";
    let ReplayRequest { from_ms, to_ms, force, again } = read(&request, payload, expected).await?;
    start(
        &shared,
        client.clone(),
        Replay { client, from_ms: from_ms.map(Whole::get), to_ms: to_ms.map(Whole::get), force }.into(),
        again,
    )
    .await
}

/// 202: it is kept, and will be done. 200: the same was done, or given up, and is remembered.
async fn start(
    shared: &Shared,
    client: ClientId,
    work: HeavyWork,
    again: bool,
) -> Result<HttpResponse, Problem> {
    can_be_sent_to(shared, &client).await?;
    let job = ask(shared.service.heavy_desk.start(work, again)).await?;
    log::info!("heavy job is asked for state={} client={client} job_id={}", job.state, job.id);
    let is_open = job.state == HeavyState::Open;
    let code = if is_open { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok(HttpResponse::build(code).json(HeavyJobAsked { job: view(&job) }))
}

/// Work for a client that gets nothing would fail at once.
async fn can_be_sent_to(shared: &Shared, client: &ClientId) -> Result<(), Problem> {
    let stored = ask(shared.service.configs.get(client)).await?;
    let Some(config) = stored.map(|stored| stored.config).filter(|config| !config.deleted) else {
        return Err(Problem::new(StatusCode::NOT_FOUND, "there is no such client"));
    };
    if config.status == Status::Inactive {
        return Err(conflict("the client is INACTIVE: switch it on first", "inactive"));
    }
    let decided = (shared.service.decided)();
    if decided.judge(&config).blocked().is_some() {
        return Err(conflict("the owner of the client is blocked", "owner_blocked"));
    }
    Ok(())
}

/// A client's resyncs and replays, the newest first: those that are open, and for a day those that have ended
#[utoipa::path(get, path = "/v1/clients/{id}/heavy-jobs", params(OfClient), responses((status = 200, body = HeavyJobs)))]
pub(super) async fn list(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    let jobs = ask(shared.service.heavy_desk.rows.list(Some(client))).await?;
    let heavy_jobs = jobs.iter().map(view).collect();
    Ok(HttpResponse::Ok().json(HeavyJobs { heavy_jobs }))
}

/// A resync or replay of a client
#[utoipa::path(get, path = "/v1/clients/{id}/heavy-jobs/{job}", params(OfHeavyJob), responses(
    (status = 200, body = HeavyJobShown),
    (status = 404, description = "This client has no such job"),
))]
pub(super) async fn get(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let (client, id) = (client_of(&request)?, job_of(&request)?);
    let job = ask(shared.service.heavy_desk.rows.get(&id)).await?;
    let job = job.filter(|job| job.client == client).ok_or_else(unknown)?;
    Ok(HttpResponse::Ok().json(view(&job)))
}

/// Ends a resync or replay that is open; what has ended is forgotten, so that the same can be asked for again
#[utoipa::path(delete, path = "/v1/clients/{id}/heavy-jobs/{job}", params(OfHeavyJob), responses(
    (status = 200, body = HeavyJobShown, description = "It ends"),
    (status = 204, description = "It is forgotten"),
    (status = 404, description = "This client has no such job"),
))]
pub(super) async fn delete(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let (client, id) = (client_of(&request)?, job_of(&request)?);
    let desk = &shared.service.heavy_desk;
    if ask(desk.forget(&client, &id)).await? {
        log::info!("heavy job is forgotten client={client} job_id={id}");
        return Ok(HttpResponse::NoContent().finish());
    }
    let job = ask(desk.cancel(&client, &id)).await?.ok_or_else(unknown)?;
    Ok(HttpResponse::Ok().json(view(&job)))
}

fn view(job: &HeavyJob) -> HeavyJobShown {
    HeavyJobShown {
        id: job.id.as_str().to_owned(),
        client: job.client.as_str().to_owned(),
        kind: job.kind.clone(),
        parameters: job.parameters.clone(),
        state: job.state.as_str(),
        progress: job.progress.clone(),
        reason: job.reason.clone(),
        created_ms: job.created_ms,
        updated_ms: job.updated_ms,
    }
}

fn job_of(request: &HttpRequest) -> Result<JobId, Problem> {
    JobId::parse(&id(request, SECOND, "job id")?).map_err(|_| unknown())
}

fn unknown() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "this client has no such job")
}

fn conflict(detail: &str, reason: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, detail).with("reason", reason)
}

/// The body of a request; nothing is the default of everything.
async fn read<T: DeserializeOwned + Default>(
    request: &HttpRequest,
    payload: web::Payload,
    expected: &str,
) -> Result<T, Problem> {
    Ok(body::object(request, payload, BODY_BYTES, expected).await?.unwrap_or_default())
}
