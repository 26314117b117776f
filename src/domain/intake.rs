//! Records that come in by `POST /v1/events` and `dispatcher send`: in our own form, or as bare Debezium
//! values, as Debezium Server's HTTP sink posts them.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::change_event::{Form, unwrap_schema};
use super::extended_json::{self, ParseError, Value, Values};

/// The largest record, key, value and headers together: 16 MiB.
pub const MAX_RECORD_BYTES: usize = 16 * 1024 * 1024;

/// The longest topic name that Kafka takes.
const MAX_TOPIC_BYTES: usize = 249;

/// A source record that has no position yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// The topic.
    pub topic: Arc<str>,
    /// The key bytes.
    pub key: Option<Bytes>,
    /// The value bytes; `None` is a tombstone.
    pub value: Option<Bytes>,
    /// The headers, in order; of a name that comes twice the last counts.
    pub headers: Vec<(String, Bytes)>,
}

/// Why records were not taken. Quotes nothing of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {index}: {problem}")]
pub struct IntakeError {
    /// Which record, from 0 on.
    pub index: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// Where records belong that do not say it themselves.
#[derive(Debug, Clone, Copy)]
pub struct Defaults<'a> {
    /// The topic prefix, `mongo`: with the database and collection of a bare value it makes its topic.
    pub prefix: &'a str,
    /// The topic of bare values that tell no database and collection.
    pub topic: Option<&'a str>,
}

/// Reads the body of a request: one JSON value, a record or an array of records.
///
/// # Errors
///
/// When any record cannot be taken: then none is. Whether a value can be read as a change is not asked here.
pub fn read_request(body: &[u8], defaults: Defaults<'_>) -> Result<Vec<NewRecord>, IntakeError> {
    let value = extended_json::parse(text_of(body)?).map_err(|err| no_json(0, err))?;
    let mut records = Vec::new();
    push(value, defaults, &mut records)?;
    Ok(records)
}

/// Reads a file: JSON values one after the other, each a record or an array of records. JSON lines are such a
/// file, and so is a single array or a pretty-printed object.
///
/// # Errors
///
/// As [`read_request`].
pub fn read_file(content: &[u8], defaults: Defaults<'_>) -> Result<Vec<NewRecord>, IntakeError> {
    let mut records = Vec::new();
    for value in Values::new(text_of(content)?) {
        push(value.map_err(|err| no_json(records.len(), err))?, defaults, &mut records)?;
    }
    Ok(records)
}

fn text_of(bytes: &[u8]) -> Result<&str, IntakeError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|err| IntakeError { index: 0, problem: format!("no UTF-8: {err}") })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn no_json(index: usize, err: ParseError) -> IntakeError {
    IntakeError { index, problem: format!("no JSON: {err}") }
}

fn push(value: Value<'_>, defaults: Defaults<'_>, records: &mut Vec<NewRecord>) -> Result<(), IntakeError> {
    let values = match value {
        Value::Array(values) => values,
        value => vec![value],
    };
    for value in values {
        let index = records.len();
        records.push(record(value, defaults).map_err(|problem| IntakeError { index, problem })?);
    }
    Ok(())
}

fn record(value: Value<'_>, defaults: Defaults<'_>) -> Result<NewRecord, String> {
    let record = match own_topic(&value) {
        Some(topic) => ours(topic, &value)?,
        None => bare(value, defaults)?,
    };
    let size = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
    let headers: usize = record.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size(&record.key) + size(&record.value) + headers > MAX_RECORD_BYTES {
        return Err(format!("larger than {MAX_RECORD_BYTES} bytes"));
    }
    Ok(record)
}

/// The topic of a record in our own form. `None`: a bare value, which may well have a field `topic`.
fn own_topic<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    let topic = value.get("topic")?.as_str()?;
    let has_value = matches!(value.get("value"), Some(Value::String(_) | Value::Null));
    (has_value || matches!(value.get("value_base64"), Some(Value::String(_)))).then_some(topic)
}

fn ours(topic: &str, record: &Value<'_>) -> Result<NewRecord, String> {
    Ok(NewRecord {
        topic: checked_topic(topic)?,
        key: bytes_of(record, "key", "key_base64")?,
        value: bytes_of(record, "value", "value_base64")?,
        headers: headers_of(record)?,
    })
}

/// Bytes as a string or in base64; `None` when neither is there.
fn bytes_of(record: &Value<'_>, name: &str, base64_name: &str) -> Result<Option<Bytes>, String> {
    let text = |name: &str| match record.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_ref())),
        Some(_) => Err(format!("{name} is no string")),
    };
    match (text(name)?, text(base64_name)?) {
        (Some(_), Some(_)) => Err(format!("both {name} and {base64_name}")),
        (Some(text), None) => Ok(Some(Bytes::copy_from_slice(text.as_bytes()))),
        (None, Some(base64)) => match STANDARD.decode(base64) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(_) => Err(format!("{base64_name} is no base64")),
        },
        (None, None) => Ok(None),
    }
}

fn headers_of(record: &Value<'_>) -> Result<Vec<(String, Bytes)>, String> {
    let members = match record.get("headers") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(members)) => members,
        Some(_) => return Err("headers is no object".to_string()),
    };
    let header = |(name, value): &(std::borrow::Cow<'_, str>, Value<'_>)| match value {
        Value::String(text) => Ok((name.to_string(), Bytes::copy_from_slice(text.as_bytes()))),
        _ => Err("a header is no string".to_string()),
    };
    members.iter().map(header).collect()
}

/// A Debezium value without key and topic: the topic is where it came from, else the default.
fn bare(value: Value<'_>, defaults: Defaults<'_>) -> Result<NewRecord, String> {
    if !matches!(value, Value::Object(_)) {
        return Err("neither a record nor a change event".to_string());
    }
    let mut text = String::new();
    extended_json::write(&value, &mut text);
    let value = unwrap_schema(value);
    let origin = Form::of(&value).map(|form| form.origin(&value, None)).unwrap_or_default();
    let topic = match (origin.db, origin.collection, defaults.topic) {
        (Some(db), Some(collection), _) => kafka_name(&format!("{}.{db}.{collection}", defaults.prefix)),
        (_, _, Some(topic)) => topic.to_string(),
        _ => {
            return Err("a value that tells no database and collection: give a topic, or send \
                        {\"topic\", \"key\", \"value\"} with the value as a string"
                .to_string());
        }
    };
    Ok(NewRecord { topic: checked_topic(&topic)?, key: None, value: Some(text.into()), headers: Vec::new() })
}

fn is_kafka_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-')
}

/// The topic name that Debezium makes of a collection: what Kafka does not allow becomes `_`.
fn kafka_name(name: &str) -> String {
    name.chars().map(|character| if is_kafka_character(character) { character } else { '_' }).collect()
}

fn checked_topic(topic: &str) -> Result<Arc<str>, String> {
    let fits = (1..=MAX_TOPIC_BYTES).contains(&topic.len()) && topic != "." && topic != "..";
    if fits && topic.chars().all(is_kafka_character) {
        Ok(topic.into())
    } else {
        Err("topic is no topic name of Kafka".to_string())
    }
}

#[cfg(test)]
mod tests;
