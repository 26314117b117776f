//! The id of a document as text.

use super::super::extended_json::{self, Bson, Value};
use super::form::unwrap_schema;

/// The id of an `_id` value: the hex of an ObjectId, a string as it is, digits as written, a hyphenated UUID,
/// else compact JSON.
pub(super) fn id_text(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => return text.to_string(),
        Value::Number(digits) => return (*digits).to_string(),
        _ => {}
    }
    match Bson::recognise(value) {
        Some(Bson::ObjectId(hex)) => return hex.into_owned(),
        Some(Bson::Number(text) | Bson::NonFinite(text) | Bson::Decimal(text)) => return text.to_string(),
        Some(bson) => {
            if let Some(uuid) = bson.uuid() {
                return uuid;
            }
        }
        None => {}
    }
    let mut text = String::new();
    extended_json::write(value, &mut text);
    text
}

/// The id that a record key holds: `{"id": …}`, wrapped in a schema or not. Debezium writes the `_id` as JSON
/// text; flattening (ExtractNewDocumentState) puts the value itself there. `None`: the key does not tell.
pub(super) fn id_of_key(key: &[u8]) -> Option<String> {
    let key = extended_json::parse(std::str::from_utf8(key).ok()?).ok()?;
    let key = unwrap_schema(key);
    let id = key.get("id")?;
    let Value::String(text) = id else { return Some(id_text(id)) };
    match extended_json::parse(text) {
        // A flattened string that looks like a number or a word keeps its text.
        Ok(Value::Number(_) | Value::Bool(_) | Value::Null) => Some(text.trim().to_string()),
        Ok(value) => Some(id_text(&value)),
        // A flattened string; with quotes in it, a key that Debezium before 2.5 cut out of a shard key.
        Err(_) => (!text.is_empty() && !text.contains('"')).then(|| text.to_string()),
    }
}
