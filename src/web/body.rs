//! Reads a request's body within bounds of size and time.

use std::time::Duration;

use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, web};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// How long a body may take to arrive.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long nothing of it may arrive: it holds room that others wait for.
const SILENCE: Duration = Duration::from_secs(5);

/// The length that the request announces, when it does.
pub(super) fn announced(request: &HttpRequest) -> Option<usize> {
    request.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads a JSON object of at most `limit` bytes, `expected` for people. `None`: there is no body, or it is `null`.
pub(super) async fn object<T: DeserializeOwned>(
    request: &HttpRequest,
    payload: web::Payload,
    limit: usize,
    expected: &str,
) -> Result<Option<T>, Problem> {
    let text = read(request, payload, limit).await?;
    let broken = |why: &dyn std::fmt::Display| Problem::bad_request(format!("expected {expected}: {why}"));
    match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => Ok(None),
        // A list would be read as the members in their order.
        Some(b'[') => Err(broken(&"a list is no object")),
        Some(_) => serde_json::from_slice(&text).map_err(|err| broken(&err)),
    }
}

/// The same of a request that cannot be without one.
pub(super) async fn needed_object<T: DeserializeOwned>(
    request: &HttpRequest,
    payload: web::Payload,
    limit: usize,
    expected: &str,
) -> Result<T, Problem> {
    let found = object(request, payload, limit, expected).await?;
    found.ok_or_else(|| Problem::bad_request(format!("expected {expected}: the body is empty")))
}

/// Reads the body, at most `limit` bytes.
pub(super) async fn read(
    request: &HttpRequest,
    mut payload: web::Payload,
    limit: usize,
) -> Result<Bytes, Problem> {
    let too_large = || {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("at most {limit} bytes a request"))
            .with("limit", limit)
    };
    let encoding = request.headers().get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| encoding != "identity") {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send the body without content-encoding",
        ));
    }
    let announced = announced(request);
    if announced.is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    let late = || Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time");
    let whole = async {
        let mut body = BytesMut::new();
        loop {
            let next = tokio::time::timeout(SILENCE, payload.next()).await.map_err(|_| late())?;
            let Some(chunk) = next else { break };
            let chunk = chunk.map_err(|_| Problem::bad_request("the body broke off"))?;
            if body.len() + chunk.len() > limit {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    };
    tokio::time::timeout(TIMEOUT, whole).await.map_err(|_| late())?
}
