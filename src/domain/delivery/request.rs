//! What is sent: the headers around a body that never changes.

use sha2::{Digest, Sha256};

use super::WebhookRequest;
use crate::domain::config::{DeliverySettings, SigningKey};
use crate::domain::transfer::Transfer;

/// How we name ourselves to receivers.
pub const USER_AGENT: &str = concat!("dispatcher/", env!("CARGO_PKG_VERSION"));

/// Makes the request of one attempt at a transfer. Attempts differ in timestamp, signature and span only.
/// `span_id` names the attempt in its trace: eight random bytes.
pub fn request(
    transfer: &Transfer,
    settings: &DeliverySettings,
    now_ms: i64,
    span_id: [u8; 8],
) -> WebhookRequest {
    let event_id = transfer.event_id.as_str();
    let timestamp_s = now_ms.div_euclid(1000);
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("user-agent", USER_AGENT.to_owned()),
        ("traceparent", traceparent(transfer, span_id)),
        ("webhook-id", event_id.to_owned()),
        ("webhook-sequence", transfer.sequence.to_string()),
        ("webhook-timestamp", timestamp_s.to_string()),
    ];
    if let Some(authorization) = &settings.authorization {
        headers.push(("authorization", authorization.expose().to_owned()));
    }
    // A body that is not UTF-8 has no signature. Ours are JSON text; anything else goes out unsigned, and a
    // receiver that verifies refuses it.
    let sign = |key: &SigningKey| key.sign(event_id, timestamp_s, &transfer.body);
    let signatures: Vec<_> = settings.secrets.iter().filter_map(sign).collect();
    if !signatures.is_empty() {
        headers.push(("webhook-signature", signatures.join(" ")));
    }
    if transfer.kind.is_replay() {
        headers.push(("webhook-replay", "true".to_owned()));
    }
    let own = headers.into_iter().map(|(name, value)| (name.to_owned(), value));
    let custom = settings.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()));
    WebhookRequest {
        url: settings.webhook.clone(),
        headers: own.chain(custom).collect(),
        body: transfer.body.clone(),
        timeout: settings.timeout,
    }
}

/// The W3C trace context: a child of the one that came with the change, else a trace of its own that all
/// attempts share. It is sampled: a receiver that follows us would record nothing otherwise.
fn traceparent(transfer: &Transfer, span_id: [u8; 8]) -> String {
    use data_encoding::HEXLOWER;
    let span = HEXLOWER.encode(&span_id);
    match transfer.traceparent.as_deref().and_then(trace_and_flags) {
        Some((trace, flags)) => format!("00-{trace}-{span}-{flags}"),
        None => {
            let trace = HEXLOWER.encode(&Sha256::digest(transfer.event_id.as_str())[..16]);
            format!("00-{trace}-{span}-01")
        }
    }
}

/// The trace id and the flags of a `traceparent` of version 00; `None` when it is broken or of another
/// version: then the trace starts anew.
fn trace_and_flags(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("00-")?;
    let (trace, rest) = rest.split_once('-')?;
    let (parent, flags) = rest.split_once('-')?;
    let hex = |part: &str, length| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let id = |part: &str, length| hex(part, length) && part.bytes().any(|byte| byte != b'0');
    (id(trace, 32) && id(parent, 16) && hex(flags, 2)).then_some((trace, flags))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use bytes::Bytes;
    use serde_json::{Value, json};
    use standardwebhooks::Webhook;

    use super::*;
    use crate::domain::config::{ClientId, Status, read_value};
    use crate::domain::transfer::{
        DocumentHash, EventId, NewTransfer, Sequence, SourcePosition, TransferKind,
    };

    const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const OLD_SECRET: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
    const SPAN: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

    fn settings(value: Value) -> Arc<DeliverySettings> {
        read_value(&ClientId::new("a"), Status::Active, false, 1, 0, None, &value.to_string())
            .delivery
            .unwrap()
    }

    fn transfer(kind: TransferKind, traceparent: Option<&str>) -> Transfer {
        Transfer {
            sequence: Sequence { incarnation: 1, partition: 11, offset: 12_345 },
            content: NewTransfer {
                client: ClientId::new("a"),
                document: "identity.users:1".into(),
                document_hash: DocumentHash::of("wnx-identity", "users", "1"),
                event_id: EventId::from_stored("evt_abc"),
                kind,
                source: SourcePosition { topic: "mongo.wnx-identity.users".into(), partition: 0, offset: 1 },
                traceparent: traceparent.map(Into::into),
                ts_ms: 0,
                body: Bytes::from_static("{\"name\":\"Jürgen\"}".as_bytes()),
            },
        }
    }

    fn header<'a>(request: &'a WebhookRequest, name: &str) -> Option<&'a str> {
        let mut values =
            request.headers.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_str());
        let value = values.next();
        assert_eq!(values.next(), None, "{name} stands there once");
        value
    }

    #[test]
    fn carries_the_headers_of_the_contract() {
        let settings = settings(json!({
            "webhook": "https://a.test/hook", "authorization": "Basic  abc ", "headers": {"X-Tenant": "blue"},
            "timeout_ms": 2000,
        }));
        let transfer = transfer(TransferKind::Live, None);
        let request = request(&transfer, &settings, 1_767_225_600_999, SPAN);
        for (name, value) in [
            ("content-type", Some("application/json")),
            ("user-agent", Some(concat!("dispatcher/", env!("CARGO_PKG_VERSION")))),
            ("authorization", Some("Basic  abc ")),
            ("webhook-id", Some("evt_abc")),
            ("webhook-sequence", Some("1-11-12345")),
            ("webhook-timestamp", Some("1767225600")),
            ("x-tenant", Some("blue")),
            ("webhook-signature", None),
            ("webhook-replay", None),
        ] {
            assert_eq!(header(&request, name), value, "{name}");
        }
        assert_eq!(request.url, settings.webhook);
        assert_eq!(request.timeout, settings.timeout);
        assert_eq!(request.body, transfer.body);
    }

    #[test]
    fn is_plain_without_authorization_and_says_a_replay() {
        let settings = settings(json!({"webhook": "https://a.test/hook"}));
        let request = request(&transfer(TransferKind::Replay, None), &settings, -1, SPAN);
        assert_eq!(header(&request, "authorization"), None);
        assert_eq!(header(&request, "webhook-replay"), Some("true"));
        assert_eq!(header(&request, "webhook-timestamp"), Some("-1"));
    }

    /// Against the verifier of the `standardwebhooks` crate, which also checks that the timestamp is of now.
    #[test]
    fn each_secret_signs_and_verifies() {
        let settings = settings(json!({"webhook": "https://a.test", "secrets": [SECRET, OLD_SECRET]}));
        let now_ms = chrono::Utc::now().timestamp_millis();
        let request = request(&transfer(TransferKind::Live, None), &settings, now_ms, SPAN);
        let headers: HashMap<_, _> = request.headers.iter().cloned().collect();
        let verify = |secret: &str, body: &[u8]| {
            Webhook::new(secret).unwrap().verify(body, &(&headers).try_into().unwrap()).is_ok()
        };
        assert!(verify(SECRET, &request.body));
        assert!(verify(OLD_SECRET, &request.body));
        assert!(!verify(SECRET, b"{}"));
        assert!(!verify("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", &request.body));
        let first = Webhook::new(SECRET).unwrap().sign("evt_abc", now_ms / 1000, &request.body).unwrap();
        assert!(header(&request, "webhook-signature").unwrap().starts_with(&first));
    }

    #[test]
    fn continues_a_trace_or_starts_one() {
        const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
        let settings = settings(json!({"webhook": "https://a.test"}));
        let sent = |traceparent: Option<&str>| {
            let request = request(&transfer(TransferKind::Live, traceparent), &settings, 0, SPAN);
            header(&request, "traceparent").unwrap().to_owned()
        };
        assert_eq!(
            sent(Some(&format!("00-{TRACE}-00f067aa0ba902b7-00"))),
            format!("00-{TRACE}-0102030405060708-00")
        );
        let own = sent(None);
        assert_eq!(own.len(), 55);
        assert!(own.ends_with("-0102030405060708-01"));
        for broken in [
            "",
            "00",
            &format!("00-{TRACE}-00f067aa0ba902b7"),
            &format!("00-{TRACE}-00f067aa0ba902b7-01-x"),
            &format!("01-{TRACE}-00f067aa0ba902b7-01"),
            &format!("00-{}-00f067aa0ba902b7-01", TRACE.to_uppercase()),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            &format!("00-{TRACE}-0000000000000000-01"),
            &format!("00-{TRACE}-00f067aa0ba902b7-0\n"),
        ] {
            assert_eq!(sent(Some(broken)), own, "{broken:?}");
        }
    }
}
