//! Documents as Debezium writes them: `after` in strict extended JSON, the `_id` of a record's key in relaxed. What is read here goes the way of
//! what Debezium wrote, and must come to the same body.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, SecondsFormat};
use mongodb::bson::{Bson, RawArray, RawBsonRef, RawDocument, Timestamp};

use crate::domain::extended_json::write_string;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Strict,
    Relaxed,
}

type Written = Result<(), mongodb::bson::error::Error>;

/// A whole document as it stands in `after`.
pub(super) fn after(document: &RawDocument) -> Result<String, mongodb::bson::error::Error> {
    let mut out = String::with_capacity(document.as_bytes().len() * 2);
    write_document(document, Dialect::Strict, &mut out)?;
    Ok(out)
}

/// An `_id` as it stands in the key of a record.
pub(super) fn id(value: RawBsonRef<'_>) -> Result<String, mongodb::bson::error::Error> {
    let mut out = String::new();
    write_value(value, Dialect::Relaxed, &mut out)?;
    Ok(out)
}

fn write_document(document: &RawDocument, dialect: Dialect, out: &mut String) -> Written {
    out.push('{');
    for (at, member) in document.iter().enumerate() {
        let (name, value) = member?;
        if at > 0 {
            out.push(',');
        }
        write_string(name.as_str(), out);
        out.push_str(": ");
        write_value(value, dialect, out)?;
    }
    out.push('}');
    Ok(())
}

fn write_array(array: &RawArray, dialect: Dialect, out: &mut String) -> Written {
    out.push('[');
    for (at, value) in array.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_value(value?, dialect, out)?;
    }
    out.push(']');
    Ok(())
}

fn write_value(value: RawBsonRef<'_>, dialect: Dialect, out: &mut String) -> Written {
    let strict = dialect == Dialect::Strict;
    match value {
        RawBsonRef::Document(document) => write_document(document, dialect, out)?,
        RawBsonRef::Array(array) => write_array(array, dialect, out)?,
        RawBsonRef::String(text) => write_string(text, out),
        RawBsonRef::Boolean(value) => out.push_str(if value { "true" } else { "false" }),
        RawBsonRef::Null => out.push_str("null"),
        RawBsonRef::Int32(number) => write(out, number),
        RawBsonRef::Int64(number) if strict => wrapped("$numberLong", &number.to_string(), out),
        RawBsonRef::Int64(number) => write(out, number),
        RawBsonRef::Double(number) if number.is_finite() => out.push_str(&double(number)),
        RawBsonRef::Double(number) if strict => out.push_str(non_finite(number)),
        RawBsonRef::Double(number) => wrapped("$numberDouble", non_finite(number), out),
        RawBsonRef::Decimal128(number) => wrapped("$numberDecimal", &number.to_string(), out),
        RawBsonRef::ObjectId(id) => wrapped("$oid", &id.to_hex(), out),
        RawBsonRef::DateTime(date) => write_date(date.timestamp_millis(), strict, out),
        RawBsonRef::Binary(binary) => {
            let (base64, sub_type) =
                (STANDARD.encode(binary.bytes), format!("{:02x}", u8::from(binary.subtype)));
            match strict {
                true => two(("$binary", &base64), ("$type", &sub_type), out),
                false => {
                    out.push_str("{\"$binary\": ");
                    two(("base64", &base64), ("subType", &sub_type), out);
                    out.push('}');
                }
            }
        }
        RawBsonRef::RegularExpression(regex) => {
            let (pattern, options) = (regex.pattern.as_str(), regex.options.as_str());
            match strict {
                true => two(("$regex", pattern), ("$options", options), out),
                false => {
                    out.push_str("{\"$regularExpression\": ");
                    two(("pattern", pattern), ("options", options), out);
                    out.push('}');
                }
            }
        }
        RawBsonRef::Timestamp(Timestamp { time, increment }) => {
            write(out, format_args!("{{\"$timestamp\": {{\"t\": {time},\"i\": {increment}}}}}"));
        }
        RawBsonRef::Symbol(text) => wrapped("$symbol", text, out),
        RawBsonRef::JavaScriptCode(code) => wrapped("$code", code, out),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            out.push_str("{\"$code\": ");
            write_string(code.code, out);
            out.push_str(",\"$scope\": ");
            write_document(code.scope, dialect, out)?;
            out.push('}');
        }
        RawBsonRef::DbPointer(pointer) => {
            // Its parts can be read in no other way.
            let owned = Bson::try_from(RawBsonRef::DbPointer(pointer))?;
            let json = serde_json::to_value(&owned).unwrap_or_default();
            let pointer = &json["$dbPointer"];
            out.push_str("{\"$ref\": ");
            write(out, &pointer["$ref"]);
            out.push_str(",\"$id\": ");
            write(out, &pointer["$id"]);
            out.push('}');
        }
        RawBsonRef::MinKey => out.push_str("{\"$minKey\": 1}"),
        RawBsonRef::MaxKey => out.push_str("{\"$maxKey\": 1}"),
        RawBsonRef::Undefined => out.push_str("{\"$undefined\": true}"),
    }
    Ok(())
}

fn write(out: &mut String, value: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = write!(out, "{value}");
}

fn wrapped(name: &str, text: &str, out: &mut String) {
    write(out, format_args!("{{\"{name}\": "));
    write_string(text, out);
    out.push('}');
}

fn two(first: (&str, &str), second: (&str, &str), out: &mut String) {
    write(out, format_args!("{{\"{}\": ", first.0));
    write_string(first.1, out);
    write(out, format_args!(",\"{}\": ", second.0));
    write_string(second.1, out);
    out.push('}');
}

fn non_finite(number: f64) -> &'static str {
    match number {
        number if number.is_nan() => "NaN",
        number if number > 0.0 => "Infinity",
        _ => "-Infinity",
    }
}

/// As Java writes it: `10.0`, `1.0E20`, `1.0E-4`.
fn double(number: f64) -> String {
    if number == 0.0 || (1e-3..1e7).contains(&number.abs()) {
        return format!("{number:?}");
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let fraction = if mantissa.contains('.') { "" } else { ".0" };
    format!("{mantissa}{fraction}E{exponent}")
}

fn write_date(ms: i64, strict: bool, out: &mut String) {
    /// 10000-01-01T00:00:00Z in milliseconds since 1970.
    const YEAR_10000: i64 = 253_402_300_800_000;
    if strict {
        return write(out, format_args!("{{\"$date\": {ms}}}"));
    }
    match DateTime::from_timestamp_millis(ms).filter(|_| (0..YEAR_10000).contains(&ms)) {
        Some(date) => wrapped("$date", &date.to_rfc3339_opts(SecondsFormat::AutoSi, true), out),
        None => {
            out.push_str("{\"$date\": ");
            wrapped("$numberLong", &ms.to_string(), out);
            out.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::spec::BinarySubtype;
    use mongodb::bson::{
        Binary, DateTime, Document, JavaScriptCodeWithScope, RawDocumentBuf, Regex, doc, oid::ObjectId,
    };

    use super::*;

    fn written(document: Document) -> (String, String) {
        let raw = RawDocumentBuf::try_from(&document).unwrap();
        let value = raw.iter().next().unwrap().unwrap().1;
        (after(&raw).unwrap(), id(value).unwrap())
    }

    #[test]
    fn each_type_is_written_as_debezium_does() {
        let oid = ObjectId::parse_str("64c0a1e0f1a2b3c4d5e60001").unwrap();
        let uuid = Binary { subtype: BinarySubtype::Uuid, bytes: vec![0xff; 16] };
        let regex = Regex { pattern: "^a".try_into().unwrap(), options: "im".try_into().unwrap() };
        let date = |ms| Bson::DateTime(DateTime::from_millis(ms));
        for (value, strict, relaxed) in [
            (Bson::Int32(5), "5", "5"),
            (Bson::Int64(i64::MAX), r#"{"$numberLong": "9223372036854775807"}"#, "9223372036854775807"),
            (Bson::Double(1.5), "1.5", "1.5"),
            (Bson::Double(10.0), "10.0", "10.0"),
            (Bson::Double(-0.0), "-0.0", "-0.0"),
            (Bson::Double(1e20), "1.0E20", "1.0E20"),
            (Bson::Double(12_345_678.0), "1.2345678E7", "1.2345678E7"),
            (Bson::Double(0.0001), "1.0E-4", "1.0E-4"),
            (Bson::Double(f64::NAN), "NaN", r#"{"$numberDouble": "NaN"}"#),
            (Bson::Double(f64::NEG_INFINITY), "-Infinity", r#"{"$numberDouble": "-Infinity"}"#),
            (
                Bson::Decimal128("19.990".parse().unwrap()),
                r#"{"$numberDecimal": "19.990"}"#,
                r#"{"$numberDecimal": "19.990"}"#,
            ),
            (
                date(1_767_323_045_678),
                r#"{"$date": 1767323045678}"#,
                r#"{"$date": "2026-01-02T03:04:05.678Z"}"#,
            ),
            (date(1_767_323_045_000), r#"{"$date": 1767323045000}"#, r#"{"$date": "2026-01-02T03:04:05Z"}"#),
            (date(-1), r#"{"$date": -1}"#, r#"{"$date": {"$numberLong": "-1"}}"#),
            (
                Bson::ObjectId(oid),
                r#"{"$oid": "64c0a1e0f1a2b3c4d5e60001"}"#,
                r#"{"$oid": "64c0a1e0f1a2b3c4d5e60001"}"#,
            ),
            (
                Bson::Binary(uuid),
                r#"{"$binary": "/////////////////////w==","$type": "04"}"#,
                r#"{"$binary": {"base64": "/////////////////////w==","subType": "04"}}"#,
            ),
            (
                Bson::RegularExpression(regex),
                r#"{"$regex": "^a","$options": "im"}"#,
                r#"{"$regularExpression": {"pattern": "^a","options": "im"}}"#,
            ),
            (
                Bson::Timestamp(Timestamp { time: 1_767_225_600, increment: 9 }),
                r#"{"$timestamp": {"t": 1767225600,"i": 9}}"#,
                r#"{"$timestamp": {"t": 1767225600,"i": 9}}"#,
            ),
            (
                Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
                    code: "f".into(),
                    scope: doc! { "a": 1_i64 },
                }),
                r#"{"$code": "f","$scope": {"a": {"$numberLong": "1"}}}"#,
                r#"{"$code": "f","$scope": {"a": 1}}"#,
            ),
            (Bson::MinKey, r#"{"$minKey": 1}"#, r#"{"$minKey": 1}"#),
            (Bson::Undefined, r#"{"$undefined": true}"#, r#"{"$undefined": true}"#),
            (Bson::Null, "null", "null"),
            (Bson::String("a\"\u{0}".into()), r#""a\"\u0000""#, r#""a\"\u0000""#),
            (Bson::Array(vec![Bson::Int32(1), Bson::Boolean(true)]), "[1,true]", "[1,true]"),
        ] {
            assert_eq!(written(doc! { "x": value }), (format!(r#"{{"x": {strict}}}"#), relaxed.to_owned()));
        }
    }

    #[test]
    fn members_keep_their_order() {
        let (text, _) = written(doc! { "b": 1, "a": { "z": 2, "y": [ { "x": 3_i64 } ] } });
        assert_eq!(text, r#"{"b": 1,"a": {"z": 2,"y": [{"x": {"$numberLong": "3"}}]}}"#);
    }
}
