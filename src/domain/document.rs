//! The webhook body, and the plain form of documents in it.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat};

use super::change_event::{ChangeEvent, Image, Op};
use super::config::BodyFormat;
use super::extended_json::{self, Bson, Value, write_array, write_object, write_string};

/// Which body of a change a client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BodyShape {
    /// The form of the documents.
    pub format: BodyFormat,
    /// With the document before the change, where it is known: for clients that could see it.
    pub before: bool,
    /// For a client that lost access: as a delete, without the document after the change.
    pub revocation: bool,
}

/// The bodies of one change, each made once.
#[derive(Debug)]
pub struct Bodies<'a> {
    event: &'a ChangeEvent,
    made: Vec<(BodyShape, Bytes)>,
    plain: Images,
    extended: Images,
}

/// The members `after` and `before` of a body in one form, a comma in front; empty where there is no image.
#[derive(Debug, Default)]
struct Images {
    after: Option<String>,
    before: Option<String>,
}

impl<'a> Bodies<'a> {
    /// The bodies of this change.
    pub fn new(event: &'a ChangeEvent) -> Self {
        Self { event, made: Vec::new(), plain: Images::default(), extended: Images::default() }
    }

    /// The body of this shape; the clones share one buffer.
    pub fn body(&mut self, shape: BodyShape) -> Bytes {
        if let Some((_, body)) = self.made.iter().find(|(made, _)| *made == shape) {
            return body.clone();
        }
        let ChangeEvent { op, before, after, id, .. } = self.event;
        let images = match shape.format {
            BodyFormat::Plain => &mut self.plain,
            BodyFormat::Extended => &mut self.extended,
        };
        let mut text = String::with_capacity(1024);
        write_head(self.event, if shape.revocation { Op::Delete } else { *op }, &mut text);
        if !shape.revocation {
            let member = || image_member("after", after.as_ref(), shape.format, id);
            text.push_str(images.after.get_or_insert_with(member));
        }
        if shape.before {
            let member = || image_member("before", before.as_ref(), shape.format, id);
            text.push_str(images.before.get_or_insert_with(member));
        }
        text.push('}');
        // Not a byte more than it holds: thousands of bodies stay in memory.
        let body = Bytes::from(text.into_boxed_str().into_boxed_bytes());
        self.made.push((shape, body.clone()));
        body
    }
}

fn write_head(event: &ChangeEvent, op: Op, out: &mut String) {
    let ChangeEvent { id, ts_ms, db, collection, source_name, .. } = event;
    out.push_str("{\"id\":");
    write_string(id, out);
    out.push_str(",\"ts_ms\":");
    out.push_str(&ts_ms.to_string());
    out.push_str(",\"op\":");
    write_string(op.as_str(), out);
    out.push_str(",\"topic\":");
    write_string(&format!("{db}.{collection}"), out);
    out.push_str(",\"source\":{\"name\":");
    write_string(source_name, out);
    out.push_str(",\"db\":");
    write_string(db, out);
    out.push_str(",\"collection\":");
    write_string(collection, out);
    out.push('}');
}

fn image_member(name: &str, image: Option<&Image>, format: BodyFormat, id: &str) -> String {
    let Some(image) = image else { return String::new() };
    let members = image.members();
    let mut out = String::with_capacity(image.text().len() + 16);
    out.push(',');
    write_string(name, &mut out);
    out.push(':');
    match format {
        BodyFormat::Plain => write_plain_document(&members, id, &mut out),
        BodyFormat::Extended => write_object(&members, &mut out, extended_json::write),
    }
    out
}

/// Writes a document in plain form: `_id` becomes `id`, the text that the body's `id` has.
fn write_plain_document(members: &extended_json::Members<'_>, id: &str, out: &mut String) {
    let Some(place) = members.iter().position(|(name, _)| name == "_id") else {
        return write_object(members, out, write_plain);
    };
    out.push('{');
    let kept = members.iter().enumerate();
    for (index, (name, value)) in kept.filter(|(at, (name, _))| *at == place || name != "_id" && name != "id")
    {
        if !out.ends_with('{') {
            out.push(',');
        }
        if index == place {
            out.push_str("\"id\":");
            write_string(id, out);
        } else {
            write_string(name, out);
            out.push(':');
            write_plain(value, out);
        }
    }
    out.push('}');
}

/// Writes a value in plain form: ids, dates, binaries and decimals as strings, numbers with their digits as
/// written, what JSON has no word for as relaxed extended JSON.
pub(super) fn write_plain(value: &Value<'_>, out: &mut String) {
    match value {
        Value::Array(elements) => write_array(elements, out, write_plain),
        Value::Object(members) => match Bson::recognise(value) {
            None => write_object(members, out, write_plain),
            Some(Bson::ObjectId(hex)) => write_string(&hex, out),
            Some(Bson::Decimal(text)) => write_string(text, out),
            Some(ref bson @ (Bson::Uuid(_) | Bson::Binary { .. })) => match (bson.uuid(), bson) {
                (Some(uuid), _) => write_string(&uuid, out),
                (None, Bson::Binary { base64, .. }) => write_string(base64, out),
                (None, _) => write_object(members, out, write_plain),
            },
            Some(Bson::Date(ms)) if (YEAR_1..YEAR_10000).contains(&ms) => {
                write_iso(ms, SecondsFormat::Millis, out)
            }
            Some(_) => write_relaxed(value, out),
        },
        _ => extended_json::write(value, out),
    }
}

/// Writes a value in relaxed extended JSON v2.
fn write_relaxed(value: &Value<'_>, out: &mut String) {
    match value {
        Value::Array(elements) => write_array(elements, out, write_relaxed),
        Value::Object(members) => match Bson::recognise(value) {
            None
            | Some(
                Bson::Container | Bson::ObjectId(_) | Bson::Uuid(_) | Bson::NonFinite(_) | Bson::Decimal(_),
            ) => {
                write_object(members, out, write_relaxed);
            }
            Some(Bson::Number(digits)) => out.push_str(digits),
            Some(Bson::Binary { base64, sub_type }) => {
                out.push_str("{\"$binary\":{\"base64\":");
                write_string(base64, out);
                out.push_str(",\"subType\":");
                write_string(&sub_type, out);
                out.push_str("}}");
            }
            Some(Bson::Regex { pattern, options }) => {
                out.push_str("{\"$regularExpression\":{\"pattern\":");
                write_string(pattern, out);
                out.push_str(",\"options\":");
                write_string(options, out);
                out.push_str("}}");
            }
            Some(Bson::Date(ms)) => {
                out.push_str("{\"$date\":");
                match (0..YEAR_10000).contains(&ms) {
                    true => write_iso(ms, SecondsFormat::AutoSi, out),
                    false => {
                        out.push_str("{\"$numberLong\":");
                        write_string(&ms.to_string(), out);
                        out.push('}');
                    }
                }
                out.push('}');
            }
        },
        _ => extended_json::write(value, out),
    }
}

/// 0001-01-01T00:00:00Z in milliseconds since 1970.
const YEAR_1: i64 = -62_135_596_800_000;
/// 10000-01-01T00:00:00Z in milliseconds since 1970.
const YEAR_10000: i64 = 253_402_300_800_000;

/// Writes a date of the years 1 to 9999.
fn write_iso(ms: i64, seconds: SecondsFormat, out: &mut String) {
    let date = DateTime::from_timestamp_millis(ms).unwrap_or_default();
    write_string(&date.to_rfc3339_opts(seconds, true), out);
}
