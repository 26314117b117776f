//! Errors as problem documents (RFC 9457).

use std::fmt;
use std::future::Future;
use std::time::Duration;

use actix_web::http::{StatusCode, header};
use actix_web::{HttpResponse, ResponseError};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ports::{StoreError, StoreResult};

/// How long a store may take to answer a request.
const STORE_TIMEOUT: Duration = Duration::from_secs(20);

/// An error answer. Boxed: it is the rare half of many results.
#[derive(Debug)]
pub(super) struct Problem(Box<Parts>);

#[derive(Debug)]
struct Parts {
    status: StatusCode,
    detail: String,
    members: Map<String, Value>,
    headers: Vec<(header::HeaderName, String)>,
}

/// An error answer (RFC 9457). Members beside these are for programs, and said where they come.
#[derive(Serialize, ToSchema)]
pub(super) struct ProblemDocument<'a> {
    /// Always `about:blank`: the status says what kind it is.
    #[serde(rename = "type")]
    kind: &'a str,
    /// The name of the status.
    title: &'a str,
    /// The status.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What is wrong, for people.
    detail: &'a str,
    #[serde(flatten)]
    #[schema(ignore)]
    members: &'a Map<String, Value>,
}

/// The content type of error answers.
pub(super) const CONTENT_TYPE: &str = "application/problem+json";

impl Problem {
    /// A problem with this status; `detail` is for people and holds no secret.
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self(Box::new(Parts { status, detail, members: Map::new(), headers: Vec::new() }))
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// It may work later.
    pub(super) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail).header(header::RETRY_AFTER, "5")
    }

    /// Adds a member for programs.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.members.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a header.
    pub(super) fn header(mut self, name: header::HeaderName, value: impl Into<String>) -> Self {
        self.0.headers.push((name, value.into()));
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.status, self.0.detail)
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        self.0.status
    }

    fn error_response(&self) -> HttpResponse {
        let document = ProblemDocument {
            kind: "about:blank",
            title: self.0.status.canonical_reason().unwrap_or("Error"),
            status: self.0.status.as_u16(),
            detail: &self.0.detail,
            members: &self.0.members,
        };
        let mut response = HttpResponse::build(self.0.status);
        response.content_type(CONTENT_TYPE);
        for (name, value) in &self.0.headers {
            response.insert_header((name, value.as_str()));
        }
        response.body(serde_json::to_string(&document).unwrap_or_default())
    }
}

pub(super) fn not_found(detail: &str) -> HttpResponse {
    Problem::new(StatusCode::NOT_FOUND, detail).error_response()
}

pub(super) fn method_not_allowed(methods: &str) -> HttpResponse {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("allowed here: {methods}"))
        .header(header::ALLOW, methods)
        .error_response()
}

/// Asks a store, for a bounded time.
pub(super) async fn ask<T>(answer: impl Future<Output = StoreResult<T>>) -> Result<T, Problem> {
    match tokio::time::timeout(STORE_TIMEOUT, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(err @ StoreError::Refused(_))) => {
            Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, err.to_string()))
        }
        Ok(Err(err)) => {
            log::warn!("a request could not be served err={err}");
            Err(Problem::unavailable(err.to_string()))
        }
        Err(_) => {
            log::warn!("a request could not be served err=store timed out");
            Err(Problem::unavailable("the store did not answer in time"))
        }
    }
}
