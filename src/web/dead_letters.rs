//! Source records that could not be read, in the form in which `POST /v1/events` and `explain` take them.

use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Shared;
use super::path::query;
use super::problem::{Problem, ask};
use crate::ports::event_log::{DeadLetter, NewRecord};

const DEFAULT_PAGE: usize = 100;
const LARGEST_PAGE: usize = 1000;
/// A page that holds this many bytes is full, whatever its limit: a record may have 16 MiB.
const PAGE_BYTES: usize = 8 << 20;
/// Letters asked for at a time: what is in memory before a page is known to be full.
const STEP: usize = 4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    after: Option<i64>,
    limit: Option<usize>,
}

/// Dead letters by id, a page at a time.
pub(super) async fn list(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let page: Page = query(&request)?;
    let limit = page.limit.unwrap_or(DEFAULT_PAGE).clamp(1, LARGEST_PAGE);
    let mut after = page.after.unwrap_or(i64::MIN);
    let (mut shown, mut bytes, mut is_last) = (Vec::new(), 0, false);
    while shown.len() < limit && bytes < PAGE_BYTES && !is_last {
        let step = STEP.min(limit - shown.len());
        let letters = ask(shared.service.log.dead_letters(after, step)).await?;
        is_last = letters.len() < step;
        for (id, letter) in letters {
            after = id;
            bytes += letter.record.as_ref().map_or(0, weight);
            shown.push(view(id, &letter));
        }
    }
    let next = (!is_last).then_some(after);
    Ok(HttpResponse::Ok().json(json!({ "dead_letters": shown, "next": next })))
}

fn weight(record: &NewRecord) -> usize {
    let length = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    length(&record.key) + length(&record.value)
}

fn view(id: i64, letter: &DeadLetter) -> Value {
    json!({
        "id": id,
        "topic": &*letter.position.topic,
        "partition": letter.position.partition,
        "offset": letter.position.offset,
        "timestamp_ms": letter.timestamp_ms,
        "reason": letter.reason,
        "record": letter.record.as_ref().map(intake_form),
    })
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
