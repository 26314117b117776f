//! What happened that the operator wants to know of.

use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::json;

use super::Shared;
use super::path::query;
use super::problem::{Problem, ask};
use crate::domain::config::ClientId;
use crate::domain::operational_event::NumberedEvent;
use crate::ports::operational_events::{EventOrder, EventPage, LARGEST_EVENT_PAGE};

const DEFAULT_PAGE: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    client: Option<String>,
    after: Option<i64>,
    limit: Option<usize>,
    order: Option<EventOrder>,
}

/// Events by number, a page at a time; `after` counts in the order of the list.
pub(super) async fn list(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let page: Page = query(&request)?;
    let limit = page.limit.unwrap_or(DEFAULT_PAGE).clamp(1, LARGEST_EVENT_PAGE);
    let asked = EventPage {
        after: page.after,
        client: page.client.as_deref().map(ClientId::new),
        order: page.order.unwrap_or_default(),
        limit,
    };
    let events = ask(shared.service.operational_events.list(asked)).await?;
    let next = events.last().filter(|_| events.len() == limit).map(|last| last.id);
    let shown: Vec<_> = events.iter().map(NumberedEvent::to_json).collect();
    Ok(HttpResponse::Ok().json(json!({ "events": shown, "next": next })))
}
