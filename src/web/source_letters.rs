//! Source records that could not be read, in the form in which `POST /v1/events` and `explain` take them.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::access::caller_of;
use super::dead_letters::Source;
use super::path::{FIRST, id, query};
use super::problem::{Problem, ask};
use super::schema::{PageLimit, Whole};
use crate::domain::access::AccessRole;
use crate::domain::change_event::{self, SourceEvent, SourceRecord};
use crate::ports::event_log::{DeadLetter, NewRecord, STASH_REFUSED};

/// A page that holds this many bytes is full, whatever its limit: a record may have 16 MiB.
const PAGE_BYTES: usize = 8 << 20;
/// Letters asked for at a time: what is in memory before a page is known to be full.
const STEP: usize = 4;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Only those behind this id: `next` of the page before.
    #[param(inline)]
    after: Option<Whole>,
    #[serde(default)]
    #[param(inline)]
    limit: PageLimit,
}

/// A source record that could not be read.
#[derive(Serialize, ToSchema)]
struct SourceLetter {
    id: i64,
    #[serde(flatten)]
    position: Source,
    timestamp_ms: i64,
    reason: String,
    /// As `POST /v1/events` takes it; `null`: it is not kept, for it may hold secrets, or the sender may not see payloads.
    #[schema(value_type = Option<Object>)]
    record: Option<Value>,
}

#[derive(Serialize, ToSchema)]
struct SourceLetters {
    dead_letters: Vec<SourceLetter>,
    /// Goes on behind it, as `after`.
    next: Option<i64>,
}

/// Source records that could not be read, by id, a page at a time
#[utoipa::path(get, path = "/v1/dead-letters/source", params(Page), responses((status = 200, body = SourceLetters)))]
pub(super) async fn list(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let page: Page = query(&request)?;
    let PageLimit(limit) = page.limit;
    let with_record = caller_of(&request)?.role == AccessRole::Operator;
    let mut after = page.after.map_or(i64::MIN, Whole::get);
    let (mut shown, mut bytes, mut is_last) = (Vec::new(), 0, false);
    while shown.len() < limit && bytes < PAGE_BYTES && !is_last {
        let step = STEP.min(limit - shown.len());
        let letters = ask(shared.service.log.dead_letters(after, step)).await?;
        is_last = letters.len() < step;
        for (id, letter) in letters {
            after = id;
            bytes += letter.record.as_ref().map_or(0, weight);
            shown.push(view(id, &letter, with_record));
        }
    }
    let next = (!is_last).then_some(after);
    Ok(HttpResponse::Ok().json(SourceLetters { dead_letters: shown, next }))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ForceOld {
    /// Although its image may be older than what receivers have.
    #[serde(default)]
    #[param(required = false)]
    force: bool,
}

#[derive(Serialize, ToSchema)]
struct Redriven {
    /// 1.
    accepted: usize,
    /// Where it stands now.
    position: Option<Source>,
}

/// Hands a record to the source stream once more, when this version can read it
#[utoipa::path(post, path = "/v1/dead-letters/source/{id}/redrive", params(
    ("id" = i64, Path, description = "The id of the dead letter", minimum = 0, maximum = 9223372036854775807_i64), ForceOld,
), responses(
    (status = 202, body = Redriven),
    (status = 404, description = "There is no such dead letter"),
    (status = 409, description = "It cannot be read, or may be older than what receivers have; `reason` says which"),
    (status = 503, description = "No events are taken right now"),
))]
pub(super) async fn redrive(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let broken = || Problem::bad_request("id in the path: must be a number");
    let letter_id: i64 = id(&request, FIRST + 1, "id")?.parse().map_err(|_| broken())?;
    let ForceOld { force } = query(&request)?;
    if !shared.service.readiness.takes_events() {
        return Err(Problem::unavailable("no events are taken right now: the service starts or stops"));
    }
    let found = ask(shared.service.log.dead_letters(letter_id.saturating_sub(1), 1)).await?.pop();
    let Some((_, letter)) = found.filter(|(found, _)| *found == letter_id) else {
        return Err(Problem::new(StatusCode::NOT_FOUND, "there is no such dead letter"));
    };
    let record = readable(&shared, letter).await?;
    if !force {
        let detail = "its image may be older than what receivers have of the document: whether newer changes were read \
                      since cannot be known. With force=true it is read as if it happened now";
        return Err(Problem::new(StatusCode::CONFLICT, detail).with("reason", "may_be_older"));
    }
    let position = ask(shared.service.log.append(vec![record])).await?.pop();
    log::info!("dead letter of the source is read again id={letter_id}");
    let position = position.as_ref().map(Source::from);
    Ok(HttpResponse::Accepted().json(Redriven { accepted: 1, position }))
}

/// The record of a letter, if it is a change now.
async fn readable(shared: &web::Data<Shared>, letter: DeadLetter) -> Result<NewRecord, Problem> {
    let refused =
        |reason: &str, detail: String| Problem::new(StatusCode::CONFLICT, detail).with("reason", reason);
    if letter.reason == STASH_REFUSED {
        return Err(refused(
            "no_source_record",
            "it is a payload that the stash refused, no source record".into(),
        ));
    }
    let Some(record) = letter.record else {
        return Err(refused(
            "not_kept",
            "the record itself was not kept: it was too large, or may hold secrets".into(),
        ));
    };
    let (state, position, timestamp_ms) = (shared.clone(), letter.position, letter.timestamp_ms);
    let NewRecord { key, value, headers, .. } = record.clone();
    let source = SourceRecord { position, timestamp_ms, key, value, headers };
    // On a thread that may be blocked, and may panic.
    let event = web::block(move || change_event::read(&source, &state.service.source_names)).await;
    match event {
        Ok(SourceEvent::Change(_)) => Ok(record),
        Ok(SourceEvent::Invalid(_, why)) => {
            Err(refused("invalid", format!("it still cannot be read: {why}")))
        }
        Ok(SourceEvent::Tombstone(_)) => {
            Err(refused("tombstone", "it is a tombstone: nothing would come of it".into()))
        }
        Ok(SourceEvent::Skip(_, why)) => {
            Err(refused("skipped", format!("it would be skipped: {}", why.as_str())))
        }
        Err(_) => Err(refused("invalid", "it still cannot be read: reading it panicked".into())),
    }
}

fn weight(record: &NewRecord) -> usize {
    let length = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    length(&record.key) + length(&record.value)
}

fn view(id: i64, letter: &DeadLetter, with_record: bool) -> SourceLetter {
    SourceLetter {
        id,
        position: (&letter.position).into(),
        timestamp_ms: letter.timestamp_ms,
        reason: letter.reason.to_string(),
        record: letter.record.as_ref().filter(|_| with_record).map(intake_form),
    }
}

/// Bytes that are no text come as base64. Header values that are no text lose what cannot be shown.
fn intake_form(record: &NewRecord) -> Value {
    let mut form = Map::new();
    form.insert("topic".into(), (*record.topic).into());
    for (name, bytes) in [("key", &record.key), ("value", &record.value)] {
        match bytes.as_ref().map(|bytes| std::str::from_utf8(bytes).map_err(|_| bytes)) {
            None => form.insert(name.into(), Value::Null),
            Some(Ok(text)) => form.insert(name.into(), text.into()),
            Some(Err(bytes)) => {
                form.insert(format!("{name}_base64"), data_encoding::BASE64.encode(bytes).into())
            }
        };
    }
    let headers = record.headers.iter();
    let headers = headers.map(|(name, value)| (name.clone(), String::from_utf8_lossy(value).into()));
    form.insert("headers".into(), Value::Object(headers.collect()));
    Value::Object(form)
}
