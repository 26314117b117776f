//! Reads a source record, in every form that Debezium gives it.

use std::collections::HashSet;

use super::super::extended_json::{self, Value};
use super::document_id::id_of_key;
use super::form::{Change, Form, Reason, unwrap_schema};
use super::image::Document;
use super::{ChangeEvent, Op, SkipReason, SourceEvent, SourceNames, SourceRecord, Subject};

/// Reads a source record. Never fails: what cannot be read is [`SourceEvent::Invalid`], with a reason that
/// quotes nothing of the record.
pub fn read(record: &SourceRecord, names: &SourceNames) -> SourceEvent {
    let topic = record.position.topic.as_ref();
    let (db, collection) = names.of_topic(topic).unzip();
    let mut subject = Subject { db, collection, id: None };
    // What the topic tells is not even parsed: these values need not be JSON.
    if subject.db.is_none() && names.is_side_topic(topic) {
        return SourceEvent::Skip(subject, SkipReason::SideTopic);
    }
    if names.is_signal(&subject) {
        return SourceEvent::Skip(subject, SkipReason::Signal);
    }
    subject.id = record.key.as_deref().and_then(id_of_key);
    let Some(value) = &record.value else { return SourceEvent::Tombstone(subject) };
    match read_value(value, record, names, &mut subject) {
        Ok(Found::Change(event)) => SourceEvent::Change(event),
        Ok(Found::Tombstone) => SourceEvent::Tombstone(subject),
        Ok(Found::Skip(reason)) => SourceEvent::Skip(subject, reason),
        Err(reason) => SourceEvent::Invalid(subject, reason.into_owned()),
    }
}

enum Found {
    Change(Box<ChangeEvent>),
    Tombstone,
    Skip(SkipReason),
}

impl SourceNames {
    /// The database and the collection that a topic `<prefix>.<db>.<collection>` names. A collection may hold
    /// dots, a database none.
    fn of_topic(&self, topic: &str) -> Option<(String, String)> {
        let rest = topic.strip_prefix(self.prefix.as_ref())?.strip_prefix('.')?;
        let (db, collection) = rest.split_once('.')?;
        (!db.is_empty() && !collection.is_empty()).then(|| (db.to_string(), collection.to_string()))
    }

    /// Of a topic that names no collection: whether it is Debezium's own.
    fn is_side_topic(&self, topic: &str) -> bool {
        let is_ours = |rest: &str| rest.is_empty() || rest.starts_with('.');
        topic.starts_with("__debezium-heartbeat")
            || topic.strip_prefix(self.prefix.as_ref()).is_some_and(is_ours)
    }

    fn is_signal(&self, subject: &Subject) -> bool {
        let (Some(db), Some(collection)) = (&subject.db, &subject.collection) else { return false };
        self.signal_collections.iter().any(|signal| {
            let with_db = || signal.strip_prefix(db.as_str()).and_then(|rest| rest.strip_prefix('.'));
            signal == collection || with_db() == Some(collection)
        })
    }
}

fn read_value(
    value: &[u8],
    record: &SourceRecord,
    names: &SourceNames,
    subject: &mut Subject,
) -> Result<Found, Reason> {
    let text = std::str::from_utf8(value).map_err(|err| format!("the value is no UTF-8: {err}"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value = extended_json::parse(text).map_err(|err| format!("the value is no JSON: {err}"))?;
    let value = unwrap_schema(value);
    if value == Value::Null {
        return Ok(Found::Tombstone);
    }
    let form = Form::of(&value).ok_or("the value is no change event")?;
    let origin = form.origin(&value, Some(record));
    subject.db = origin.db.or(subject.db.take());
    subject.collection = origin.collection.or(subject.collection.take());
    if names.is_signal(subject) {
        return Ok(Found::Skip(SkipReason::Signal));
    }
    let Value::Object(members) = value else { return Err("the value is no object".into()) };
    let change = match form.read(members, record)? {
        Ok(change) => change,
        Err(skip) => return Ok(Found::Skip(skip)),
    };
    let meta = Meta {
        ts_ms: origin.ts_ms.unwrap_or(record.timestamp_ms),
        source_name: origin.name.unwrap_or_else(|| names.prefix.to_string()),
        traceparent: record.header("traceparent").filter(|text| is_traceparent(text)).map(str::to_string),
    };
    change.finish(meta, subject).map(|event| Found::Change(Box::new(event)))
}

/// Whether a text is a W3C trace context.
fn is_traceparent(text: &str) -> bool {
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    match text.split('-').collect::<Vec<_>>().as_slice() {
        [version, trace, parent, flags] => {
            hex(version, 2)
                && *version != "ff"
                && hex(trace, 32)
                && !zero(trace)
                && hex(parent, 16)
                && !zero(parent)
                && hex(flags, 2)
        }
        _ => false,
    }
}

struct Meta {
    ts_ms: i64,
    source_name: String,
    traceparent: Option<String>,
}

impl Change {
    /// The rules that all forms share.
    fn finish(self, meta: Meta, subject: &mut Subject) -> Result<ChangeEvent, Reason> {
        let Self { op, before, after, partial } = self;
        let (before, after) = match op {
            Op::Create | Op::Read if after.is_none() => return Err("a create without after".into()),
            Op::Create | Op::Read => (None, after),
            Op::Update if before.is_none() && after.is_none() && partial.is_none() => {
                return Err("an update that tells nothing".into());
            }
            Op::Update => (before, after),
            Op::Delete => (before, None),
        };
        let removed_clients = match (&before, &after) {
            (Some(before), Some(after)) => {
                let kept: HashSet<_> = after.clients.iter().collect();
                before.clients.iter().filter(|client| !kept.contains(client)).cloned().collect()
            }
            _ => Vec::new(),
        };
        let partial = partial.flatten();
        let effective = after.as_ref().or(before.as_ref()).or(partial.as_ref());
        let clients = effective.map(|document| document.clients.clone()).unwrap_or_default();
        let deleted = op == Op::Delete || effective.is_some_and(|document| document.deleted);
        let id_of = |document: Option<&Document>| document.and_then(|document| document.id.clone());
        let id = subject.id.take().or_else(|| id_of(effective)).or_else(|| id_of(before.as_ref()));
        subject.id.clone_from(&id);
        let has_image = before.is_some() || after.is_some();
        let other_key = has_image && [&before, &after].into_iter().flatten().all(|image| image.other_key);
        let (Some(db), Some(collection)) = (subject.db.clone(), subject.collection.clone()) else {
            return Err("nothing tells the database and the collection".into());
        };
        Ok(ChangeEvent {
            op,
            db,
            collection,
            id: id.ok_or("nothing tells the document's id")?,
            ts_ms: meta.ts_ms,
            source_name: meta.source_name,
            clients,
            before_clients: before.as_ref().map(|document| document.clients.clone()).unwrap_or_default(),
            removed_clients,
            deleted,
            traceparent: meta.traceparent,
            other_key,
            before: before.map(|document| document.image),
            after: after.map(|document| document.image),
        })
    }
}
