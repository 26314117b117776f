//! What an operator does about a client's delivery: stop it, let it go on, have it tried now, switch it off and on.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::Serialize;
use utoipa::ToSchema;

use super::clients::{Client, switch};
use super::decisions::{Paused, Said};
use super::path::client_of;
use super::problem::{Problem, ask};
use super::schema::OfClient;
use super::{Shared, decisions};
use crate::domain::config::{ClientId, Status};
use crate::domain::decision::{DecisionKind::PausedClient, Subject};

/// Stops a client's delivery: its changes wait until it is resumed
#[utoipa::path(post, path = "/v1/clients/{id}/pause", params(OfClient), request_body = Option<Said>, responses(
    (status = 200, body = Paused, description = "Nothing is sent any more by this replica"),
    (status = 202, body = Paused, description = "It is kept, and in use soon"),
    (status = 404, description = "There is no such client"),
))]
pub(super) async fn pause(
    request: HttpRequest,
    payload: web::Payload,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let client = known(&request, &shared).await?;
    let service = &shared.service;
    let decision = decisions::read(&request, payload, subject(&client)?, service.clock.now_ms()).await?;
    let decision = ask(service.decisions.put(PausedClient, decision)).await?;
    log::info!("client is to be paused by={} client={client}", decision.by());
    let code = if decisions::are_in_use(&shared).await { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(HttpResponse::build(code).json(Paused { paused: Some((&decision).into()) }))
}

/// Lets a client's delivery go on, whoever paused it
#[utoipa::path(post, path = "/v1/clients/{id}/resume", params(OfClient), responses(
    (status = 200, body = Paused, description = "It goes on"),
    (status = 202, body = Paused, description = "It goes on soon"),
    (status = 404, description = "This client is not paused"),
))]
pub(super) async fn resume(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    if !ask(shared.service.decisions.remove(PausedClient, &subject(&client)?)).await? {
        return Err(Problem::new(StatusCode::NOT_FOUND, "this client is not paused"));
    }
    log::info!("client is to be resumed client={client}");
    let code = if decisions::are_in_use(&shared).await { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(HttpResponse::build(code).json(Paused { paused: None }))
}

/// It was asked for; what comes of it shows in the state.
#[derive(Serialize, ToSchema)]
pub(super) struct Asked {
    asked: bool,
}

impl Asked {
    pub(super) fn answer() -> HttpResponse {
        HttpResponse::Accepted().json(Self { asked: true })
    }
}

/// Asks the client's owner to try the webhook now, whatever its schedule says
///
/// What comes of it shows in the client's state.
#[utoipa::path(post, path = "/v1/clients/{id}/retry", params(OfClient), responses(
    (status = 202, body = Asked),
    (status = 404, description = "There is no such client"),
))]
pub(super) async fn retry(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let client = known(&request, &shared).await?;
    log::info!("client is to be tried now client={client}");
    (shared.service.try_now)(client).await;
    Ok(Asked::answer())
}

/// Switches a client off: its config becomes INACTIVE, and changes are not routed to it any more
///
/// What is on its way already waits in the stash. What happens meanwhile is closed by a resync only.
#[utoipa::path(post, path = "/v1/clients/{id}/disable", params(OfClient), responses(
    (status = 200, body = Client, description = "It is off"),
    (status = 202, body = Client, description = "It is kept, and in use soon"),
    (status = 404, description = "There is no such client"),
))]
pub(super) async fn disable(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    switch(&shared, client_of(&request)?, Status::Inactive).await
}

/// Switches a client on: its config becomes ACTIVE, and what waits for it goes out
#[utoipa::path(post, path = "/v1/clients/{id}/enable", params(OfClient), responses(
    (status = 200, body = Client, description = "It is on"),
    (status = 202, body = Client, description = "It is kept, and in use soon"),
    (status = 404, description = "There is no such client"),
))]
pub(super) async fn enable(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    switch(&shared, client_of(&request)?, Status::Active).await
}

/// The client of the path, if there is one.
async fn known(request: &HttpRequest, shared: &Shared) -> Result<ClientId, Problem> {
    let client = client_of(request)?;
    let config = ask(shared.service.configs.get(&client)).await?;
    match config.filter(|stored| !stored.config.deleted) {
        Some(_) => Ok(client),
        None => Err(Problem::new(StatusCode::NOT_FOUND, "there is no such client")),
    }
}

fn subject(client: &ClientId) -> Result<Subject, Problem> {
    let parsed = Subject::parse(client.as_str());
    parsed.map_err(|err| Problem::bad_request(format!("client id in the path: {}", err.problem)))
}
