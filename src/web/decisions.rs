//! What operators say as they decide, and how a decision is shown.

use std::time::Duration;

use actix_web::{HttpRequest, web};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::caller_of;
use super::problem::Problem;
use super::{Shared, body};
use crate::domain::decision::{Decision, Subject};

/// Bytes of a request.
const BODY_BYTES: usize = 16 << 10;

/// How long an answer waits for a decision to be in use.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(10);

/// What an operator says as he decides. The body may be left out.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Said {
    /// Who decides, if it is not whose token it is.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 100)]
    by: Option<String>,
    /// Why.
    #[serde(default)]
    #[schema(max_length = 500)]
    reason: Option<String>,
}

/// The decision that the body of a request makes: `{"reason", "by"}`, or nothing.
pub(super) async fn read(
    request: &HttpRequest,
    payload: web::Payload,
    subject: Subject,
    now_ms: i64,
) -> Result<Decision, Problem> {
    let expected = r#"{"reason", "by"}"#;
    let said: Option<Said> = body::object(request, payload, BODY_BYTES, expected).await?;
    let said = said.unwrap_or_default();
    let caller = caller_of(request)?;
    let by = said.by.as_deref().unwrap_or(&caller.name);
    let reason = said.reason.as_deref().unwrap_or_default();
    Decision::new(subject, by, reason, now_ms)
        .map_err(|err| Problem::bad_request(err.to_string()).with("key", err.member))
}

/// Waits until what is stored is in use here. When that fails it comes into use with the next reload.
pub(super) async fn are_in_use(shared: &Shared) -> bool {
    let refreshed = (shared.service.refresh_decided)(());
    let err = match tokio::time::timeout(REFRESH_TIMEOUT, refreshed).await {
        Ok(Ok(())) => return true,
        Ok(Err(err)) => err,
        Err(_) => "timed out".to_owned(),
    };
    log::warn!("a decision is stored but not in use yet err={err}");
    false
}

/// A decision about an owner.
#[derive(Serialize, ToSchema)]
pub(super) struct Block {
    /// Whose work is not done.
    owner: String,
    #[serde(flatten)]
    made: Made,
}

/// Who decided, and why.
#[derive(Serialize, ToSchema)]
pub(super) struct Made {
    /// Who.
    by: String,
    /// Why; may be empty.
    reason: String,
    /// Since when, milliseconds since 1970.
    since_ms: i64,
}

impl From<&Decision> for Made {
    fn from(decision: &Decision) -> Self {
        Self {
            by: decision.by().to_owned(),
            reason: decision.reason().to_owned(),
            since_ms: decision.since_ms(),
        }
    }
}

impl From<&Decision> for Block {
    fn from(decision: &Decision) -> Self {
        Self { owner: decision.subject().as_str().to_owned(), made: decision.into() }
    }
}

/// Whether it stands still, and who decided that.
#[derive(Serialize, ToSchema)]
pub(super) struct Paused {
    /// `null`: it does not.
    pub(super) paused: Option<Made>,
}
