//! The sender against real sockets: friendly, broken and hostile receivers on loopback.

mod answers;
mod connections;
mod permission;
mod receiver;
mod requests;
mod tls;

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;

use super::{EgressRule, HttpSenders};
use crate::domain::delivery::{Answer, NoAnswer, WebhookRequest};
use crate::ports::webhook_sender::{MayStart, SendError, SendLimits, WebhookSender, WebhookSenders as _};

const LIMITS: SendLimits = SendLimits { connect_timeout: Duration::from_secs(5), answer_bytes: 16 * 1024 };

/// Long enough to never matter.
const PATIENT: Duration = Duration::from_secs(30);

/// For requests that are to run out of time.
const SHORT: Duration = Duration::from_millis(300);

/// What it sends is allowed to start, unless a test says otherwise.
struct Sender(Rc<dyn WebhookSender>);

impl Sender {
    async fn send(&self, request: WebhookRequest) -> Result<Answer, SendError> {
        self.send_if(request, Rc::new(|| true)).await.expect("it was started")
    }

    async fn send_if(
        &self,
        request: WebhookRequest,
        may_start: MayStart,
    ) -> Option<Result<Answer, SendError>> {
        self.0.send(request, may_start).await
    }
}

struct Senders(HttpSenders);

impl Senders {
    fn open(&self) -> Sender {
        Sender(self.0.open())
    }
}

fn senders(egress: &[&str], limits: SendLimits, extra_roots_pem: Option<&str>) -> Senders {
    // Only the first test of the process gets to install it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let egress =
        EgressRule::parse(&egress.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>()).unwrap();
    Senders(HttpSenders::new(egress, limits, extra_roots_pem.map(str::as_bytes)).unwrap())
}

/// A sender that may reach loopback.
fn sender() -> Sender {
    senders(&["127.0.0.0/8"], LIMITS, None).open()
}

fn request(url: &str) -> WebhookRequest {
    WebhookRequest {
        url: url.parse().unwrap(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: Bytes::from_static(br#"{"id":"1"}"#),
        timeout: PATIENT,
    }
}

fn hasty_request(url: &str) -> WebhookRequest {
    WebhookRequest { timeout: SHORT, ..request(url) }
}

fn reason(outcome: Result<Answer, SendError>) -> NoAnswer {
    outcome.expect_err("there was an answer").reason
}
