//! Owners whose work is not done.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};

use super::path::{owner_of, query};
use super::problem::{Problem, ask};
use super::{Shared, decisions};
use crate::domain::decision::DecisionKind::BlockedOwner;

const DEFAULT_PAGE: usize = 100;
const LARGEST_PAGE: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    after: Option<String>,
    limit: Option<usize>,
}

/// All of them by id, a page at a time.
pub(super) async fn list(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let page: Page = query(&request)?;
    let limit = page.limit.unwrap_or(DEFAULT_PAGE).clamp(1, LARGEST_PAGE);
    let mut blocked = ask(shared.service.decisions.list(BlockedOwner)).await?;
    blocked.sort_by(|one, other| one.subject().cmp(other.subject()));
    let after = page.after.as_deref();
    let mut rest =
        blocked.iter().filter(|decision| after.is_none_or(|after| decision.subject().as_str() > after));
    let shown: Vec<Value> = rest.by_ref().take(limit).map(decisions::block).collect();
    let next = rest.next().and_then(|_| shown.last().map(|last| last["owner"].clone()));
    Ok(HttpResponse::Ok().json(json!({ "blocked_owners": shown, "next": next })))
}

/// Blocks an owner.
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
    Ok(HttpResponse::build(code).json(decisions::block(&decision)))
}

/// Lets an owner go on.
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
