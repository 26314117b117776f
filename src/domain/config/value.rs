//! The `value` of a config: what each key may be. A fault names the key and never repeats what stands there.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};
use serde_json::{Map, Value};
use url::Url;

use super::members::Members;
use super::{
    BodyFormat, ClientConfig, ClientId, ConfigFault, DeliverySettings, Filter, Ordering, Pattern, RateLimit,
    Secret, SigningKey, Status,
};
use crate::domain::change_event::Op;

const MAX_URL_BYTES: usize = 8192;
const MAX_AUTHORIZATION_BYTES: usize = 8192;
const MAX_SECRETS: usize = 8;
const MAX_HEADERS: usize = 64;
const MAX_HEADER_NAME_BYTES: usize = 256;
const MAX_HEADER_VALUE_BYTES: usize = 4096;
const MAX_PATTERNS: usize = 256;
const MAX_PATTERN_BYTES: usize = 256;
const TIMEOUT_MS: RangeInclusive<u32> = 1000..=60_000;
const DEFAULT_TIMEOUT_MS: u32 = 15_000;
const CONCURRENCY: RangeInclusive<u32> = 1..=256;
const DEFAULT_CONCURRENCY: u32 = 32;
const RATE_PER_MS: RangeInclusive<u32> = 1..=86_400_000;

/// Headers that this service, the connection or the signature decides.
const RESERVED_HEADERS: [&str; 15] = [
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];
const RESERVED_PREFIXES: [&str; 2] = ["proxy-", "webhook-"];

/// Reads and checks a config whose `value` is this JSON text. It never fails: a fault in the value is kept in
/// `delivery`, and holds that client's delivery.
pub fn read_value(
    client: &ClientId,
    status: Status,
    deleted: bool,
    version: i64,
    updated_at_ms: i64,
    owner: Option<String>,
    value_json: &str,
) -> ClientConfig {
    let map = object(value_json);
    let (format, filter, delivery) = match &map {
        Ok(map) => {
            let value = Members::of(map);
            (format(&value), filter(&value), delivery(&value))
        }
        Err(fault) => (Err(fault.clone()), Err(fault.clone()), Err(fault.clone())),
    };
    let fault = format.as_ref().err().or(filter.as_ref().err()).cloned();
    let delivery = delivery.and_then(|settings| fault.map_or_else(|| Ok(Arc::new(settings)), Err));
    ClientConfig {
        client: client.clone(),
        status,
        deleted,
        version,
        updated_at_ms,
        owner,
        format: format.unwrap_or_default(),
        filter: filter.unwrap_or_default(),
        delivery,
    }
}

fn object(json: &str) -> Result<Map<String, Value>, ConfigFault> {
    let fault = |problem: String| ConfigFault { key: "value".to_owned(), problem };
    match serde_json::from_str(json) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(fault("must be an object".to_owned())),
        Err(err) => Err(fault(format!("is not JSON (line {}, column {})", err.line(), err.column()))),
    }
}

fn delivery(value: &Members<'_>) -> Result<DeliverySettings, ConfigFault> {
    let timeout_ms = value.whole("timeout_ms", TIMEOUT_MS)?.unwrap_or(DEFAULT_TIMEOUT_MS);
    Ok(DeliverySettings {
        webhook: webhook(value)?,
        authorization: authorization(value)?,
        secrets: secrets(value)?,
        headers: headers(value)?,
        timeout: Duration::from_millis(timeout_ms.into()),
        concurrency: value.whole("concurrency", CONCURRENCY)?.unwrap_or(DEFAULT_CONCURRENCY) as usize,
        rate_limit: rate_limit(value)?,
        ordering: value
            .word("ordering", &[("document", Ordering::Document), ("client", Ordering::Client)])?,
        coalesce: value.flag("coalesce")?,
    })
}

fn webhook(value: &Members<'_>) -> Result<Url, ConfigFault> {
    const KEY: &str = "webhook";
    let text = value.text(KEY, MAX_URL_BYTES)?.ok_or_else(|| value.fault(KEY, "is required"))?;
    let url = Url::parse(text).map_err(|err| value.fault(KEY, format!("is not a URL: {err}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(value.fault(KEY, "must be an http or https URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(value.fault(KEY, "must not hold a user name or password: use `authorization`"));
    }
    // The sender speaks in `Uri`: what it cannot say is found here, not at each delivery.
    if !url.has_host() || Uri::try_from(url.as_str()).is_err() {
        return Err(value.fault(KEY, "is not a URL that a request can be sent to"));
    }
    Ok(url)
}

/// An empty text counts as none: there is nothing to send.
fn authorization(value: &Members<'_>) -> Result<Option<Secret>, ConfigFault> {
    const KEY: &str = "authorization";
    let text = value.text(KEY, MAX_AUTHORIZATION_BYTES)?.filter(|text| !text.is_empty());
    text.map(|text| {
        check_header_value(text).map_err(|problem| value.fault(KEY, problem))?;
        Ok(Secret::new(text))
    })
    .transpose()
}

fn secrets(value: &Members<'_>) -> Result<Vec<SigningKey>, ConfigFault> {
    let read = |secret: &Value| SigningKey::read(secret.as_str().ok_or("must be text")?);
    let several = value.list("secrets", MAX_SECRETS, read)?;
    match value.get("secret") {
        None => Ok(several),
        Some(_) if value.get("secrets").is_some() => {
            Err(value.fault("secret", "must not stand beside `secrets`: put it there, the newest first"))
        }
        Some(secret) => Ok(vec![read(secret).map_err(|problem| value.fault("secret", problem))?]),
    }
}

fn headers(value: &Members<'_>) -> Result<Vec<(String, Secret)>, ConfigFault> {
    let Some(headers) = value.object("headers")? else { return Ok(Vec::new()) };
    if headers.iter().len() > MAX_HEADERS {
        return Err(value.fault("headers", format!("must be at most {MAX_HEADERS}")));
    }
    let mut seen = HashSet::new();
    headers
        .iter()
        .enumerate()
        .map(|(index, (name, text))| {
            // A name that is none is not repeated either: name and value may have been mixed up.
            let name = HeaderName::from_bytes(name.as_bytes())
                .ok()
                .filter(|name| name.as_str().len() <= MAX_HEADER_NAME_BYTES)
                .ok_or_else(|| value.fault(&format!("headers[{index}]"), "has no legal header name"))?;
            let fault = |problem: &str| headers.fault(name.as_str(), problem);
            if is_reserved(name.as_str()) {
                return Err(fault("is reserved"));
            }
            if !seen.insert(name.clone()) {
                return Err(fault("stands there twice: case does not count"));
            }
            let text = text.as_str().ok_or_else(|| fault("must be text"))?;
            if text.len() > MAX_HEADER_VALUE_BYTES {
                return Err(fault(&format!("must be at most {MAX_HEADER_VALUE_BYTES} bytes long")));
            }
            check_header_value(text).map_err(fault)?;
            Ok((name.as_str().to_owned(), Secret::new(text)))
        })
        .collect()
}

fn is_reserved(name: &str) -> bool {
    RESERVED_HEADERS.contains(&name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn check_header_value(text: &str) -> Result<(), &'static str> {
    // Beyond ASCII, receivers disagree on what the bytes mean.
    let legal = text.is_ascii() && HeaderValue::from_str(text).is_ok();
    legal.then_some(()).ok_or("is not a legal header value: visible ASCII only")
}

fn rate_limit(value: &Members<'_>) -> Result<Option<RateLimit>, ConfigFault> {
    let Some(limit) = value.object("rate_limit")? else { return Ok(None) };
    let required = |key, bounds| limit.whole(key, bounds)?.ok_or_else(|| limit.fault(key, "is required"));
    Ok(Some(RateLimit {
        max: required("max", 1..=u32::MAX)?,
        per: Duration::from_millis(required("per_ms", RATE_PER_MS)?.into()),
    }))
}

fn format(value: &Members<'_>) -> Result<BodyFormat, ConfigFault> {
    value.word("format", &[("plain", BodyFormat::Plain), ("extended", BodyFormat::Extended)])
}

fn filter(value: &Members<'_>) -> Result<Filter, ConfigFault> {
    let Some(filter) = value.object("filter")? else { return Ok(Filter::default()) };
    let pattern = |element: &Value| {
        let text = element.as_str().filter(|text| text.len() <= MAX_PATTERN_BYTES);
        text.and_then(Pattern::read).ok_or("must be `<db>.<collection>`, `<db>.*` or `*`")
    };
    let op = |element: &Value| {
        let ops = [Op::Create, Op::Update, Op::Delete, Op::Read];
        ops.into_iter()
            .find(|op| element.as_str() == Some(op.as_str()))
            .ok_or("must be \"c\", \"u\", \"d\" or \"r\"")
    };
    Ok(Filter {
        include: filter.list("include", MAX_PATTERNS, pattern)?,
        exclude: filter.list("exclude", MAX_PATTERNS, pattern)?,
        ops: filter.list("ops", 4, op)?,
    })
}

#[cfg(test)]
mod tests;
