//! The world around the service under test.

pub(crate) mod api;
pub(crate) mod bad_tls;
#[cfg(feature = "cluster")]
pub(crate) mod cluster;
pub(crate) mod events;
pub(crate) mod fixtures;
#[cfg(feature = "cluster")]
pub(crate) mod health;
pub(crate) mod ledger;
pub(crate) mod load;
pub(crate) mod long_run;
pub(crate) mod metrics;
pub(crate) mod oracle;
pub(crate) mod owner;
pub(crate) mod receiver;
pub(crate) mod service;
#[cfg(feature = "cluster")]
pub(crate) mod stream;
pub(crate) mod turn;
pub(crate) mod wait;
#[cfg(feature = "cluster")]
pub(crate) mod witness;

/// The client id as one segment of a URL path.
pub(crate) fn path_segment(text: &str) -> String {
    let mut segment = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            segment.push(char::from(byte));
        } else {
            segment.push_str(&format!("%{byte:02X}"));
        }
    }
    segment
}

/// What [`path_segment`] made, back as text.
pub(crate) fn from_path_segment(segment: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = segment.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_path_segment_comes_back_as_it_was() {
    for text in ["plain", "a/b c", "ünï%20", "\u{0}"] {
        assert_eq!(from_path_segment(&path_segment(text)), text);
    }
}
