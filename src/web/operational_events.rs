//! What happened that the operator wants to know of.

use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::path::query;
use super::problem::{Problem, ask};
use super::schema::{EventType, Order, PageLimit, Whole};
use crate::domain::config::ClientId;
use crate::domain::operational_event::{Happening, NumberedEvent};
use crate::ports::operational_events::{EventOrder, EventPage};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Only this client's.
    client: Option<String>,
    /// Only those of this type.
    #[serde(rename = "type")]
    #[param(inline, rename = "type", value_type = Option<EventType>)]
    happening: Option<Happening>,
    /// Only those behind this number in the order of the list: `next` of the page before.
    #[param(inline)]
    after: Option<Whole>,
    #[serde(default)]
    #[param(inline)]
    limit: PageLimit,
    /// The oldest first, unless something else is said.
    #[param(inline, value_type = Option<Order>)]
    order: Option<EventOrder>,
}

/// Something that happened.
#[derive(ToSchema)]
#[expect(dead_code, reason = "says what domain/operational_event writes")]
struct OperationalEvent {
    /// Rises with each event.
    id: i64,
    /// What happened.
    #[schema(rename = "type", value_type = EventType)]
    kind: String,
    /// When, milliseconds since 1970.
    at_ms: i64,
    /// To whom; `null`: to the service.
    client: Option<String>,
    reason: String,
    /// What else is known, by the type.
    #[schema(value_type = Object)]
    details: Value,
}

#[derive(Serialize, ToSchema)]
struct OperationalEvents {
    #[schema(value_type = Vec<OperationalEvent>)]
    events: Vec<Value>,
    /// Goes on behind it, as `after`.
    next: Option<i64>,
}

/// What happened that operators want to know of, by number, a page at a time
#[utoipa::path(get, path = "/v1/operational-events", params(Page), responses((status = 200, body = OperationalEvents)))]
pub(super) async fn list(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let page: Page = query(&request)?;
    let PageLimit(limit) = page.limit;
    let asked = EventPage {
        after: page.after.map(Whole::get),
        client: page.client.as_deref().map(ClientId::new),
        happening: page.happening,
        order: page.order.unwrap_or_default(),
        limit,
    };
    let events = ask(shared.service.operational_events.list(asked)).await?;
    let next = events.last().filter(|_| events.len() == limit).map(|last| last.id);
    let shown = events.iter().map(NumberedEvent::to_json).collect();
    Ok(HttpResponse::Ok().json(OperationalEvents { events: shown, next }))
}
