//! The secret that signs a client's requests.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use standardwebhooks::Webhook;

/// The bytes of a Standard Webhooks secret. Its `Debug` shows nothing of them.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(Vec<u8>);

impl SigningKey {
    /// Reads `whsec_` and base64, or base64 alone, of 24 to 64 bytes (the bounds of the Standard Webhooks
    /// specification). The error says what is wrong and holds nothing of the text.
    pub fn read(text: &str) -> Result<Self, &'static str> {
        let encoded = text.strip_prefix("whsec_").unwrap_or(text);
        let bytes =
            STANDARD.decode(encoded).map_err(|_| "is not base64 (with or without `whsec_` before it)")?;
        if (24..=64).contains(&bytes.len()) { Ok(Self(bytes)) } else { Err("must be of 24 to 64 bytes") }
    }

    /// The signature `v1,<base64>` of a request. `None` when the body is not UTF-8: there is no signature
    /// for that.
    pub fn sign(&self, event_id: &str, timestamp_s: i64, body: &[u8]) -> Option<String> {
        Webhook::from_bytes(self.0.clone()).and_then(|key| key.sign(event_id, timestamp_s, body)).ok()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_standard_form_and_nothing_else() {
        let encoded = STANDARD.encode([7; 24]);
        assert_eq!(SigningKey::read(&encoded), SigningKey::read(&format!("whsec_{encoded}")));
        for (bytes, legal) in [(0, false), (23, false), (24, true), (64, true), (65, false)] {
            let text = format!("whsec_{}", STANDARD.encode(vec![1; bytes]));
            assert_eq!(SigningKey::read(&text).is_ok(), legal, "{bytes} bytes");
        }
        for text in ["", "whsec_", "not base64!", "whsec_whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"] {
            assert!(SigningKey::read(text).is_err(), "{text:?}");
        }
    }

    /// The example of the `standardwebhooks` crate.
    #[test]
    fn signs_as_the_specification_says() {
        let key = SigningKey::read("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").unwrap();
        let body = br#"{"email":"test@example.com","username":"test_user"}"#;
        assert_eq!(
            key.sign("msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", 1_649_367_553, body).as_deref(),
            Some("v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=")
        );
        assert_eq!(key.sign("msg", 0, &[0xff]), None);
        assert_eq!(format!("{key:?}"), "SigningKey(..)");
    }
}
