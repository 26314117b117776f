//! Replays of payloads that were given up. A replay goes into the transfer log, and the owner of the client takes it from there.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::json;

use super::dead_letters::{cursor, letter_of, unknown};
use super::path::{client_of, query};
use super::problem::{Problem, ask};
use super::{Shared, body};
use crate::domain::config::ClientId;
use crate::domain::dead_row::{ByAge, DeadRowQuery, GivenUp, Refusal, may_come_back};
use crate::domain::transfer::{NewTransfer, TransferKind};
use crate::workers::heavy::replay::replay_page;

/// Bytes of a request that names a range.
const RANGE_BYTES: usize = 4 << 10;
const DEFAULT_PART: usize = 100;
const LARGEST_PART: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Force {
    #[serde(default)]
    force: bool,
}

/// Replays one.
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
    Ok(HttpResponse::Accepted().json(json!({ "replayed": 1 })))
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

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Range {
    from_ms: Option<i64>,
    to_ms: Option<i64>,
    after: Option<String>,
    limit: Option<usize>,
}

/// Replays a part of what is dead of a client, first failed within a time: the oldest first. The next part goes on after it.
pub(super) async fn of_client(
    request: HttpRequest,
    payload: web::Payload,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    let text = body::read(&request, payload, RANGE_BYTES).await?;
    let range: Range = match &text[..] {
        b"" => Range::default(),
        text => serde_json::from_slice(text).map_err(|err| {
            Problem::bad_request(format!("expected {{\"from_ms\", \"to_ms\", \"after\", \"limit\"}}: {err}"))
        })?,
    };
    can_be_sent_to(&shared, &client).await?;
    let limit = range.limit.unwrap_or(DEFAULT_PART).clamp(1, LARGEST_PART);
    let rows = DeadRowQuery {
        client: Some(client.clone()),
        kind: GivenUp::Dead,
        from_ms: range.from_ms.unwrap_or(i64::MIN),
        until_ms: range.to_ms.unwrap_or(i64::MAX),
        after: range.after.as_deref().map(cursor).transpose()?,
        order: ByAge::OldestFirst,
        limit,
    };
    let service = &shared.service;
    let page = ask(replay_page(&*service.stash, &*service.log, &client, rows, false)).await?;
    log::info!("dead letters are replayed count={} client={client}", page.replayed);
    Ok(HttpResponse::Accepted()
        .json(json!({ "replayed": page.replayed, "refused": page.refused, "next": page.next })))
}
