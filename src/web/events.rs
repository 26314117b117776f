//! Takes change events: all records of a request, durable before the answer, or none.

use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::path::query;
use super::problem::{Problem, ask};
use super::{INTAKE_KIB, REQUEST_BYTES, Shared, body};
use crate::domain::intake::{self, Defaults};
use crate::ports::event_log::NewRecord;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Parameters {
    /// Of bare values that do not say where they belong.
    topic: Option<String>,
}

#[derive(Serialize, ToSchema)]
struct Accepted {
    /// How many records.
    accepted: usize,
}

/// A record, one or many: `{"topic", "key", "value", "headers"}`, or bare Debezium values.
#[derive(ToSchema)]
#[schema(value_type = Object)]
#[expect(dead_code, reason = "says what domain/intake reads")]
struct Records(serde_json::Value);

/// Takes change events: all records of the body, durable before the answer, or none
///
/// A record that is well-formed but cannot be read is taken, and becomes a dead letter.
#[utoipa::path(post, path = "/v1/events", params(Parameters), request_body(description = "At most 32 MiB", content(
    (Records = "application/json"), (Records = "application/cloudevents+json"), (String = "application/x-ndjson"),
)), responses(
    (status = 202, body = Accepted, description = "All records are durable"),
    (status = 503, description = "No events are taken right now"),
))]
pub(super) async fn post(
    request: HttpRequest,
    payload: web::Payload,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    if !shared.service.readiness.takes_events() {
        return Err(Problem::unavailable("no events are taken right now: the service starts or stops"));
    }
    if request.headers().contains_key("webhook-sequence") {
        // A client whose webhook is this address would get its own change again, for ever.
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "this is a webhook of a dispatcher, no change event",
        ));
    }
    let parameters: Parameters = query(&request)?;
    let form = form_of(&request)?;
    // Held until the answer: what all requests together hold in memory stays bounded.
    let kib = body::announced(&request).unwrap_or(REQUEST_BYTES).min(REQUEST_BYTES).div_ceil(1024);
    let _room = shared
        .intake
        .acquire_many(kib.clamp(1, INTAKE_KIB) as u32)
        .await
        .map_err(|_| Problem::unavailable("no events are taken any more"))?;
    let body = body::read(&request, payload, REQUEST_BYTES).await?;
    // A large body takes longer to read than a worker may stand still.
    let state = shared.clone();
    let records = web::block(move || {
        let defaults =
            Defaults { prefix: &state.service.source_names.prefix, topic: parameters.topic.as_deref() };
        form.read(&body, defaults)
    })
    .await
    .map_err(|_| Problem::unavailable("no events are taken any more"))??;
    let accepted = ask(shared.service.log.append(records)).await?.len();
    Ok(HttpResponse::Accepted().json(Accepted { accepted }))
}

/// How the records of a body are written.
#[derive(Clone, Copy)]
enum Form {
    /// A record, or an array of records.
    Json,
    /// A record a line.
    Lines,
}

impl Form {
    fn read(self, body: &Bytes, defaults: Defaults<'_>) -> Result<Vec<NewRecord>, Problem> {
        let records = match self {
            Self::Json => intake::read_request(body, defaults),
            Self::Lines => intake::read_file(body, defaults),
        };
        records.map_err(|err| Problem::bad_request(err.problem).with("index", err.index))
    }
}

fn form_of(request: &HttpRequest) -> Result<Form, Problem> {
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.unwrap_or("application/json").split(';').next().unwrap_or_default().trim();
    match essence.to_ascii_lowercase().as_str() {
        "application/json" | "application/cloudevents+json" => Ok(Form::Json),
        "application/x-ndjson" => Ok(Form::Lines),
        _ => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "expected application/json, application/cloudevents+json or application/x-ndjson",
        )),
    }
}
