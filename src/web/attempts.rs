//! Attempts to deliver to a client.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::json;

use super::Shared;
use super::path::{client_of, query};
use super::problem::{Problem, ask};
use crate::ports::attempts::LARGEST_ATTEMPT_PAGE;

const DEFAULT_PAGE: usize = 100;

/// How long a delivery actor may take to say what it did last: it may be stuck, which is a reason to look here.
const RECENT_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    before: Option<i64>,
    limit: Option<usize>,
}

/// Attempts that failed and those that followed them, the newest first, a page at a time. With the first page come the last ordinary deliveries, when
/// the client is served by this replica.
pub(super) async fn list(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    let page: Page = query(&request)?;
    let limit = page.limit.unwrap_or(DEFAULT_PAGE).clamp(1, LARGEST_ATTEMPT_PAGE);
    let attempts = ask(shared.service.attempts.list(&client, page.before, limit)).await?;
    let recent = match page.before {
        None => {
            let recent = (shared.service.recent_deliveries)(client);
            tokio::time::timeout(RECENT_TIMEOUT, recent).await.unwrap_or_default()
        }
        Some(_) => Vec::new(),
    };
    let next = attempts.last().filter(|_| attempts.len() == limit).map(|(id, _)| *id);
    let shown: Vec<_> = attempts.iter().map(|(id, attempt)| attempt.to_json(Some(*id))).collect();
    let recent: Vec<_> = recent.iter().map(|attempt| attempt.to_json(None)).collect();
    Ok(HttpResponse::Ok().json(json!({ "attempts": shown, "next": next, "recent": recent })))
}
