//! The rows of a client in the stash: what waits, what was given up, and the payloads.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::access::may_see_payloads;
use super::dead_letters::{GivenUpState, Payload, Source, WithBody};
use super::path::{FIRST, SECOND, client_of, id, query};
use super::problem::{Problem, ask};
use super::schema::{self, OfClient, OfRow, PageLimit, PurgeLimit, Whole};
use super::{Shared, body};
use crate::domain::config::ClientId;
use crate::domain::dead_row::GivenUp;
use crate::domain::stash::RowState;
use crate::domain::stash_view::{RowQuery, RowView, named_document};
use crate::domain::transfer::{EventId, Sequence};

/// Bytes of a request that purges.
const PURGE_BYTES: usize = 4 << 10;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Only rows in this state.
    #[param(inline, value_type = Option<schema::RowState>)]
    state: Option<String>,
    /// Only rows of this document, `<db>.<collection>:<id>` as the rows name it.
    #[param(pattern = r"^[^.:]+\.[^:]+:")]
    document: Option<String>,
    /// Only rows behind this place: `next` of the page before.
    #[param(pattern = "^[0-9]{1,9}-[0-9]{1,9}-[0-9]{1,18}$")]
    after: Option<String>,
    #[serde(default)]
    #[param(inline)]
    limit: PageLimit,
}

/// A row of the stash.
#[derive(Serialize, ToSchema)]
pub(super) struct StashRow {
    client: String,
    /// The `webhook-id`.
    event_id: String,
    /// `<db>.<collection>:<id>`.
    document: String,
    #[schema(value_type = schema::RowState)]
    state: &'static str,
    /// What brought it into the log: live, replay, forced-replay, resync.
    kind: &'static str,
    /// `<incarnation>-<partition>-<offset>`.
    sequence: String,
    source: Source,
    /// When the change happened, milliseconds since 1970.
    ts_ms: i64,
    /// What it counts for: the body, and what a row costs beside it.
    bytes: u64,
    /// When it came into the stash.
    stashed_at_ms: i64,
    attempts: u32,
    /// Attempts that failed by the payload's own fault.
    payload_failures: u32,
    /// No attempt before; 0: at once.
    next_attempt_at_ms: i64,
    first_failed_at_ms: Option<i64>,
    last_failed_at_ms: Option<i64>,
    /// Why the last attempt failed, or why it was given up unsent.
    reason: Option<String>,
    /// The HTTP status of the last attempt.
    status: Option<u16>,
    #[serde(flatten)]
    pub(super) payload: Option<Payload>,
}

#[derive(Serialize, ToSchema)]
struct StashRows {
    rows: Vec<StashRow>,
    /// Goes on behind it, as `after`.
    next: Option<String>,
}

/// The rows of a client in the order in which they are delivered, a page at a time
#[utoipa::path(get, path = "/v1/clients/{id}/stash", params(OfClient, Page), responses((status = 200, body = StashRows)))]
pub(super) async fn list(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    let Page { state, document, after, limit: PageLimit(limit) } = query(&request)?;
    let state = state.map(|text| text.parse::<RowState>()).transpose();
    let document = document.map(|text| named_document(&text).ok_or("must be <db>.<collection>:<id>"));
    let after = after.map(|text| text.parse::<Sequence>()).transpose();
    let asked = RowQuery {
        client: client.clone(),
        state: state.map_err(|err| Problem::bad_request(format!("query: state: {err}")))?,
        document: document
            .transpose()
            .map_err(|err| Problem::bad_request(format!("query: document: {err}")))?,
        after: after.map_err(|err| Problem::bad_request(format!("query: after: {err}")))?,
        limit,
    };
    let rows = ask(shared.service.stash_rows.rows(asked)).await?;
    let next = rows.last().filter(|_| rows.len() == limit).map(|last| last.sequence.to_string());
    let rows = rows.iter().map(|row| view(&client, row)).collect();
    Ok(HttpResponse::Ok().json(StashRows { rows, next }))
}

/// One row of a client
#[utoipa::path(get, path = "/v1/clients/{id}/stash/{event}", params(OfRow, WithBody), responses(
    (status = 200, body = StashRow),
    (status = 404, description = "There is no such row"),
))]
pub(super) async fn get(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let client = ClientId::new(&id(&request, FIRST, "client id")?);
    let event = EventId::from_stored(&id(&request, SECOND, "event id")?);
    let WithBody { body } = query(&request)?;
    let unknown = || {
        Problem::new(
            StatusCode::NOT_FOUND,
            "there is no such row: it was delivered, purged, or never stashed",
        )
    };
    if body {
        may_see_payloads(&shared, &request).await?;
    }
    let rows = &shared.service.stash_rows;
    let row = ask(rows.row(&client, &event)).await?.ok_or_else(unknown)?;
    let mut shown = view(&client, &row);
    if body {
        shown.payload = Some(Payload::of(&ask(rows.body(&client, &event)).await?.ok_or_else(unknown)?));
    }
    Ok(HttpResponse::Ok().json(shown))
}

pub(super) fn view(client: &ClientId, row: &RowView) -> StashRow {
    StashRow {
        client: client.as_str().to_owned(),
        event_id: row.event_id.as_str().to_owned(),
        document: row.document.to_string(),
        state: row.state.as_str(),
        kind: row.kind.as_str(),
        sequence: row.sequence.to_string(),
        source: (&row.source).into(),
        ts_ms: row.ts_ms,
        bytes: row.bytes,
        stashed_at_ms: row.stashed_at_ms,
        attempts: row.attempts,
        payload_failures: row.payload_failures,
        next_attempt_at_ms: row.next_attempt_at_ms,
        first_failed_at_ms: row.first_failed_at_ms,
        last_failed_at_ms: row.last_failed_at_ms,
        reason: row.reason.clone(),
        status: row.status,
        payload: None,
    }
}

/// What is to be purged.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Purge {
    state: GivenUpState,
    /// Only rows that first failed before this, milliseconds since 1970. All, when it is left out.
    #[schema(inline)]
    before_ms: Option<Whole>,
    #[serde(default)]
    #[schema(inline)]
    limit: PurgeLimit,
}

#[derive(Serialize, ToSchema)]
struct Purged {
    /// How many rows went.
    purged: u64,
    /// Whether there may be more of them: the limit was reached.
    more: bool,
}

/// Removes payloads of a client that were given up, for good: those that failed first
///
/// What waits to be delivered is owed, and never purged: switch the client off, or delete it.
#[utoipa::path(post, path = "/v1/clients/{id}/purge", params(OfClient), request_body = Purge, responses(
    (status = 200, body = Purged),
))]
pub(super) async fn purge(
    request: HttpRequest,
    payload: web::Payload,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    let expected = r#"{"state", "before_ms", "limit"}"#;
    let Purge { state, before_ms, limit: PurgeLimit(limit) } =
        body::needed_object(&request, payload, PURGE_BYTES, expected).await?;
    let (kind, until_ms) = (GivenUp::from(state), before_ms.map_or(i64::MAX, Whole::get));
    let purged = ask(shared.service.stash_rows.purge_given_up(&client, kind, until_ms, limit)).await?;
    log::info!("an operator purged rows count={purged} client={client}");
    Ok(HttpResponse::Ok().json(Purged { purged, more: purged == limit as u64 }))
}
