//! What an operator does about a client's delivery: stop it, let it go on, have it tried now.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::json;

use super::path::client_of;
use super::problem::{Problem, ask};
use super::{Shared, decisions};
use crate::domain::config::ClientId;
use crate::domain::decision::{DecisionKind::PausedClient, Subject};

/// Stops a client's delivery: its changes wait until it is resumed.
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
    Ok(HttpResponse::build(code).json(json!({ "paused": decisions::pause(&decision) })))
}

/// Lets a client's delivery go on, whoever paused it.
pub(super) async fn resume(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    if !ask(shared.service.decisions.remove(PausedClient, &subject(&client)?)).await? {
        return Err(Problem::new(StatusCode::NOT_FOUND, "this client is not paused"));
    }
    log::info!("client is to be resumed client={client}");
    let code = if decisions::are_in_use(&shared).await { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(HttpResponse::build(code).json(json!({ "paused": null })))
}

/// Asks the client's owner to try the webhook now, whatever its schedule says. What comes of it shows in the client's state.
pub(super) async fn retry(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let client = known(&request, &shared).await?;
    log::info!("client is to be tried now client={client}");
    (shared.service.try_now)(client).await;
    Ok(HttpResponse::Accepted().json(json!({ "asked": true })))
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
