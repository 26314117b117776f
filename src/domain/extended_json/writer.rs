//! [`Value`] to text: compact, members in their order, strings escaped as little as JSON allows.

use super::Value;

/// Writes a value.
pub fn write(value: &Value<'_>, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(digits) => out.push_str(digits),
        Value::String(text) => write_string(text, out),
        Value::Array(elements) => write_array(elements, out, write),
        Value::Object(members) => write_object(members, out, write),
    }
}

/// Writes an array, its elements by `write_value`.
pub(in crate::domain) fn write_array(
    elements: &[Value<'_>],
    out: &mut String,
    write_value: fn(&Value<'_>, &mut String),
) {
    out.push('[');
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_value(element, out);
    }
    out.push(']');
}

/// Writes an object, the values of its members by `write_value`.
pub(in crate::domain) fn write_object(
    members: &[(std::borrow::Cow<'_, str>, Value<'_>)],
    out: &mut String,
    write_value: fn(&Value<'_>, &mut String),
) {
    out.push('{');
    for (index, (name, value)) in members.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(name, out);
        out.push(':');
        write_value(value, out);
    }
    out.push('}');
}

/// Writes a string with its quotes.
pub fn write_string(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push('"');
    let mut written = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        // All three kinds are single bytes, so `at` is a character boundary.
        out.push_str(&text[written..at]);
        written = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            _ => {
                out.push_str("\\u00");
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
    out.push_str(&text[written..]);
    out.push('"');
}
