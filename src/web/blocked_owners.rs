//! Owners whose work is not done.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::decisions::{Block, Said};
use super::path::{owner_of, query};
use super::problem::{Problem, ask};
use super::schema::{OfOwner, PageLimit};
use super::{Shared, decisions};
use crate::domain::decision::{Decision, DecisionKind::BlockedOwner};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Only owners behind this one: `next` of the page before.
    after: Option<String>,
    #[serde(default)]
    #[param(inline)]
    limit: PageLimit,
}

#[derive(Serialize, ToSchema)]
struct BlockedOwners {
    blocked_owners: Vec<Block>,
    /// Goes on behind it, as `after`.
    next: Option<String>,
}

/// Owners whose work is not done, by id, a page at a time
#[utoipa::path(get, path = "/v1/blocked-owners", params(Page), responses((status = 200, body = BlockedOwners)))]
pub(super) async fn list(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let page: Page = query(&request)?;
    let PageLimit(limit) = page.limit;
    let mut blocked = ask(shared.service.decisions.list(BlockedOwner)).await?;
    blocked.sort_by(|one, other| one.subject().cmp(other.subject()));
    let after = page.after.as_deref();
    let mut rest =
        blocked.iter().filter(|decision| after.is_none_or(|after| decision.subject().as_str() > after));
    let shown: Vec<&Decision> = rest.by_ref().take(limit).collect();
    let next = rest.next().and_then(|_| shown.last().map(|last| last.subject().as_str().to_owned()));
    let blocked_owners = shown.into_iter().map(Block::from).collect();
    Ok(HttpResponse::Ok().json(BlockedOwners { blocked_owners, next }))
}

/// Blocks an owner: his clients get nothing, his jobs are not done
#[utoipa::path(put, path = "/v1/blocked-owners/{owner}", params(OfOwner), request_body = Option<Said>, responses(
    (status = 200, body = Block, description = "It is in use"),
    (status = 202, body = Block, description = "It is kept, and in use soon"),
))]
pub(super) async fn put(
    request: HttpRequest,
    payload: web::Payload,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let service = &shared.service;
    let decision = decisions::read(&request, payload, owner_of(&request)?, service.clock.now_ms()).await?;
    let decision = ask(service.decisions.put(BlockedOwner, decision)).await?;
    log::info!("owner is blocked by={} owner={}", decision.by(), decision.subject());
    let code = if decisions::are_in_use(&shared).await { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(HttpResponse::build(code).json(Block::from(&decision)))
}

/// Lets an owner go on
#[utoipa::path(delete, path = "/v1/blocked-owners/{owner}", params(OfOwner), responses(
    (status = 204, description = "It is in use"),
    (status = 202, description = "It is kept, and in use soon"),
    (status = 404, description = "This owner is not blocked"),
))]
pub(super) async fn delete(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let owner = owner_of(&request)?;
    if !ask(shared.service.decisions.remove(BlockedOwner, &owner)).await? {
        return Err(Problem::new(StatusCode::NOT_FOUND, "this owner is not blocked"));
    }
    log::info!("owner is not blocked any more owner={owner}");
    let code =
        if decisions::are_in_use(&shared).await { StatusCode::NO_CONTENT } else { StatusCode::ACCEPTED };
    Ok(HttpResponse::build(code).finish())
}
