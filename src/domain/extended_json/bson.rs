//! The types that extended JSON writes as objects, in all its dialects.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::DateTime;

use super::Value;
use super::reader::is_number;

/// A BSON value that JSON has no word for. Recognised only by its exact keys and the shape of their values:
/// a document may have a field of its own called `$date`. What reads the same in every dialect and in the
/// plain form (timestamp, symbol, code, min and max key, undefined) needs no recognition and is not here.
#[derive(Debug, Clone, PartialEq)]
pub enum Bson<'v> {
    /// 24 hex digits in lower case.
    ObjectId(Cow<'v, str>),
    /// A UUID written as such: hyphenated, lower case.
    Uuid(String),
    /// Binary, UUIDs of subtype 4 included: base64, and the subtype in two hex digits.
    Binary {
        /// The bytes in base64.
        base64: &'v str,
        /// `04`, say.
        sub_type: Cow<'v, str>,
    },
    /// Milliseconds since 1970.
    Date(i64),
    /// An integer or a finite double: digits of JSON's grammar, as written.
    Number(&'v str),
    /// `NaN`, `Infinity` or `-Infinity`.
    NonFinite(&'v str),
    /// A decimal, as written.
    Decimal(&'v str),
    /// A regular expression.
    Regex {
        /// The pattern.
        pattern: &'v str,
        /// The option letters.
        options: &'v str,
    },
    /// A reference to a document or code with a scope: it holds values of its own.
    Container,
}

impl<'v> Bson<'v> {
    /// Which type this value is; `None`: an ordinary JSON value.
    pub fn recognise(value: &'v Value<'_>) -> Option<Self> {
        let Value::Object(members) = value else { return None };
        let (first, value) = members.first()?;
        if !first.starts_with('$') {
            return None;
        }
        match members.as_slice() {
            [_] => Self::of_one(first, value),
            [_, (second, other)] => Self::of_two((first, value), (second, other)),
            [_, (second, _), (third, db)] => {
                let is_reference = first == "$ref" && second == "$id" && third == "$db";
                (is_reference && value.as_str().is_some() && db.as_str().is_some()).then_some(Self::Container)
            }
            _ => None,
        }
    }

    fn of_one(name: &str, value: &'v Value<'_>) -> Option<Self> {
        match (name, value) {
            ("$oid", Value::String(hex)) => {
                let is_id = hex.len() == 24 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
                is_id.then(|| Self::ObjectId(lower_case(hex)))
            }
            ("$numberInt", Value::String(digits)) => {
                (is_number(digits) && digits.parse::<i32>().is_ok()).then_some(Self::Number(digits))
            }
            ("$numberLong", Value::String(digits)) => {
                (is_number(digits) && digits.parse::<i64>().is_ok()).then_some(Self::Number(digits))
            }
            ("$numberDouble", Value::String(text)) => match text.as_ref() {
                "NaN" | "Infinity" | "-Infinity" => Some(Self::NonFinite(text)),
                _ => is_number(text).then_some(Self::Number(text)),
            },
            ("$numberDecimal", Value::String(text)) => {
                let known = is_number(text) || matches!(text.as_ref(), "NaN" | "Infinity" | "-Infinity");
                known.then_some(Self::Decimal(text))
            }
            ("$date", value) => date(value).map(Self::Date),
            ("$binary", Value::Object(_)) => {
                let [base64, sub_type] = two_strings(value, ["base64", "subType"])?;
                binary(base64, sub_type)
            }
            ("$uuid", Value::String(text)) => {
                let hex: String = text.chars().filter(|character| *character != '-').collect();
                let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok()?;
                let uuid = hyphenated(&bytes)?;
                uuid.eq_ignore_ascii_case(text).then_some(Self::Uuid(uuid))
            }
            ("$regularExpression", Value::Object(_)) => {
                let [pattern, options] = two_strings(value, ["pattern", "options"])?;
                Some(Self::Regex { pattern, options })
            }
            ("$dbPointer", Value::Object(members)) => {
                let is_pointer = members.len() == 2
                    && value.get("$ref").is_some_and(|name| name.as_str().is_some())
                    && value.get("$id").is_some();
                is_pointer.then_some(Self::Container)
            }
            _ => None,
        }
    }

    fn of_two(first: (&str, &'v Value<'_>), second: (&str, &'v Value<'_>)) -> Option<Self> {
        let (named, other) = if matches!(first.0, "$binary" | "$regex" | "$ref" | "$code") {
            (first, second)
        } else {
            (second, first)
        };
        let text = named.1.as_str()?;
        match (named.0, other.0, other.1) {
            ("$binary", "$type", Value::String(sub_type)) => binary(text, sub_type),
            ("$regex", "$options", Value::String(options)) => Some(Self::Regex { pattern: text, options }),
            ("$ref", "$id", _) => Some(Self::Container),
            ("$code", "$scope", Value::Object(_)) => Some(Self::Container),
            _ => None,
        }
    }

    /// The hyphenated text of a UUID, in either form.
    pub fn uuid(&self) -> Option<String> {
        match self {
            Self::Uuid(text) => Some(text.clone()),
            Self::Binary { base64, sub_type } if sub_type == "04" => {
                hyphenated(&STANDARD.decode(base64).ok()?)
            }
            _ => None,
        }
    }
}

fn lower_case(hex: &str) -> Cow<'_, str> {
    match hex.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(hex.to_ascii_lowercase()),
        false => Cow::Borrowed(hex),
    }
}

fn binary<'v>(base64: &'v str, sub_type: &'v str) -> Option<Bson<'v>> {
    let sub_type = match sub_type.as_bytes() {
        [digit] if digit.is_ascii_hexdigit() => Cow::Owned(format!("0{}", sub_type.to_ascii_lowercase())),
        [high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => lower_case(sub_type),
        _ => return None,
    };
    STANDARD.decode(base64).ok()?;
    Some(Bson::Binary { base64, sub_type })
}

fn date(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Number(_) => value.as_i64(),
        Value::String(text) => {
            let date = DateTime::parse_from_rfc3339(text).ok()?;
            // A BSON date has milliseconds: what has more digits, or a leap second, is no date of MongoDB.
            let nanos = date.timestamp_subsec_nanos();
            (nanos % 1_000_000 == 0 && nanos < 1_000_000_000).then(|| date.timestamp_millis())
        }
        Value::Object(members) => match members.as_slice() {
            [(name, Value::String(digits))] if name == "$numberLong" && is_number(digits) => {
                digits.parse().ok()
            }
            _ => None,
        },
        _ => None,
    }
}

/// The two members of an object that has just these, both strings.
fn two_strings<'v>(value: &'v Value<'_>, names: [&str; 2]) -> Option<[&'v str; 2]> {
    match value {
        Value::Object(members) if members.len() == 2 => {
            Some([value.get(names[0])?.as_str()?, value.get(names[1])?.as_str()?])
        }
        _ => None,
    }
}

fn hyphenated(bytes: &[u8]) -> Option<String> {
    if bytes.len() != 16 {
        return None;
    }
    let mut text = data_encoding::HEXLOWER.encode(bytes);
    for at in [20, 16, 12, 8] {
        text.insert(at, '-');
    }
    Some(text)
}
