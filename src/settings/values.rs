//! The values that TOML has no type for.

use std::path::PathBuf;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};

use super::Start;
use crate::backends::http::EgressRule;
use crate::domain::config::{Secret, SigningKey};

/// Networks, addresses and host names.
pub(super) fn egress_rule<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EgressRule, D::Error> {
    EgressRule::parse(&Vec::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// `5s`, `15min`, `3d`, `100day`.
pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text)
        .map_err(|_| D::Error::custom(format!("{text:?} is no duration (write 500ms, 5s, 15min or 3d)")))
}

/// `16KiB`, `8MiB`, `1GiB`, or bytes.
pub(super) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_size(&text)
        .ok_or_else(|| D::Error::custom(format!("{text:?} is no size (write 16KiB, 8MiB or 1GiB)")))
}

fn parse_size(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim_start() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

/// An empty text is none.
pub(super) fn optional_secret<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Secret>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(D::Error::custom("only visible ASCII characters without spaces fit into a header"));
    }
    Ok((!text.is_empty()).then(|| Secret::new(text)))
}

/// A password, or a URL that may hold one. An empty text is none.
pub(super) fn password<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.chars().any(char::is_control) {
        return Err(D::Error::custom("must not hold control characters"));
    }
    Ok((!text.is_empty()).then(|| Secret::new(text)))
}

/// A Standard Webhooks secret. An empty text is none.
pub(super) fn signing_key<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SigningKey>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Ok(None);
    }
    SigningKey::read(&text).map(Some).map_err(D::Error::custom)
}

/// `now`, `earliest`, or a time as RFC 3339 has it.
pub(super) fn start<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Start, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.as_str() {
        "now" => Ok(Start::Now),
        "earliest" => Ok(Start::Earliest),
        time => match chrono::DateTime::parse_from_rfc3339(time) {
            Ok(time) => Ok(Start::At(time.timestamp_millis())),
            Err(_) => Err(D::Error::custom(format!(
                "{text:?} is neither now, earliest nor a time (write 2026-01-31T08:00:00Z)"
            ))),
        },
    }
}

/// An empty text is none.
pub(super) fn optional_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, size) in
            [("0", Some(0)), ("512", Some(512)), ("16KiB", Some(16384)), ("8 MiB", Some(8 << 20))]
        {
            assert_eq!(parse_size(text), size, "{text}");
        }
        for text in ["", "MiB", "8MB", "-1", "1.5MiB", "99999999999999999999", "99999999999GiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
