//! One webhook request, and what its answer means.

mod answer;
mod request;

use std::time::Duration;

use bytes::Bytes;

pub use self::answer::classify;
pub use self::request::{USER_AGENT, request};

/// A request, ready to be sent.
#[derive(Clone)]
pub struct WebhookRequest {
    /// Where to.
    pub url: url::Url,
    /// All headers but `host` and `content-length`. Values may be secret: no `Debug` on this type.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte the same at every attempt.
    pub body: Bytes,
    /// The whole request with its answer.
    pub timeout: Duration,
}

/// An answer: a status, and the beginning of its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The header `retry-after` as it came.
    pub retry_after: Option<String>,
    /// The first 1 KiB of the body.
    pub excerpt: Bytes,
}

/// Why there was no answer. `as_str` is the `reason` label of metrics and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoAnswer {
    /// Nothing (whole) within the time-out.
    Timeout,
    /// The name does not resolve.
    Dns,
    /// No connection.
    Connect,
    /// The TLS handshake failed: certificate, name, protocol.
    Tls,
    /// The address is private and not allowed by `DISPATCHER_EGRESS_ALLOW`.
    EgressDenied,
    /// Closed or reset before any byte of an answer.
    Closed,
    /// Headers without end, or not HTTP.
    BadAnswer,
}

/// Whose fault a failure is: what it counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureClass {
    /// The webhook's: counts for the circuit.
    Endpoint,
    /// 401, 403, 404 and redirects: its config, perhaps; they do not kill the payload.
    Config,
    /// This payload's (the other 4xx): ten of them make it a dead letter.
    Payload,
}

impl FailureClass {
    /// The word in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Config => "config",
            Self::Payload => "payload",
        }
    }
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// 2xx.
    Delivered,
    /// 410: the client is gone.
    Gone,
    /// Anything else.
    Failed(Failure),
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What it counts for.
    pub class: FailureClass,
    /// The label: a name of [`NoAnswer`], or `status_<nnn>`.
    pub reason: String,
    /// The status, when there was an answer.
    pub status: Option<u16>,
    /// How long the whole client waits because the answer said so (429 and 503), capped.
    pub retry_after: Option<Duration>,
}

impl NoAnswer {
    /// The label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::EgressDenied => "egress_denied",
            Self::Closed => "closed",
            Self::BadAnswer => "bad_answer",
        }
    }
}
