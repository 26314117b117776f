//! Sends a webhook request.

use std::rc::Rc;
use std::time::Duration;

use super::LocalBoxFuture;
use crate::domain::delivery::{Answer, NoAnswer, WebhookRequest};

/// An attempt that brought no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", reason.as_str())]
pub struct SendError {
    /// The kind, for counting and classing.
    pub reason: NoAnswer,
    /// For people; holds no secret and no internal address that was refused.
    pub detail: String,
}

/// How requests are sent for everybody.
#[derive(Debug, Clone, Copy)]
pub struct SendLimits {
    /// To resolve the name and connect; as long again for the TLS handshake.
    pub connect_timeout: Duration,
    /// How much of an answer's body is read.
    pub answer_bytes: usize,
}

/// Whether a request may start at this moment. It may be asked several times: connecting takes its time.
pub type MayStart = Rc<dyn Fn() -> bool>;

/// The HTTP client of one delivery actor: it owns its connections, and dropping it closes them.
pub trait WebhookSender {
    /// Sends one request. `None`: `may_start` forbade it, and not a byte of it went out; it is asked when the connection stands, as
    /// the last thing before the first byte. Follows no redirect. A connection that was closed before any byte of an answer is
    /// tried once more on a fresh one, as far as `may_start` allows.
    fn send(
        &self,
        request: WebhookRequest,
        may_start: MayStart,
    ) -> LocalBoxFuture<'static, Option<Result<Answer, SendError>>>;
}

/// Makes senders, each on the arbiter of its actor.
pub trait WebhookSenders: Send + Sync {
    /// A sender with no connections yet.
    fn open(&self) -> Rc<dyn WebhookSender>;
}
