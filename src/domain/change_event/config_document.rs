//! The document of `context/configs` that configures a client.

use super::super::config::{ClientId, Secret};
use super::super::document::write_plain;
use super::super::extended_json::{self, Bson, Value};
use super::document_id::id_text;

/// A document of the config collection, its members as far as they have the right type. Whether `value` can
/// be used is for `config` to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigDocument {
    /// What it configures; `CQRS` is ours.
    pub key: Option<String>,
    /// The client: hex of an ObjectId, or text.
    pub eid: Option<ClientId>,
    /// `ACTIVE` or `INACTIVE`.
    pub status: Option<String>,
    /// The `value` as plain JSON; holds secrets.
    pub value: Option<Secret>,
    /// Soft-deleted.
    pub deleted: bool,
    /// Rises with each change.
    pub version: Option<i64>,
    /// When it was changed, milliseconds since 1970.
    pub updated_at_ms: Option<i64>,
    /// Who owns it.
    pub owner: Option<String>,
}

impl ConfigDocument {
    /// Reads the extended JSON of a config document. `None`: no object.
    pub fn read(text: &str) -> Option<Self> {
        let Ok(document @ Value::Object(_)) = extended_json::parse_image(text) else { return None };
        let text = |name| document.get(name).and_then(Value::as_str).map(str::to_string);
        let id = |name| {
            document.get(name).filter(|value| **value != Value::Null).map(id_text).filter(|id| !id.is_empty())
        };
        Some(Self {
            key: text("key"),
            eid: id("eid").map(|id| ClientId::new(&id)),
            status: text("status"),
            value: document.get("value").map(|value| {
                let mut plain = String::new();
                write_plain(value, &mut plain);
                Secret::new(plain)
            }),
            deleted: is_deleted(&document),
            version: document.get("version").and_then(whole_number),
            updated_at_ms: document.get("updated_at").and_then(milliseconds),
            owner: id("owner"),
        })
    }
}

/// Whether a document is soft-deleted: any `deleted_at` counts that is there and neither null nor undefined.
pub(super) fn is_deleted(document: &Value<'_>) -> bool {
    let is_undefined = |value: &Value<'_>| match value {
        Value::Object(members) => {
            matches!(members.as_slice(), [(name, Value::Bool(true))] if name == "$undefined")
        }
        _ => false,
    };
    document.get("deleted_at").is_some_and(|value| *value != Value::Null && !is_undefined(value))
}

fn whole_number(value: &Value<'_>) -> Option<i64> {
    match Bson::recognise(value) {
        Some(Bson::Number(digits)) => digits.parse().ok(),
        _ => value.as_i64(),
    }
}

fn milliseconds(value: &Value<'_>) -> Option<i64> {
    match Bson::recognise(value) {
        Some(Bson::Date(ms)) => Some(ms),
        _ => whole_number(value),
    }
}
