//! Payloads that were given up: listed, shown, deleted.

use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use super::path::{FIRST, id, query};
use super::problem::{Problem, ask};
use crate::domain::config::ClientId;
use crate::domain::dead_row::{ByAge, DeadRow, DeadRowPlace, DeadRowQuery, GivenUp};
use crate::domain::transfer::EventId;

const DEFAULT_PAGE: usize = 100;
const LARGEST_PAGE: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    client: Option<String>,
    state: Option<State>,
    order: Option<Order>,
    from_ms: Option<i64>,
    to_ms: Option<i64>,
    after: Option<String>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Dead,
    Superseded,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    Newest,
    Oldest,
}

/// A page, by the time of the first failure.
pub(super) async fn list(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let page: Page = query(&request)?;
    let limit = page.limit.unwrap_or(DEFAULT_PAGE).clamp(1, LARGEST_PAGE);
    let rows = DeadRowQuery {
        client: page.client.as_deref().map(ClientId::new),
        kind: match page.state {
            None | Some(State::Dead) => GivenUp::Dead,
            Some(State::Superseded) => GivenUp::Superseded,
        },
        from_ms: page.from_ms.unwrap_or(i64::MIN),
        until_ms: page.to_ms.unwrap_or(i64::MAX),
        after: page.after.as_deref().map(cursor).transpose()?,
        order: match page.order {
            None | Some(Order::Newest) => ByAge::NewestFirst,
            Some(Order::Oldest) => ByAge::OldestFirst,
        },
        limit,
    };
    let rows = ask(shared.service.stash.dead_rows(rows)).await?;
    let next = rows.last().filter(|_| rows.len() == limit).map(|last| last.place().to_string());
    let shown: Vec<_> = rows.iter().map(view).collect();
    Ok(HttpResponse::Ok().json(json!({ "dead_letters": shown, "next": next })))
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WithBody {
    #[serde(default)]
    body: bool,
}

/// One, with its payload only when that is asked for.
pub(super) async fn get(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let (client, event) = letter_of(&request)?;
    let WithBody { body } = query(&request)?;
    let stash = &shared.service.stash;
    let row = ask(stash.dead_row(&client, &event)).await?.ok_or_else(unknown)?;
    let mut shown = view(&row);
    if body {
        let payload = ask(stash.dead_payload(&client, &event)).await?.ok_or_else(unknown)?;
        // As text: as JSON its numbers would not stay as they are written.
        match std::str::from_utf8(&payload.body) {
            Ok(text) => shown["body"] = text.into(),
            Err(_) => shown["body_base64"] = data_encoding::BASE64.encode(&payload.body).into(),
        }
    }
    Ok(HttpResponse::Ok().json(shown))
}

/// Deletes one for good.
pub(super) async fn delete(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let (client, event) = letter_of(&request)?;
    if !ask(shared.service.stash.delete_dead(&client, &event)).await? {
        return Err(unknown());
    }
    log::info!("dead letter is deleted event={event} client={client}");
    Ok(HttpResponse::NoContent().finish())
}

fn view(row: &DeadRow) -> Value {
    json!({
        "client": row.client.as_str(),
        "event_id": row.event_id.as_str(),
        "document": &*row.document,
        "state": row.kind.state().as_str(),
        "sequence": row.sequence.to_string(),
        "source": {
            "topic": &*row.source.topic,
            "partition": row.source.partition,
            "offset": row.source.offset,
        },
        "ts_ms": row.ts_ms,
        "bytes": row.bytes,
        "attempts": row.attempts,
        "payload_failures": row.payload_failures,
        "first_failed_at_ms": row.first_failed_at_ms,
        "last_failed_at_ms": row.last_failed_at_ms,
        "reason": row.reason,
        "status": row.status,
    })
}
