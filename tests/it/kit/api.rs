//! The HTTP API of a running service, as the tests use it.

use std::time::Duration;

use awc::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use awc::http::{Method, StatusCode};
use bytes::Bytes;
use serde_json::{Value, json};

use super::metrics::Metrics;
use super::path_segment;
use super::wait::{eventually, holds};

/// An answer of the service.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

impl Reply {
    /// The body as text, for messages.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|err| panic!("no JSON ({err}): {} {}", self.status, self.text()))
    }
}

/// A client of the API. Each request has a connection of its own: a service that was killed leaves nothing behind.
#[derive(Clone)]
pub(crate) struct Api {
    base: String,
    token: Option<String>,
    http: awc::Client,
}

impl Api {
    /// The API at `http://host:port`.
    pub(crate) fn at(base: &str) -> Self {
        let http = awc::Client::builder().disable_redirects().timeout(Duration::from_secs(60)).finish();
        Self { base: base.to_owned(), token: None, http }
    }

    /// The same, with this bearer token.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &str {
        &self.base
    }

    /// Sends one request. An error is text: nobody answered.
    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Reply, String> {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.base))
            .force_close()
            .insert_header((ACCEPT, "*/*"));
        if let Some(token) = &self.token {
            request = request.insert_header((AUTHORIZATION, format!("Bearer {token}")));
        }
        let sent = match body {
            None => request.send(),
            Some(body) => request.insert_header((CONTENT_TYPE, "application/json")).send_body(body),
        };
        let mut answer = sent.await.map_err(|err| err.to_string())?;
        let body = answer.body().limit(256 << 20).await.map_err(|err| err.to_string())?;
        Ok(Reply { status: answer.status().as_u16(), body })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Reply, String> {
        self.request(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Reply, String> {
        self.request(Method::POST, path, Some(body.to_string().into())).await
    }

    /// Sets a client: ACTIVE, with this `value`.
    pub(crate) async fn put_client(&self, client: &str, value: Value) {
        self.put_client_as(client, "ACTIVE", value).await;
    }

    /// Sets a client, with a status.
    pub(crate) async fn put_client_as(&self, client: &str, status: &str, value: Value) {
        let body = json!({ "status": status, "value": value }).to_string();
        let path = format!("/v1/clients/{}", path_segment(client));
        let reply = self.request(Method::PUT, &path, Some(body.into())).await.expect("PUT is answered");
        assert!(matches!(reply.status, 200 | 201), "PUT {path}: {} {}", reply.status, reply.text());
    }

    /// Sends records and returns the status: 202 when they were taken.
    pub(crate) async fn offer(&self, records: &[Value]) -> Result<u16, String> {
        Ok(self.post("/v1/events", &Value::from(records)).await?.status)
    }

    /// Sends records, which must be taken.
    pub(crate) async fn send(&self, records: &[Value]) {
        let reply = self.post("/v1/events", &Value::from(records)).await.expect("POST is answered");
        assert_eq!(reply.status, StatusCode::ACCEPTED.as_u16(), "{}", reply.text());
    }

    /// The metrics now.
    pub(crate) async fn metrics(&self) -> Metrics {
        self.try_metrics().await.expect("/metrics is answered")
    }

    async fn try_metrics(&self) -> Result<Metrics, String> {
        Ok(Metrics::parse(&self.get("/metrics").await?.text()))
    }

    /// `/status`, which may be 200 or 503.
    pub(crate) async fn status(&self) -> (u16, Value) {
        let reply = self.get("/status").await.expect("/status is answered");
        (reply.status, reply.json())
    }

    /// Waits for a metric.
    pub(crate) async fn wait_for_metric(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        at_least: f64,
        within: Duration,
    ) {
        eventually(&format!("metric {name} {labels:?}"), within, async || {
            let value = self.try_metrics().await?.sum(name, labels);
            holds(value >= at_least, || format!("{value} of {at_least}"))
        })
        .await;
    }

    /// Waits until nothing is under way and nothing waits: no lag, no queue, no request, no row.
    pub(crate) async fn wait_until_idle(&self, within: Duration) {
        eventually("an idle service", within, async || {
            let metrics = self.try_metrics().await?;
            let busy: Vec<String> = [
                ("lag", [("stream", "source")].as_slice()),
                ("lag", &[("stream", "transfer")]),
                ("queued", &[]),
                ("in_flight", &[]),
                ("stash_rows", &[("state", "pending")]),
            ]
            .iter()
            .map(|(name, labels)| (name, labels, metrics.sum(name, labels)))
            .filter(|(_, _, value)| *value != 0.0)
            .map(|(name, labels, value)| format!("{name}{labels:?} = {value}"))
            .collect();
            holds(busy.is_empty(), || busy.join(", "))
        })
        .await;
    }
}
