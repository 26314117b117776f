//! Attempts to deliver to a client.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::path::{client_of, query};
use super::problem::{Problem, ask};
use super::schema::{OfClient, PageLimit, Whole};

/// How long a delivery actor may take to say what it did last: it may be stuck, which is a reason to look here.
const RECENT_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Only attempts with a lower number: `next` of the page before.
    #[param(inline)]
    before: Option<Whole>,
    #[serde(default)]
    #[param(inline)]
    limit: PageLimit,
}

/// An attempt to deliver.
#[derive(ToSchema)]
#[expect(dead_code, reason = "says what domain/attempt writes")]
struct Attempt {
    /// Its number; `null`: it is not kept.
    id: Option<i64>,
    /// When it ended, milliseconds since 1970.
    at_ms: i64,
    /// The `webhook-id`.
    event_id: String,
    /// `<db>.<collection>:<id>`.
    document: String,
    /// 1 for the first attempt at this change.
    attempt: u32,
    #[schema(pattern = "^(delivered|failed)$")]
    outcome: String,
    /// The status, when there was an answer.
    status: Option<u16>,
    /// Why it failed; empty when it did not.
    reason: String,
    latency_ms: u64,
    /// The beginning of the answer's body, without what we sent; when there was no answer, what went wrong.
    answer: String,
}

#[derive(Serialize, ToSchema)]
struct Attempts {
    #[schema(value_type = Vec<Attempt>)]
    attempts: Vec<Value>,
    /// Goes on behind it, as `before`.
    next: Option<i64>,
    /// The last ordinary deliveries, with the first page, when the client is served by this replica.
    #[schema(value_type = Vec<Attempt>)]
    recent: Vec<Value>,
}

/// Attempts that failed and those that followed them, the newest first, a page at a time
///
/// With the first page come the last ordinary deliveries, when the client is served by this replica.
#[utoipa::path(get, path = "/v1/clients/{id}/attempts", params(OfClient, Page), responses((status = 200, body = Attempts)))]
pub(super) async fn list(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    let page: Page = query(&request)?;
    let (before, PageLimit(limit)) = (page.before.map(Whole::get), page.limit);
    let attempts = ask(shared.service.attempts.list(&client, before, limit)).await?;
    let recent = match before {
        None => {
            let recent = (shared.service.recent_deliveries)(client);
            tokio::time::timeout(RECENT_TIMEOUT, recent).await.unwrap_or_default()
        }
        Some(_) => Vec::new(),
    };
    let next = attempts.last().filter(|_| attempts.len() == limit).map(|(id, _)| *id);
    let shown = attempts.iter().map(|(id, attempt)| attempt.to_json(Some(*id))).collect();
    let recent = recent.iter().map(|attempt| attempt.to_json(None)).collect();
    Ok(HttpResponse::Ok().json(Attempts { attempts: shown, next, recent }))
}
