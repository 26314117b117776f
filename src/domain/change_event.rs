//! What a source record says.

use std::sync::Arc;

use bytes::Bytes;

/// A record of the source stream, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRecord {
    /// Where it stands.
    pub position: super::transfer::SourcePosition,
    /// The record's timestamp, milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The key bytes.
    pub key: Option<Bytes>,
    /// The value bytes; `None` is a tombstone.
    pub value: Option<Bytes>,
    /// The headers, in order; of a name that comes twice the last counts.
    pub headers: Vec<(String, Bytes)>,
}

/// The operation of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Insert.
    Create,
    /// Update or replace.
    Update,
    /// Delete.
    Delete,
    /// Snapshot read.
    Read,
}

impl Op {
    /// The letter in the body.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "c",
            Self::Update => "u",
            Self::Delete => "d",
            Self::Read => "r",
        }
    }
}

/// What the reader needs to know of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceNames {
    /// The topic prefix, `mongo`.
    pub prefix: Arc<str>,
    /// Collections (or `db.collection`) that carry Debezium's signals: skipped.
    pub signal_collections: Vec<String>,
}
