//! Replays of payloads that were given up. A replay goes into the transfer log, and the owner of the client takes it from there.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::dead_letters::{Cursor, cursor, letter_of, unknown};
use super::path::{client_of, query};
use super::problem::{Problem, ask};
use super::schema::{OfClient, OfEvent, PartLimit, Whole};
use super::{Shared, body};
use crate::domain::config::ClientId;
use crate::domain::dead_row::{ByAge, DeadRowQuery, GivenUp, Refusal, may_come_back};
use crate::domain::transfer::{NewTransfer, TransferKind};
use crate::workers::heavy::replay::{ReplayedPage, replay_page};

/// Bytes of a request that names a range.
const RANGE_BYTES: usize = 4 << 10;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Force {
    /// Although the receiver has, or will get, something newer: going back is wanted.
    #[serde(default)]
    #[param(required = false)]
    force: bool,
}

#[derive(Serialize, ToSchema)]
struct Replayed {
    /// How many go out again.
    replayed: usize,
}

/// Sends a payload that was given up again
#[utoipa::path(post, path = "/v1/dead-letters/{client}/{event}/replay", params(OfEvent, Force), responses(
    (status = 202, body = Replayed),
    (status = 404, description = "There is no such dead letter"),
    (status = 409, description = "The receiver would go back, or nothing can be sent to it; `reason` says which"),
))]
pub(super) async fn one(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let (client, event) = letter_of(&request)?;
    let Force { force } = query(&request)?;
    can_be_sent_to(&shared, &client).await?;
    let stash = &shared.service.stash;
    let known = ask(stash.check(&client, Vec::new(), vec![event.clone()])).await?;
    match may_come_back(known.stashed.get(&event).copied(), force) {
        Ok(()) => {}
        Err(Refusal::Gone) => return Err(unknown()),
        Err(refusal) => return Err(refused(refusal)),
    }
    let kind = if force { TransferKind::ForcedReplay } else { TransferKind::Replay };
    let payload = ask(stash.dead_payload(&client, &event)).await?.ok_or_else(unknown)?;
    ask(shared.service.log.append_transfers(vec![NewTransfer { kind, ..payload }])).await?;
    log::info!("dead letter is replayed forced={force} event={event} client={client}");
    Ok(HttpResponse::Accepted().json(Replayed { replayed: 1 }))
}

fn refused(refusal: Refusal) -> Problem {
    Problem::new(StatusCode::CONFLICT, refusal.explanation()).with("reason", refusal.as_str())
}

/// What waits for a client that is gone is given up again at once.
async fn can_be_sent_to(shared: &Shared, client: &ClientId) -> Result<(), Problem> {
    let config = ask(shared.service.configs.get(client)).await?;
    if config.is_some_and(|stored| !stored.config.deleted) {
        return Ok(());
    }
    let detail = "the client has no config: nothing can be sent to it";
    Err(Problem::new(StatusCode::CONFLICT, detail).with("reason", "client_gone"))
}

/// Which part of what is dead. The body may be left out.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
struct Range {
    /// First failed at or after this, milliseconds since 1970.
    #[schema(inline)]
    from_ms: Option<Whole>,
    /// First failed before this.
    #[schema(inline)]
    to_ms: Option<Whole>,
    /// Only those behind this: `next` of the part before.
    #[schema(value_type = Option<Cursor>)]
    after: Option<String>,
    #[schema(inline)]
    limit: PartLimit,
}

#[derive(Serialize, ToSchema)]
struct ReplayedPart {
    /// How many go out again.
    replayed: usize,
    /// How many do not, by reason.
    refused: BTreeMap<&'static str, usize>,
    /// The next part goes on behind it, as `after`.
    next: Option<String>,
}

/// Sends a part of what is dead of a client again, the oldest first
#[utoipa::path(post, path = "/v1/clients/{id}/dead-letters/replay", params(OfClient), request_body = Option<Range>, responses(
    (status = 202, body = ReplayedPart),
    (status = 409, description = "Nothing can be sent to the client"),
))]
pub(super) async fn of_client(
    request: HttpRequest,
    payload: web::Payload,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    let expected = r#"{"from_ms", "to_ms", "after", "limit"}"#;
    let range: Option<Range> = body::object(&request, payload, RANGE_BYTES, expected).await?;
    let range = range.unwrap_or_default();
    can_be_sent_to(&shared, &client).await?;
    let PartLimit(limit) = range.limit;
    let rows = DeadRowQuery {
        client: Some(client.clone()),
        kind: GivenUp::Dead,
        from_ms: range.from_ms.map_or(i64::MIN, Whole::get),
        until_ms: range.to_ms.map_or(i64::MAX, Whole::get),
        after: range.after.as_deref().map(cursor).transpose()?,
        order: ByAge::OldestFirst,
        limit,
    };
    let service = &shared.service;
    let page = ask(replay_page(&*service.stash, &*service.log, &client, rows, false)).await?;
    log::info!("dead letters are replayed count={} client={client}", page.replayed);
    let ReplayedPage { replayed, refused, next } = page;
    Ok(HttpResponse::Accepted().json(ReplayedPart { replayed, refused, next }))
}
