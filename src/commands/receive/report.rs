//! What is printed.

use std::fmt::Write as _;
use std::net::SocketAddr;

use actix_web::HttpRequest;
use serde::{Deserialize, Serialize};

use super::ledger::{Arrival, Summary};
use super::signature::Signature;

/// One arrival.
#[derive(Debug, Serialize)]
pub(super) struct Webhook {
    /// When it arrived, UTC.
    pub(super) time: String,
    pub(super) path: String,
    pub(super) webhook_id: Option<String>,
    pub(super) sequence: Option<String>,
    pub(super) timestamp: Option<String>,
    pub(super) signature: Signature,
    pub(super) op: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) document_id: Option<String>,
    /// What it is answered with.
    pub(super) status: u16,
    #[serde(flatten)]
    pub(super) arrival: Arrival,
}

/// What is read of a body.
#[derive(Default, Deserialize)]
struct Change {
    id: Option<String>,
    op: Option<String>,
    topic: Option<String>,
}

impl Webhook {
    /// Status and arrival come later.
    pub(super) fn read(request: &HttpRequest, body: &[u8], signature: Signature) -> Self {
        let header = |name| Some(request.headers().get(name)?.to_str().ok()?.to_owned());
        let change: Change = serde_json::from_slice(body).unwrap_or_default();
        Self {
            time: chrono::Utc::now().format("%H:%M:%S%.3f").to_string(),
            path: request.path().to_owned(),
            webhook_id: header("webhook-id"),
            sequence: header("webhook-sequence"),
            timestamp: header("webhook-timestamp"),
            signature,
            op: change.op,
            topic: change.topic,
            document_id: change.id,
            status: 0,
            arrival: Arrival::default(),
        }
    }

    /// A line for people.
    pub(super) fn text(&self, body: Option<&str>) -> String {
        let shown = |text: &Option<String>| visible(text.as_deref().unwrap_or("-"));
        let signature = match self.signature {
            Signature::Ok => "signature ok",
            Signature::Bad => "signature BAD",
            Signature::None => "signature none",
            Signature::Unchecked => "signature unchecked",
        };
        let mut line = format!(
            "{} {} {} {} {} {} {signature} -> {}",
            self.time,
            shown(&self.webhook_id),
            shown(&self.sequence),
            shown(&self.op),
            shown(&self.topic),
            shown(&self.document_id),
            self.status,
        );
        if self.arrival.attempt > 1 && !self.arrival.duplicate {
            let _ = write!(line, " (attempt {})", self.arrival.attempt);
        }
        for (is, what) in [
            (self.arrival.duplicate, "duplicate"),
            (self.arrival.out_of_order, "OUT OF ORDER"),
            (self.arrival.body_changed, "BODY CHANGED"),
        ] {
            if is {
                let _ = write!(line, " ({what})");
            }
        }
        if let Some(body) = body {
            let _ = write!(line, "\n  {}", visible(body));
        }
        line
    }

    /// A line for programs.
    pub(super) fn json(&self, body: Option<&str>) -> String {
        #[derive(Serialize)]
        struct Line<'a> {
            #[serde(flatten)]
            webhook: &'a Webhook,
            #[serde(skip_serializing_if = "Option::is_none")]
            body: Option<&'a str>,
        }
        serde_json::json!(Line { webhook: self, body }).to_string()
    }
}

/// Control characters spelled out: what comes from outside must not steer the terminal.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

pub(super) fn listening(address: SocketAddr, json: bool) -> String {
    let url = format!("http://{address}/");
    if json { serde_json::json!({ "listening": url }).to_string() } else { format!("listening on {url}") }
}

pub(super) fn json_summary(summary: &Summary) -> String {
    serde_json::json!({ "summary": summary }).to_string()
}

pub(super) fn text_summary(summary: &Summary) -> String {
    let Summary { webhooks, events, accepted, documents, .. } = summary;
    let Summary { duplicates, out_of_order, outdated, bodies_changed, bad_signatures, .. } = summary;
    format!(
        "webhooks {webhooks}, events {events} (accepted {accepted}), documents {documents}\n\
         duplicates {duplicates}, out of order {out_of_order}, documents that do not end with their newest {outdated}, \
         bodies changed {bodies_changed}, bad signatures {bad_signatures}"
    )
}
