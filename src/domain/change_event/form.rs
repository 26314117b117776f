//! The forms in which Debezium gives a change: its envelope, a cloud event, a flattened document.

use std::borrow::Cow;

use super::super::extended_json::{Members, Value, get};
use super::image::{Document, Images};
use super::{Op, SkipReason, SourceRecord};

/// Why a record cannot be read. Quotes nothing of it.
pub(super) type Reason = Cow<'static, str>;

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
    pub(super) fn read(self, members: Members<'_>, record: &SourceRecord) -> Read {
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
    pub(super) before: Option<Document>,
    pub(super) after: Option<Document>,
    /// An update without images that tells its changed fields, if any can be read.
    pub(super) partial: Option<Option<Document>>,
}

/// What a form is read to: a change, or nothing to do.
pub(super) type Read = Result<Result<Change, SkipReason>, Reason>;

/// The operation of a letter.
fn op_of(value: Option<&Value<'_>>) -> Result<Result<Op, SkipReason>, Reason> {
    Ok(match value {
        Some(Value::String(letter)) => match letter.as_ref() {
            "c" => Ok(Op::Create),
            "u" => Ok(Op::Update),
            "d" => Ok(Op::Delete),
            "r" => Ok(Op::Read),
            "t" => Err(SkipReason::Truncate),
            "m" => Err(SkipReason::Message),
            _ => return Err("unknown op".into()),
        },
        _ => return Err("op is no string".into()),
    })
}

fn envelope(mut value: Members<'_>) -> Read {
    let op = match op_of(get(&value, "op"))? {
        Ok(op) => op,
        Err(skip) => return Ok(Err(skip)),
    };
    let Images { before, after, mut partial } = Images::take(&mut value)?;
    // Before 2.0 an update of the oplog had a patch, which is not trusted for clients.
    if partial.is_none() && get(&value, "patch").is_some_and(|patch| patch.as_str().is_some()) {
        partial = Some(None);
    }
    Ok(Ok(Change { op, before, after, partial }))
}

fn cloud_event(mut value: Members<'_>) -> Read {
    let kind = get(&value, "type").and_then(Value::as_str).unwrap_or_default();
    if !kind.starts_with("io.debezium.connector.mongodb.") {
        return Err("a cloud event that is not Debezium's".into());
    }
    let op = match get(&value, "iodebeziumop") {
        None | Some(Value::Null) => None,
        op => match op_of(op)? {
            Ok(op) => Some(op),
            Err(skip) => return Ok(Err(skip)),
        },
    };
    let Some(Value::Object(mut data)) = take(&mut value, "data").map(unwrap_schema) else {
        return Err("the data is no object".into());
    };
    let Images { before, after, partial } = Images::take(&mut data)?;
    // Without extension attributes the images tell what was done.
    let op = op.unwrap_or(match (&before, &after) {
        _ if partial.is_some() => Op::Update,
        (Some(_), Some(_)) => Op::Update,
        (None, Some(_)) => Op::Create,
        (_, None) => Op::Delete,
    });
    Ok(Ok(Change { op, before, after, partial }))
}

fn flattened(mut value: Members<'_>, record: &SourceRecord) -> Read {
    let is_true = |value: &Value<'_>| *value == Value::Bool(true) || value.as_str() == Some("true");
    let deleted = get(&value, "__deleted").is_some_and(is_true);
    let in_header = record.header("__op").map(|op| Value::String(Cow::Borrowed(op)));
    let op = match get(&value, "__op").or(in_header.as_ref()) {
        _ if deleted => Op::Delete,
        None | Some(Value::Null) => Op::Update,
        op => match op_of(op)? {
            Ok(op) => op,
            Err(skip) => return Ok(Err(skip)),
        },
    };
    value.retain(|(name, _)| !is_added(name));
    let only_id = value.iter().all(|(name, _)| name == "_id");
    let document = Document::inline(&Value::Object(value));
    Ok(Ok(match op {
        // Without a pre-image the id is all there is.
        Op::Delete if only_id => Change { op, before: None, after: None, partial: Some(Some(document)) },
        Op::Delete => Change { op, before: Some(document), after: None, partial: None },
        _ => Change { op, before: None, after: Some(document), partial: None },
    }))
}

/// Whether flattening added this member.
fn is_added(name: &str) -> bool {
    let exact = ["__deleted", "__op", "__ts_ms", "__name", "__db", "__collection"];
    exact.contains(&name) || name.starts_with("__source_")
}
