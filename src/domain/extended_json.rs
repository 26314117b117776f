//! JSON as MongoDB's tools write it. A reader of our own, because the images of change events hold bare
//! `NaN` and `Infinity`, numbers whose digits must survive, and more nesting than a general reader accepts.

mod bson;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::borrow::Cow;

pub use bson::Bson;
pub use reader::{Values, parse, parse_image};
pub use writer::{write, write_string};
pub(in crate::domain) use writer::{write_array, write_object};

/// How deep arrays and objects may nest: five times what MongoDB stores, and far from the end of a stack.
pub const MAX_DEPTH: usize = 512;

/// The members of an object, in the order in which they came; a name may come twice.
pub type Members<'a> = Vec<(Cow<'a, str>, Value<'a>)>;

/// A JSON value that borrows from its text where it can.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number: its digits as written.
    Number(&'a str),
    /// A string, unescaped.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<Value<'a>>),
    /// An object.
    Object(Members<'a>),
}

impl<'a> Value<'a> {
    /// The member of this name; of a name that comes twice the last. `None` when this is no object.
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        match self {
            Self::Object(members) => get(members, name),
            _ => None,
        }
    }

    /// The text, when this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value, when this is a whole number that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(digits) => digits.parse().ok(),
            _ => None,
        }
    }
}

/// The member of this name; of a name that comes twice the last.
pub fn get<'v, 'a>(members: &'v [(Cow<'a, str>, Value<'a>)], name: &str) -> Option<&'v Value<'a>> {
    members.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value)
}

/// Why a text is no JSON. Tells the place, never the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at byte {at}")]
pub struct ParseError {
    /// The byte offset within the text.
    pub at: usize,
    /// What is wrong there.
    pub problem: &'static str,
}
