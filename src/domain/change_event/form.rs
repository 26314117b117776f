//! The forms in which Debezium gives a change: its envelope, a cloud event, a flattened document.

use std::borrow::Cow;

use super::super::extended_json::{Members, Value, get};
use super::image::{Document, Images};
use super::{Op, SkipReason, SourceRecord};

/// Why a record is no change.
pub(super) enum NoChange {
    /// The null record that follows a delete.
    Tombstone,
    /// Debezium's own.
    Skip(SkipReason),
    /// It cannot be read. The reason quotes nothing of it.
    Invalid(String),
}

impl From<&str> for NoChange {
    fn from(reason: &str) -> Self {
        Self::Invalid(reason.to_string())
    }
}

/// The form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::domain) enum Form {
    /// `before`, `after`, `source`, `op`.
    Envelope,
    /// A structured cloud event around the images.
    CloudEvent,
    /// The document itself (ExtractNewDocumentState), metadata in members and headers.
    Flattened,
}

impl Form {
    /// The form of an unwrapped value.
    pub(in crate::domain) fn of(value: &Value<'_>) -> Option<Self> {
        let has = |name| value.get(name).is_some();
        if has("specversion") && has("data") {
            Some(Self::CloudEvent)
        } else if has("op") && (has("source") || has("after") || has("before")) {
            Some(Self::Envelope)
        } else if has("_id") || has("__deleted") || has("__op") {
            Some(Self::Flattened)
        } else {
            None
        }
    }

    /// Where and when the change happened.
    pub(in crate::domain) fn origin(self, value: &Value<'_>, record: Option<&SourceRecord>) -> Origin {
        match self {
            Self::Envelope => Origin::of_envelope(value),
            Self::CloudEvent => Origin::of_cloud_event(value),
            Self::Flattened => Origin::of_flattened(value, record),
        }
    }

    /// Reads a value of this form.
    pub(super) fn read(self, members: Members<'_>, record: &SourceRecord) -> Result<Change, NoChange> {
        match self {
            Self::Envelope => envelope(members),
            Self::CloudEvent => cloud_event(members),
            Self::Flattened => flattened(members, record),
        }
    }
}

/// The payload of a value that the JSON converter wrapped: an object of just `schema` and `payload`.
pub(in crate::domain) fn unwrap_schema(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Object(mut members)
            if members.len() == 2
                && ["schema", "payload"].iter().all(|name| get(&members, name).is_some()) =>
        {
            take(&mut members, "payload").unwrap_or(Value::Null)
        }
        value => value,
    }
}

/// Takes a member out of an object.
pub(super) fn take<'a>(members: &mut Members<'a>, name: &str) -> Option<Value<'a>> {
    let index = members.iter().rposition(|(other, _)| other == name)?;
    Some(members.remove(index).1)
}

/// Where and when a change happened, as far as its value (or its headers) tells.
#[derive(Debug, Default)]
pub(in crate::domain) struct Origin {
    pub(in crate::domain) name: Option<String>,
    pub(in crate::domain) db: Option<String>,
    pub(in crate::domain) collection: Option<String>,
    pub(in crate::domain) ts_ms: Option<i64>,
}

impl Origin {
    fn of_envelope(value: &Value<'_>) -> Self {
        let source = |name| value.get("source").and_then(|source| source.get(name));
        Self {
            name: text(source("name")),
            db: text(source("db")),
            collection: text(source("collection")),
            ts_ms: time(value.get("ts_ms")).or_else(|| time(source("ts_ms"))),
        }
    }

    fn of_cloud_event(value: &Value<'_>) -> Self {
        Self {
            name: text(value.get("iodebeziumname")),
            db: text(value.get("iodebeziumdb")),
            collection: text(value.get("iodebeziumcollection")),
            ts_ms: time(value.get("iodebeziumtsms")),
        }
    }

    /// What Debezium was told to add stands in the value or in the headers.
    fn of_flattened(value: &Value<'_>, record: Option<&SourceRecord>) -> Self {
        let header = |name: &str| record?.header(name).map(|text| Value::String(Cow::Borrowed(text)));
        let added = |names: [&str; 2]| {
            let in_value = names.iter().find_map(|name| text(value.get(name)));
            in_value.or_else(|| names.iter().find_map(|name| text(header(name).as_ref())))
        };
        let added_time = |name| time(value.get(name)).or_else(|| time(header(name).as_ref()));
        Self {
            name: added(["__source_name", "__name"]),
            db: added(["__source_db", "__db"]),
            collection: added(["__source_collection", "__collection"]),
            ts_ms: added_time("__ts_ms").or_else(|| added_time("__source_ts_ms")),
        }
    }
}

fn text(value: Option<&Value<'_>>) -> Option<String> {
    value?.as_str().filter(|text| !text.is_empty()).map(str::to_string)
}

/// A time; 0 stands for "not known" in some versions.
fn time(value: Option<&Value<'_>>) -> Option<i64> {
    let ms: i64 = match value? {
        Value::Number(digits) => digits.parse().ok()?,
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    (ms > 0).then_some(ms)
}

/// A change as its form gives it, before the rules that all forms share.
pub(super) struct Change {
    pub(super) op: Op,
    pub(super) images: Images,
}

/// The operation of a letter.
fn op_of(value: &Value<'_>) -> Result<Op, NoChange> {
    match value.as_str() {
        Some("c") => Ok(Op::Create),
        Some("u") => Ok(Op::Update),
        Some("d") => Ok(Op::Delete),
        Some("r") => Ok(Op::Read),
        Some("t") => Err(NoChange::Skip(SkipReason::Truncate)),
        Some("m") => Err(NoChange::Skip(SkipReason::Message)),
        Some(_) => Err("unknown op".into()),
        None => Err("op is no string".into()),
    }
}

/// A member that is there and not null.
fn given<'v, 'a>(members: &'v Members<'a>, name: &str) -> Option<&'v Value<'a>> {
    get(members, name).filter(|value| **value != Value::Null)
}

fn envelope(mut value: Members<'_>) -> Result<Change, NoChange> {
    let op = op_of(get(&value, "op").unwrap_or(&Value::Null))?;
    let mut images = Images::take(&mut value)?;
    // Before 2.0 an update of the oplog had a patch, which is not trusted for clients.
    images.tell_update |= get(&value, "patch").is_some_and(|patch| patch.as_str().is_some());
    Ok(Change { op, images })
}

fn cloud_event(mut value: Members<'_>) -> Result<Change, NoChange> {
    let kind = get(&value, "type").and_then(Value::as_str).unwrap_or_default();
    if !kind.starts_with("io.debezium.connector.mongodb.") {
        return Err("a cloud event that is not Debezium's".into());
    }
    let op = given(&value, "iodebeziumop").map(op_of).transpose()?;
    let Some(Value::Object(mut data)) = take(&mut value, "data").map(unwrap_schema) else {
        return Err("the data is no object".into());
    };
    let images = Images::take(&mut data)?;
    // Without extension attributes the images tell what was done.
    let told = match (&images.before, &images.after) {
        _ if images.tell_update => Op::Update,
        (Some(_), Some(_)) => Op::Update,
        (None, Some(_)) => Op::Create,
        (_, None) => Op::Delete,
    };
    Ok(Change { op: op.unwrap_or(told), images })
}

fn flattened(mut value: Members<'_>, record: &SourceRecord) -> Result<Change, NoChange> {
    let is_true = |value: &Value<'_>| *value == Value::Bool(true) || value.as_str() == Some("true");
    let in_header = record.header("__op").map(|op| Value::String(Cow::Borrowed(op)));
    let op = match given(&value, "__op").or(in_header.as_ref()) {
        _ if get(&value, "__deleted").is_some_and(is_true) => Op::Delete,
        Some(op) => op_of(op)?,
        None => Op::Update,
    };
    value.retain(|(name, _)| !is_added(name));
    let only_id = value.iter().all(|(name, _)| name == "_id");
    let document = Some(Document::inline(&Value::Object(value)));
    let images = match op {
        // Without a pre-image the id is all there is.
        Op::Delete if only_id => Images { changed_fields: document, ..Images::default() },
        Op::Delete => Images { before: document, ..Images::default() },
        Op::Create | Op::Update | Op::Read => Images { after: document, ..Images::default() },
    };
    Ok(Change { op, images })
}

/// Whether flattening added this member.
fn is_added(name: &str) -> bool {
    let exact = ["__deleted", "__op", "__ts_ms", "__name", "__db", "__collection"];
    exact.contains(&name) || name.starts_with("__source_")
}
