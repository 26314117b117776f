//! Signatures by Standard Webhooks, checked with the code that receivers use.

use actix_web::http::header::HeaderMap;
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook};

use crate::domain::config::Secret;

/// What a signature is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Signature {
    /// Made with one of our secrets, less than 5 minutes ago.
    Ok,
    /// Made otherwise, or too old, or too far in the future.
    Bad,
    /// There is none.
    None,
    /// There is one, and no secret to check it with.
    Unchecked,
}

/// A secret that can be used.
pub(super) fn parse_secret(text: &str) -> Result<Secret, String> {
    match Webhook::new(text) {
        Ok(_) => Ok(Secret::new(text)),
        Err(_) => Err("a secret is base64, with or without whsec_ in front".to_owned()),
    }
}

pub(super) fn check(secrets: &[Secret], headers: &HeaderMap, body: &[u8]) -> Signature {
    if !headers.contains_key(HEADER_WEBHOOK_SIGNATURE) {
        return Signature::None;
    }
    if secrets.is_empty() {
        return Signature::Unchecked;
    }
    // The verifier speaks another version of the crate `http` than the server.
    let mut signed = http1::HeaderMap::new();
    for name in [HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP] {
        let value = headers.get(name).map(|value| http1::HeaderValue::from_bytes(value.as_bytes()));
        if let Some(Ok(value)) = value {
            signed.insert(name, value);
        }
    }
    let fits = |secret: &Secret| {
        Webhook::new(secret.expose()).is_ok_and(|webhook| webhook.verify(body, &signed).is_ok())
    };
    if secrets.iter().any(fits) { Signature::Ok } else { Signature::Bad }
}
