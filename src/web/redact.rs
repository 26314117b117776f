//! What may be seen of a client config's value.

use serde_json::{Map, Value};

use crate::domain::access::AccessRole;

/// The members that hold no secret. Of every other, known or not, only its presence shows.
const OPEN: &[&str] =
    &["timeout_ms", "concurrency", "rate_limit", "ordering", "format", "filter", "coalesce"];

/// The value of a config without its secrets: they read `"set"`. Of the webhook's path only whoever may see payloads sees more than that there is
/// one: with some receivers it is what lets one in.
pub(super) fn redact(value: &str, role: AccessRole) -> Value {
    let Ok(Value::Object(members)) = serde_json::from_str::<Value>(value) else {
        return set();
    };
    let redacted = members.into_iter().map(|(name, value)| {
        let shown = match (name.as_str(), value) {
            ("webhook", Value::String(webhook)) => redact_url(&webhook, role),
            ("headers", Value::Object(headers)) => {
                Value::Object(headers.into_iter().map(|(name, _)| (name, set())).collect())
            }
            (name, value) if OPEN.contains(&name) => value,
            _ => set(),
        };
        (name, shown)
    });
    Value::Object(redacted.collect::<Map<_, _>>())
}

/// A webhook's URL without user, password, query and fragment: receivers put tokens there.
fn redact_url(text: &str, role: AccessRole) -> Value {
    let Ok(mut url) = url::Url::parse(text) else { return set() };
    if !url.username().is_empty() || url.password().is_some() {
        // Fails only for URLs that have no host, and these have no user either.
        let _ = url.set_username("set");
        let _ = url.set_password(None);
    }
    if url.query().is_some() {
        url.set_query(Some("set"));
    }
    url.set_fragment(None);
    if role != AccessRole::Operator && url.path() != "/" {
        url.set_path("set");
    }
    Value::String(url.into())
}

fn set() -> Value {
    Value::String("set".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_secret_shows() {
        let value = r#"{"webhook":"https://user:hunter2@example.test/in?token=hunter2#hunter2","authorization":"hunter2",
            "secret":"hunter2","secrets":["hunter2"],"headers":{"x-key":"hunter2"},"timeout_ms":5000,"unknown":{"a":"hunter2"},
            "filter":{"ops":["c"]}}"#;
        let shown = redact(value, AccessRole::Operator);
        assert!(!shown.to_string().contains("hunter2"), "{shown}");
        assert_eq!(
            shown.to_string(),
            r#"{"webhook":"https://set@example.test/in?set","authorization":"set","secret":"set","secrets":"set","headers":{"x-key":"set"},"timeout_ms":5000,"unknown":"set","filter":{"ops":["c"]}}"#
        );
    }

    #[test]
    fn a_viewer_does_not_see_the_path() {
        for (webhook, shown) in [
            ("https://example.test/services/hunter2", "https://example.test/set"),
            ("https://example.test:8443/", "https://example.test:8443/"),
        ] {
            let value = json!({ "webhook": webhook }).to_string();
            assert_eq!(redact(&value, AccessRole::Viewer), json!({ "webhook": shown }));
            assert_eq!(redact(&value, AccessRole::Operator), json!({ "webhook": webhook }));
        }
    }

    #[test]
    fn what_is_no_config_shows_nothing() {
        for value in [
            "\"hunter2\"",
            "hunter2",
            "[\"hunter2\"]",
            r#"{"webhook":"hunter2"}"#,
            r#"{"headers":"hunter2"}"#,
        ] {
            assert!(!redact(value, AccessRole::Operator).to_string().contains("hunter2"), "{value}");
        }
    }
}
