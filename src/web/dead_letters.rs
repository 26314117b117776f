//! Payloads that were given up: listed, shown, deleted.

use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::access::may_see_payloads;
use super::path::{FIRST, id, query};
use super::problem::{Problem, ask};
use super::schema::{OfEvent, PageLimit, Whole};
use crate::domain::config::ClientId;
use crate::domain::dead_row::{ByAge, DeadRow, DeadRowPlace, DeadRowQuery, GivenUp};
use crate::domain::transfer::{EventId, SourcePosition};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Only this client's.
    client: Option<String>,
    /// Dead ones, unless something else is said.
    #[param(inline)]
    state: Option<GivenUpState>,
    /// By the first failure: the newest first, unless something else is said.
    #[param(inline)]
    order: Option<AgeOrder>,
    /// First failed at or after this, milliseconds since 1970.
    #[param(inline)]
    from_ms: Option<Whole>,
    /// First failed before this.
    #[param(inline)]
    to_ms: Option<Whole>,
    /// Only those behind this: `next` of the page before.
    #[param(inline, value_type = Option<Cursor>)]
    after: Option<String>,
    #[serde(default)]
    #[param(inline)]
    limit: PageLimit,
}

/// A cursor: `<first failure>-<incarnation>-<partition>-<offset>`.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^-?[0-9]{1,18}-[0-9]{1,9}-[0-9]{1,9}-[0-9]{1,18}$")]
#[expect(dead_code, reason = "for the document")]
pub(super) struct Cursor(String);

/// Given up, and: can be replayed, or was overtaken by a newer change.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum GivenUpState {
    Dead,
    Superseded,
}

impl From<GivenUpState> for GivenUp {
    fn from(state: GivenUpState) -> Self {
        match state {
            GivenUpState::Dead => Self::Dead,
            GivenUpState::Superseded => Self::Superseded,
        }
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum AgeOrder {
    Newest,
    Oldest,
}

/// Where a source record stands.
#[derive(Serialize, ToSchema)]
pub(super) struct Source {
    topic: String,
    partition: i32,
    offset: i64,
}

impl From<&SourcePosition> for Source {
    fn from(position: &SourcePosition) -> Self {
        let SourcePosition { topic, partition, offset } = position;
        Self { topic: topic.to_string(), partition: *partition, offset: *offset }
    }
}

/// A payload that was given up.
#[derive(Serialize, ToSchema)]
struct DeadLetter {
    client: String,
    /// The `webhook-id`.
    event_id: String,
    /// `<db>.<collection>:<id>`.
    document: String,
    #[schema(pattern = "^(dead|superseded)$")]
    state: &'static str,
    /// `<incarnation>-<partition>-<offset>`.
    sequence: String,
    source: Source,
    /// When the change happened, milliseconds since 1970.
    ts_ms: i64,
    /// What it counts for: the body, and what a row costs beside it.
    bytes: u64,
    attempts: u32,
    /// Attempts that failed by the payload's own fault.
    payload_failures: u32,
    first_failed_at_ms: i64,
    last_failed_at_ms: Option<i64>,
    /// Why the last attempt failed, or why it was given up unsent.
    reason: Option<String>,
    /// The HTTP status of the last attempt.
    status: Option<u16>,
    #[serde(flatten)]
    payload: Option<Payload>,
}

/// The webhook body, byte for byte: as text, or as base64 where it is none. As JSON its numbers would not stay as they are written.
#[derive(Serialize, ToSchema)]
pub(super) struct Payload {
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

impl Payload {
    pub(super) fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self { body: Some(text.to_owned()), body_base64: None },
            Err(_) => Self { body: None, body_base64: Some(data_encoding::BASE64.encode(bytes)) },
        }
    }
}

#[derive(Serialize, ToSchema)]
struct DeadLetters {
    dead_letters: Vec<DeadLetter>,
    /// Goes on behind it, as `after`.
    next: Option<String>,
}

/// Payloads that were given up, by the time of the first failure, a page at a time
#[utoipa::path(get, path = "/v1/dead-letters", params(Page), responses((status = 200, body = DeadLetters)))]
pub(super) async fn list(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let page: Page = query(&request)?;
    let PageLimit(limit) = page.limit;
    let rows = DeadRowQuery {
        client: page.client.as_deref().map(ClientId::new),
        kind: page.state.map_or(GivenUp::Dead, GivenUp::from),
        from_ms: page.from_ms.map_or(i64::MIN, Whole::get),
        until_ms: page.to_ms.map_or(i64::MAX, Whole::get),
        after: page.after.as_deref().map(cursor).transpose()?,
        order: match page.order {
            None | Some(AgeOrder::Newest) => ByAge::NewestFirst,
            Some(AgeOrder::Oldest) => ByAge::OldestFirst,
        },
        limit,
    };
    let rows = ask(shared.service.stash.dead_rows(rows)).await?;
    let next = rows.last().filter(|_| rows.len() == limit).map(|last| last.place().to_string());
    let dead_letters = rows.iter().map(view).collect();
    Ok(HttpResponse::Ok().json(DeadLetters { dead_letters, next }))
}

/// Reads a cursor of an earlier page.
pub(super) fn cursor(text: &str) -> Result<DeadRowPlace, Problem> {
    text.parse().map_err(|err| Problem::bad_request(format!("after: {err}")))
}

/// The client and the event of a path, `/v1/dead-letters/<client>/<event>`.
pub(super) fn letter_of(request: &HttpRequest) -> Result<(ClientId, EventId), Problem> {
    let client = ClientId::new(&id(request, FIRST, "client id")?);
    Ok((client, EventId::from_stored(&id(request, FIRST + 1, "event id")?)))
}

/// There is no such dead letter.
pub(super) fn unknown() -> Problem {
    Problem::new(
        actix_web::http::StatusCode::NOT_FOUND,
        "there is no such dead letter: it may wait, be delivered, or be purged",
    )
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WithBody {
    /// With the payload, which only operators see.
    #[serde(default)]
    #[param(required = false)]
    pub(super) body: bool,
}

/// One payload that was given up
#[utoipa::path(get, path = "/v1/dead-letters/{client}/{event}", params(OfEvent, WithBody), responses(
    (status = 200, body = DeadLetter),
    (status = 404, description = "There is no such dead letter"),
))]
pub(super) async fn get(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let (client, event) = letter_of(&request)?;
    let WithBody { body } = query(&request)?;
    if body {
        may_see_payloads(&shared, &request).await?;
    }
    let stash = &shared.service.stash;
    let row = ask(stash.dead_row(&client, &event)).await?.ok_or_else(unknown)?;
    let mut shown = view(&row);
    if body {
        let payload = ask(stash.dead_payload(&client, &event)).await?.ok_or_else(unknown)?;
        shown.payload = Some(Payload::of(&payload.body));
    }
    Ok(HttpResponse::Ok().json(shown))
}

/// Deletes a payload that was given up, for good
#[utoipa::path(delete, path = "/v1/dead-letters/{client}/{event}", params(OfEvent), responses(
    (status = 204, description = "It is gone"),
    (status = 404, description = "There is no such dead letter"),
))]
pub(super) async fn delete(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let (client, event) = letter_of(&request)?;
    if !ask(shared.service.stash.delete_dead(&client, &event)).await? {
        return Err(unknown());
    }
    log::info!("dead letter is deleted event={event} client={client}");
    Ok(HttpResponse::NoContent().finish())
}

fn view(row: &DeadRow) -> DeadLetter {
    DeadLetter {
        client: row.client.as_str().to_owned(),
        event_id: row.event_id.as_str().to_owned(),
        document: row.document.to_string(),
        state: row.kind.state().as_str(),
        sequence: row.sequence.to_string(),
        source: (&row.source).into(),
        ts_ms: row.ts_ms,
        bytes: row.bytes,
        attempts: row.attempts,
        payload_failures: row.payload_failures,
        first_failed_at_ms: row.first_failed_at_ms,
        last_failed_at_ms: row.last_failed_at_ms,
        reason: row.reason.clone(),
        status: row.status,
        payload: None,
    }
}
