//! An attempt to deliver a change, as it is remembered for whoever asks why.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::config::{ClientId, DeliverySettings};
use super::transfer::EventId;

/// How much of an answer is remembered, in bytes.
pub const ANSWER_BYTES: usize = 1024;

/// Shorter values that we sent are no secrets: they are in every answer by chance.
const SHORTEST_SECRET: usize = 4;

/// Stands in an answer where it held something of ours that is secret.
const REDACTED: &str = "[redacted]";

/// An attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// When it ended, milliseconds since 1970.
    pub at_ms: i64,
    /// Whose.
    pub client: ClientId,
    /// The `webhook-id`.
    pub event_id: EventId,
    /// `<db>.<collection>:<id>`.
    pub document: Arc<str>,
    /// 1 for the first attempt at this change.
    pub attempt: u32,
    /// Whether it was answered with 2xx.
    pub delivered: bool,
    /// The status, when there was an answer.
    pub status: Option<u16>,
    /// Why it failed, as the metrics call it; empty when it did not.
    pub reason: String,
    /// From the start of the request to its end, milliseconds.
    pub latency_ms: u64,
    /// The beginning of the answer's body ([`answer_text`]); when there was no answer, what went wrong.
    pub answer: String,
}

impl Attempt {
    /// The form in which the API shows it; `id` is its number in the store.
    pub fn to_json(&self, id: Option<i64>) -> Value {
        json!({
            "id": id,
            "at_ms": self.at_ms,
            "event_id": self.event_id.as_str(),
            "document": &*self.document,
            "attempt": self.attempt,
            "outcome": if self.delivered { "delivered" } else { "failed" },
            "status": self.status,
            "reason": self.reason,
            "latency_ms": self.latency_ms,
            "answer": self.answer,
        })
    }
}

/// The beginning of an answer as text that may be shown: at most [`ANSWER_BYTES`], no characters that a terminal acts on, and nothing of what
/// `settings` made us send that nobody else shall see. Receivers echo requests more often than one would think.
pub fn answer_text(excerpt: &[u8], settings: &DeliverySettings) -> String {
    let mut text = String::from_utf8_lossy(&excerpt[..excerpt.len().min(ANSWER_BYTES)]).into_owned();
    if text.is_empty() {
        return text;
    }
    let secrets = secrets(settings);
    for secret in &secrets {
        if text.contains(secret.as_str()) {
            text = text.replace(secret, REDACTED);
        }
    }
    cut_beginning_of_secret(&mut text, &secrets);
    let mut shown: String = text.chars().filter(|c| *c != '\r').map(harmless).collect();
    let end = (0..=shown.len().min(ANSWER_BYTES)).rev().find(|end| shown.is_char_boundary(*end));
    shown.truncate(end.unwrap_or(0));
    shown
}

/// An excerpt may end within a secret.
fn cut_beginning_of_secret(text: &mut String, secrets: &[String]) {
    // The end of a character that the excerpt cut through.
    let whole = text.trim_end_matches(char::REPLACEMENT_CHARACTER).len();
    let ends_with_one = secrets.iter().find_map(|secret| {
        let lengths = secret.char_indices().map(|(at, _)| at).filter(|at| *at >= SHORTEST_SECRET);
        lengths.rev().find(|length| text[..whole].ends_with(&secret[..*length]))
    });
    if let Some(length) = ends_with_one {
        text.truncate(whole - length);
        text.push_str(REDACTED);
    }
}

/// Neither moves the cursor, nor rings, nor turns the direction of writing.
fn harmless(c: char) -> char {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if (c.is_control() && !matches!(c, '\n' | '\t')) || turns { char::REPLACEMENT_CHARACTER } else { c }
}

/// What is not to be seen of a request, the longest first: header values, the parts of the authorization, what the URL
/// holds beside its path; each also as JSON writes it.
fn secrets(settings: &DeliverySettings) -> Vec<String> {
    let mut secrets: Vec<String> = Vec::new();
    let headers = settings.headers.iter().map(|(_, value)| value);
    for value in settings.authorization.iter().chain(headers) {
        let value = value.expose().trim();
        secrets.push(value.to_owned());
        if let Some((scheme, credentials)) = value.split_once(' ') {
            secrets.push(credentials.trim().to_owned());
            if scheme.eq_ignore_ascii_case("basic") {
                let decoded = STANDARD.decode(credentials.trim()).unwrap_or_default();
                let pair = String::from_utf8(decoded).unwrap_or_default();
                secrets.extend(pair.split_once(':').map(|(_, password)| password.to_owned()));
                secrets.push(pair);
            }
        }
    }
    let url = &settings.webhook;
    secrets.extend(url.query().map(str::to_owned));
    secrets.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
    let escaped: Vec<String> = secrets
        .iter()
        .map(|secret| Value::from(secret.as_str()).to_string().trim_matches('"').to_owned())
        .flat_map(|json| [json.replace('/', "\\/"), json])
        .collect();
    secrets.extend(escaped);
    secrets.retain(|secret| secret.len() >= SHORTEST_SECRET);
    secrets.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    secrets.dedup();
    secrets
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::config::{Status, read_value};

    fn settings(value: Value) -> Arc<DeliverySettings> {
        read_value(&ClientId::new("a"), Status::Active, false, 1, 0, None, &value.to_string())
            .delivery
            .unwrap()
    }

    fn with_secrets() -> Arc<DeliverySettings> {
        settings(json!({
            "webhook": "https://a.test/in?token=hunter2&n=1",
            "authorization": "Bearer s3cr\"et/token",
            "headers": {"x-key": "k3y-k3y", "x-version": "1"},
        }))
    }

    #[test]
    fn what_we_sent_is_not_shown() {
        for (answer, shown) in [
            ("no such path", "no such path"),
            ("bad token s3cr\"et/token!", "bad token [redacted]!"),
            ("Authorization: Bearer s3cr\"et/token", "Authorization: [redacted]"),
            (r#"{"authorization":"Bearer s3cr\"et/token"}"#, r#"{"authorization":"[redacted]"}"#),
            (r#"{"a":"Bearer s3cr\"et\/token"}"#, r#"{"a":"[redacted]"}"#),
            ("k3y-k3y k3y-k3y", "[redacted] [redacted]"),
            ("Cannot POST /in?token=hunter2&n=1", "Cannot POST /in?[redacted]"),
            ("token hunter2 is gone", "token [redacted] is gone"),
            // The excerpt ends within it.
            ("you sent Bearer s3cr", "you sent [redacted]"),
            ("you sent k3y-k", "you sent [redacted]"),
            // By chance.
            ("error 1 of 1", "error 1 of 1"),
        ] {
            assert_eq!(answer_text(answer.as_bytes(), &with_secrets()), shown, "{answer}");
        }
    }

    #[test]
    fn a_basic_authorization_is_not_shown_decoded() {
        let settings =
            settings(json!({"webhook": "https://a.test/", "authorization": "Basic YW5uOmh1bnRlcjI="}));
        for answer in ["Basic YW5uOmh1bnRlcjI=", "YW5uOmh1bnRlcjI=", "ann:hunter2", "ann, hunter2"] {
            let shown = answer_text(answer.as_bytes(), &settings);
            assert!(!shown.contains("hunter2") && !shown.contains("YW5u"), "{shown}");
        }
    }

    #[test]
    fn what_a_terminal_would_act_on_is_replaced() {
        let plain = settings(json!({"webhook": "https://a.test/"}));
        let answer = b"a\x1b[2Jb\x00c\x07\r\nd\te\xff\xe2\x80\xae";
        assert_eq!(answer_text(answer, &plain), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}\nd\te\u{fffd}\u{fffd}");
        assert_eq!(answer_text("ü".repeat(2000).as_bytes(), &plain).len(), ANSWER_BYTES);
        assert_eq!(answer_text(b"", &plain), "");
    }

    proptest! {
        #[test]
        fn no_answer_shows_a_secret_or_grows(
            before in proptest::collection::vec(any::<u8>(), 0..1040),
            after in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let secret = "Bearer s3cr\"et/token";
            let answer = [before.as_slice(), secret.as_bytes(), &after].concat();
            let shown = answer_text(&answer, &with_secrets());
            prop_assert!(shown.len() <= ANSWER_BYTES);
            prop_assert!(!shown.contains("Bearer s3") && !shown.contains("s3cr\"et"), "{}", shown);
            prop_assert!(shown.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
        }
    }
}
