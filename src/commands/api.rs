//! A running service, through its API.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::{Method, StatusCode, header};
use bytes::Bytes;
use clap::Args;
use serde_json::Value;
use url::Url;

use crate::domain::config::Secret;
use crate::settings::{Environment, SettingsError, admin_token};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(90);
/// Bytes of an answer that are read.
const ANSWER_BYTES: usize = 128 << 20;

/// Where the service is.
#[derive(Args)]
pub(super) struct ApiOptions {
    /// Where the service is
    #[arg(long, global = true, env = "DISPATCHER_URL", default_value = "http://127.0.0.1:4010", value_parser = parse_url)]
    url: Url,
    /// The token. Better given as DISPATCHER_ADMIN_TOKEN or DISPATCHER_ADMIN_TOKEN_FILE: others can see arguments
    #[arg(long, global = true)]
    token: Option<String>,
}

impl fmt::Debug for ApiOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiOptions({})", self.url)
    }
}

impl ApiOptions {
    /// Prepares requests to the service.
    pub(super) fn open(&self, environment: &Environment) -> Result<Api, SettingsError> {
        Api::open(&self.url, self.token.clone().map(Secret::new), environment)
    }
}

/// A running service.
pub(super) struct Api {
    client: awc::Client,
    base: String,
    token: Option<Secret>,
}

/// Why the service did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// No answer.
    #[error("no answer from {base}: {problem} (does the service run there?)")]
    Unreachable { base: String, problem: String },
    /// A problem document, or whatever else was answered.
    #[error("{detail} (status {status})")]
    Refused {
        status: StatusCode,
        detail: String,
        /// The whole document.
        problem: Value,
        retry_after: Option<Duration>,
    },
}

impl Api {
    /// The service of this process: no token is needed.
    pub(super) fn local(address: std::net::SocketAddr) -> Self {
        let client = awc::Client::builder().timeout(TIMEOUT).disable_redirects().finish();
        Self { client, base: format!("http://{address}"), token: None }
    }

    /// Prepares requests; connects with the first. Without a token the environment's is taken.
    pub(super) fn open(
        url: &Url,
        token: Option<Secret>,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        let token = match token {
            Some(token) => Some(token),
            None => admin_token(environment)?,
        };
        let roots = rustls::RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        let mut tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let connector = awc::Connector::new().rustls_0_23(Arc::new(tls)).timeout(CONNECT_TIMEOUT);
        let client =
            awc::Client::builder().connector(connector).timeout(TIMEOUT).disable_redirects().finish();
        Ok(Self { client, base: url.as_str().trim_end_matches('/').to_owned(), token })
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.request(Method::GET, path, Bytes::new()).await.map(|(_, answer)| answer)
    }

    /// Hands on each row of a list that comes by the page and goes on behind a text.
    pub(super) async fn each_row(
        &self,
        path: &str,
        rows: &str,
        mut hand_on: impl FnMut(&Value) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut query = format!("{path}?limit=1000");
        loop {
            let page = self.get(&query).await?;
            page[rows].as_array().into_iter().flatten().try_for_each(&mut hand_on)?;
            let Some(next) = page["next"].as_str() else { return Ok(()) };
            query = format!("{path}?limit=1000&after={}", encoded(next));
        }
    }

    pub(super) async fn put(&self, path: &str, document: &Value) -> Result<(StatusCode, Value), ApiError> {
        self.request(Method::PUT, path, document.to_string().into()).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<StatusCode, ApiError> {
        self.request(Method::DELETE, path, Bytes::new()).await.map(|(status, _)| status)
    }

    pub(super) async fn post(&self, path: &str, json: Bytes) -> Result<(StatusCode, Value), ApiError> {
        self.request(Method::POST, path, json).await
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        json: Bytes,
    ) -> Result<(StatusCode, Value), ApiError> {
        let unreachable = |problem: String| ApiError::Unreachable { base: self.base.clone(), problem };
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if !json.is_empty() {
            request = request.insert_header((header::CONTENT_TYPE, "application/json"));
        }
        if let Some(token) = &self.token {
            request = request.insert_header((header::AUTHORIZATION, format!("Bearer {}", token.expose())));
        }
        let mut answer = request.send_body(json).await.map_err(|err| unreachable(err.to_string()))?;
        let body = answer.body().limit(ANSWER_BYTES).await.map_err(|err| unreachable(err.to_string()))?;
        let document: Value = serde_json::from_slice(&body).unwrap_or_default();
        let status = answer.status();
        if status.is_success() {
            return Ok((status, document));
        }
        let retry_after = answer.headers().get(header::RETRY_AFTER);
        let seconds = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        let detail = document["detail"].as_str().unwrap_or("the answer is no problem document").to_owned();
        let retry_after = seconds.map(Duration::from_secs);
        Err(ApiError::Refused { status, detail, problem: document, retry_after })
    }
}

/// The address of a service.
pub(super) fn parse_url(text: &str) -> Result<Url, &'static str> {
    let url = text.parse::<Url>().ok();
    url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or("expected http://host:port or https://host:port")
}

/// A client's id as a segment of a path.
pub(super) fn encoded(id: &str) -> String {
    let mut segment = String::with_capacity(id.len());
    for byte in id.bytes() {
        // Dots too: a segment of dots would be a direction.
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            segment.push(byte.into());
        } else {
            segment.push_str(&format!("%{byte:02X}"));
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_one_segment() {
        for (id, segment) in [
            ("64c0-a_Z", "64c0-a_Z"),
            ("a/b?c#d%", "a%2Fb%3Fc%23d%25"),
            ("..", "%2E%2E"),
            ("\0å", "%00%C3%A5"),
        ] {
            assert_eq!(encoded(id), segment);
        }
    }

    #[test]
    fn a_url_that_is_no_service_is_a_mistake_in_the_command() {
        for url in ["127.0.0.1:4010", "localhost:4010", "/", "", "ftp://x/", "mailto:x", "unix:/run/x"] {
            assert!(parse_url(url).is_err(), "{url}");
        }
        assert!(parse_url("http://127.0.0.1:4010").is_ok());
    }
}
