//! What operators say as they decide, and how a decision is shown.

use std::time::Duration;

use actix_web::{HttpRequest, web};
use serde::Deserialize;
use serde_json::{Value, json};

use super::problem::Problem;
use super::{Shared, body};
use crate::domain::decision::{Decision, Subject};

/// Bytes of a request.
const BODY_BYTES: usize = 16 << 10;

/// How long an answer waits for a decision to be in use.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(10);

/// Who decides when he does not say so.
const SOMEBODY: &str = "api";

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

/// The decision that the body of a request makes: `{"reason", "by"}`, or nothing.
pub(super) async fn read(
    request: &HttpRequest,
    payload: web::Payload,
    subject: Subject,
    now_ms: i64,
) -> Result<Decision, Problem> {
    let text = body::read(request, payload, BODY_BYTES).await?;
    let said: Said = match &text[..] {
        [] => Said::default(),
        text => serde_json::from_slice(text)
            .map_err(|err| Problem::bad_request(format!("expected {{\"reason\", \"by\"}}: {err}")))?,
    };
    let by = said.by.as_deref().unwrap_or(SOMEBODY);
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
pub(super) fn block(decision: &Decision) -> Value {
    json!({
        "owner": decision.subject(),
        "by": decision.by(),
        "reason": decision.reason(),
        "since_ms": decision.since_ms(),
    })
}

/// A decision about a queue or a client, beside its name.
pub(super) fn pause(decision: &Decision) -> Value {
    json!({ "by": decision.by(), "reason": decision.reason(), "since_ms": decision.since_ms() })
}
