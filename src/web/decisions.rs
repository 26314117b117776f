//! What operators say as they decide, and how a decision is shown.

use actix_web::{HttpRequest, web};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body;
use super::problem::Problem;
use crate::domain::decision::{Decision, Subject};

/// Bytes of a request.
const BODY_BYTES: usize = 16 << 10;

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

/// A decision about an owner.
pub(super) fn block(decision: &Decision) -> Value {
    json!({
        "owner": decision.subject(),
        "by": decision.by(),
        "reason": decision.reason(),
        "since_ms": decision.since_ms(),
    })
}

/// A decision about a queue, beside its name.
pub(super) fn pause(decision: &Decision) -> Value {
    json!({ "by": decision.by(), "reason": decision.reason(), "since_ms": decision.since_ms() })
}
