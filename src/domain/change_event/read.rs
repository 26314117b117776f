//! Reads a source record, in every form that Debezium gives it.

use std::collections::HashSet;
use std::fmt::Display;

use super::super::extended_json::{self, Value};
use super::document_id::id_of_key;
use super::form::{Change, Form, NoChange, unwrap_schema};
use super::image::{Document, Images};
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
        Ok(event) => SourceEvent::Change(Box::new(event)),
        Err(NoChange::Tombstone) => SourceEvent::Tombstone(subject),
        Err(NoChange::Skip(reason)) => SourceEvent::Skip(subject, reason),
        Err(NoChange::Invalid(reason)) => SourceEvent::Invalid(subject, reason),
    }
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
) -> Result<ChangeEvent, NoChange> {
    let invalid = |what, err: &dyn Display| NoChange::Invalid(format!("the value is no {what}: {err}"));
    let text = std::str::from_utf8(value).map_err(|err| invalid("UTF-8", &err))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value = extended_json::parse(text).map_err(|err| invalid("JSON", &err))?;
    let value = unwrap_schema(value);
    if value == Value::Null {
        return Err(NoChange::Tombstone);
    }
    let form = Form::of(&value).ok_or("the value is no change event")?;
    let origin = form.origin(&value, Some(record));
    subject.db = origin.db.or(subject.db.take());
    subject.collection = origin.collection.or(subject.collection.take());
    if names.is_signal(subject) {
        return Err(NoChange::Skip(SkipReason::Signal));
    }
    let Value::Object(members) = value else { return Err("the value is no object".into()) };
    let change = form.read(members, record)?;
    let meta = Meta {
        ts_ms: origin.ts_ms.unwrap_or(record.timestamp_ms),
        source_name: origin.name.unwrap_or_else(|| names.prefix.to_string()),
        traceparent: record.header("traceparent").filter(|text| is_traceparent(text)).map(str::to_string),
    };
    change.finish(meta, subject)
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
    fn finish(self, meta: Meta, subject: &mut Subject) -> Result<ChangeEvent, NoChange> {
        let Self { op, images: Images { before, after, changed_fields, tell_update } } = self;
        let (before, after) = match op {
            Op::Create | Op::Read if after.is_none() => return Err("a create without after".into()),
            Op::Create | Op::Read => (None, after),
            Op::Update if before.is_none() && after.is_none() && !tell_update => {
                return Err("an update that tells nothing".into());
            }
            Op::Update => (before, after),
            Op::Delete => (before, None),
        };
        let (before_facts, after_facts) =
            (before.as_ref().map(Document::facts), after.as_ref().map(Document::facts));
        let effective = after_facts.or(before_facts).or(changed_fields.as_ref().map(Document::facts));
        let clients = effective.map(|facts| facts.clients.clone()).unwrap_or_default();
        let removed_clients = match (before_facts, after_facts) {
            (Some(before), Some(after)) => {
                let kept: HashSet<_> = after.clients.iter().collect();
                before.clients.iter().filter(|client| !kept.contains(client)).cloned().collect()
            }
            _ => Vec::new(),
        };
        if subject.id.is_none() {
            let of_images = effective.and_then(|facts| facts.id.clone());
            subject.id = of_images.or_else(|| before_facts?.id.clone());
        }
        let keys: Vec<_> =
            [before_facts, after_facts].into_iter().flatten().map(|facts| facts.other_key).collect();
        let Subject { db: Some(db), collection: Some(collection), id } = subject.clone() else {
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
            removed_clients,
            deleted: op == Op::Delete || effective.is_some_and(|facts| facts.deleted),
            traceparent: meta.traceparent,
            other_key: !keys.is_empty() && !keys.contains(&false),
            before_clients: before_facts.map(|facts| facts.clients.clone()).unwrap_or_default(),
            before: before.map(|document| document.image),
            after: after.map(|document| document.image),
        })
    }
}
