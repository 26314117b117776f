//! The values that TOML has no type for: durations, sizes, secrets, what egress allows.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::de::{Deserialize, Deserializer, Error};

use crate::domain::config::Secret;

/// Webhook targets that are allowed although they are private.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressAllow {
    /// Addresses.
    Net(IpNet),
    /// A host name in lower case, or `*.` and the end of one.
    Host(String),
}

impl FromStr for EgressAllow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(net) = text.parse::<IpNet>() {
            return Ok(Self::Net(net));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Net(address.into()));
        }
        let name = text.strip_prefix("*.").unwrap_or(text);
        // A host name ends in a letter; what ends in a number is an address, and this one did not read as any.
        let is_name = name.split('.').all(is_label)
            && name.rsplit('.').next().is_some_and(|end| end.bytes().any(|byte| byte.is_ascii_alphabetic()));
        if is_name {
            return Ok(Self::Host(text.to_ascii_lowercase()));
        }
        Err(format!("{text:?} is no network (10.20.0.0/16), no address and no host name"))
    }
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

impl<'de> Deserialize<'de> for EgressAllow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
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

    #[test]
    fn egress_entries() {
        for (text, entry) in [
            ("10.0.0.0/8", EgressAllow::Net("10.0.0.0/8".parse().unwrap())),
            ("127.0.0.1", EgressAllow::Net("127.0.0.1/32".parse().unwrap())),
            ("::1", EgressAllow::Net("::1/128".parse().unwrap())),
            ("localhost", EgressAllow::Host("localhost".into())),
            ("*.Internal.example", EgressAllow::Host("*.internal.example".into())),
        ] {
            assert_eq!(text.parse(), Ok(entry), "{text}");
        }
        for text in
            ["", "*", "10.0.0.0/33", "10.0.0", "300.1.2.3", "a..b", "*.*.x", "http://x", "fe80::/200", "a b"]
        {
            assert!(text.parse::<EgressAllow>().is_err(), "{text}");
        }
    }
}
