//! Sends webhook requests.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use awc::http::{Method, Uri};
use awc::{Client, Connector};
use bytes::Bytes;
use rustls::ClientConfig;
use tokio::time::{Instant, timeout_at};
use url::Position;

use super::answer;
use super::connector::TcpGuard;
use super::egress::EgressRule;
use super::fault::{from_awc, send_error};
use super::permitted::PermittedBody;
use super::tls::{RootsError, client_config};
use crate::domain::delivery::{Answer, NoAnswer, WebhookRequest};
use crate::ports::LocalBoxFuture;
use crate::ports::webhook_sender::{MayStart, SendError, SendLimits, WebhookSender, WebhookSenders};

/// Our connector watches its own deadline and says what was late; awc's clock only has to run behind it.
const BEHIND: Duration = Duration::from_secs(1);

/// Makes the HTTP clients of delivery actors. They share this, and no connection.
pub struct HttpSenders {
    egress: Arc<EgressRule>,
    limits: SendLimits,
    tls: Arc<ClientConfig>,
}

impl HttpSenders {
    /// Senders that reach what `egress` permits. `extra_roots_pem`: certificates that are trusted besides the
    /// compiled-in roots of Mozilla.
    ///
    /// # Errors
    /// When `extra_roots_pem` holds anything but usable certificates, at least one.
    ///
    /// # Panics
    /// When the process has no rustls crypto provider yet: `main` installs it first.
    pub fn new(
        egress: EgressRule,
        limits: SendLimits,
        extra_roots_pem: Option<&[u8]>,
    ) -> Result<Self, RootsError> {
        Ok(Self { egress: Arc::new(egress), limits, tls: client_config(extra_roots_pem)? })
    }
}

impl WebhookSenders for HttpSenders {
    fn open(&self) -> Rc<dyn WebhookSender> {
        let clients = Clients {
            guard: TcpGuard::new(self.egress.clone(), self.limits),
            limits: self.limits,
            tls: self.tls.clone(),
        };
        Rc::new(HttpSender { pooled: clients.open(), clients: Rc::new(clients) })
    }
}

/// What a client is made of.
struct Clients {
    guard: TcpGuard,
    limits: SendLimits,
    tls: Arc<ClientConfig>,
}

impl Clients {
    /// A client with no connections yet. Cheap: a microsecond.
    fn open(&self) -> Client {
        // `max_http_version` is not for us: it would replace the TLS configuration by awc's own.
        let connector = Connector::new()
            .connector(self.guard.service())
            .rustls_0_23(self.tls.clone())
            .timeout(self.limits.connect_timeout + BEHIND)
            .handshake_timeout(self.limits.connect_timeout)
            // How many requests run at a time is the delivery actor's business.
            .limit(0);
        // No user agent of awc's; its encoder still dates every request.
        Client::builder()
            .connector(connector)
            .disable_redirects()
            .disable_timeout()
            .no_default_headers()
            .finish()
    }
}

/// The client of one delivery actor. Requests on the wire keep their connection when it is dropped; idle
/// connections close at once.
struct HttpSender {
    pooled: Client,
    clients: Rc<Clients>,
}

impl WebhookSender for HttpSender {
    fn send(
        &self,
        request: WebhookRequest,
        may_start: MayStart,
    ) -> LocalBoxFuture<'static, Option<Result<Answer, SendError>>> {
        let pooled = self.pooled.clone();
        let clients = self.clients.clone();
        Box::pin(async move {
            let attempt = match Attempt::new(request, may_start, clients.limits.answer_bytes) {
                Ok(attempt) => attempt,
                Err(error) => return Some(Err(error)),
            };
            match attempt.run(&pooled, Connection::Kept).await {
                // A receiver that closes idle connections cannot tell us before we use one. awc does not say whether
                // the connection had been used before, and its pool cannot be made to open a new one: a client with
                // an empty pool can.
                Some(Err(error)) if error.reason == NoAnswer::Closed => {
                    // A second try that may not start leaves what became of the first.
                    let second = attempt.run(&clients.open(), Connection::UsedOnce).await;
                    second.or(Some(Err(error)))
                }
                outcome => outcome,
            }
        })
    }
}

/// What becomes of the connection after the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Connection {
    /// Used again by the next request.
    Kept,
    /// Closed; the receiver is told so.
    UsedOnce,
}

/// A request in awc's words, and its bounds.
struct Attempt {
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    may_start: MayStart,
    timeout: Duration,
    deadline: Instant,
    answer_bytes: usize,
}

impl Attempt {
    /// The time runs from here, through a second try too.
    fn new(request: WebhookRequest, may_start: MayStart, answer_bytes: usize) -> Result<Self, SendError> {
        let unsendable = |what: &str| send_error(NoAnswer::Connect, format!("{what} cannot be sent"));
        let url = &request.url;
        let Some(host) = url.host_str() else { return Err(unsendable("a URL without a host")) };
        // Without credentials and fragment: neither is sent, and connections are pooled by what stands here.
        let uri = format!("{}://{}", url.scheme(), &url[Position::BeforeHost..Position::AfterQuery]);
        let uri = Uri::try_from(uri).map_err(|_| unsendable("the URL"))?;
        let mut headers = HeaderMap::with_capacity(request.headers.len() + 1);
        // awc would leave out port 80 from https, and 443 from http.
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let host = HeaderValue::from_str(&host).map_err(|_| unsendable("the host"))?;
        headers.insert(HeaderName::from_static("host"), host);
        for (name, value) in &request.headers {
            // The value may be a secret: the name is all that is said of it.
            let unsendable = || unsendable(&format!("header {name:?}"));
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unsendable())?;
            let mut value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| unsendable())?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        let deadline = Instant::now() + request.timeout;
        let WebhookRequest { body, timeout, .. } = request;
        Ok(Self { uri, headers, body, may_start, timeout, deadline, answer_bytes })
    }

    /// `None`: it was not allowed to start.
    async fn run(&self, client: &Client, connection: Connection) -> Option<Result<Answer, SendError>> {
        // No connection is opened for what cannot go out.
        if !(self.may_start)() {
            return None;
        }
        let mut request = client.request(Method::POST, self.uri.clone()).no_decompress();
        *request.headers_mut() = self.headers.clone();
        if connection == Connection::UsedOnce {
            request = request.force_close();
        }
        let body = PermittedBody::new(self.body.clone(), self.may_start.clone());
        match timeout_at(self.deadline, request.send_body(body)).await {
            Ok(Ok(response)) => Some(answer::read(response, self.answer_bytes, self.deadline).await),
            Ok(Err(error)) => from_awc(error).map(Err),
            Err(_) => {
                Some(Err(send_error(NoAnswer::Timeout, format!("no answer within {:?}", self.timeout))))
            }
        }
    }
}
