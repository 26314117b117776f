//! The sample records of `tests/fixtures`, for tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::change_event::{ChangeEvent, SourceEvent, SourceNames, SourceRecord, read};
use super::intake::{self, Defaults, NewRecord};
use super::transfer::SourcePosition;

/// A sample record with what it is expected to be.
pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) expect: serde_json::Value,
    pub(crate) record: SourceRecord,
}

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

pub(crate) fn names() -> SourceNames {
    SourceNames { prefix: "mongo".into(), signal_collections: vec!["debezium_signal".to_string()] }
}

/// A record at a place of no meaning.
pub(crate) fn source_record(record: NewRecord) -> SourceRecord {
    let NewRecord { topic, key, value, headers } = record;
    let position = SourcePosition { topic: Arc::clone(&topic), partition: 0, offset: 0 };
    SourceRecord { position, timestamp_ms: 1_700_000_000_000, key, value, headers }
}

/// All Debezium fixtures, by name.
pub(crate) fn all() -> Vec<Fixture> {
    let mut paths: Vec<_> = std::fs::read_dir(folder().join("debezium"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    paths.iter().map(|path| load(path)).collect()
}

/// The fixture of this name, without `.json`.
pub(crate) fn one(name: &str) -> Fixture {
    load(&folder().join("debezium").join(name).with_extension("json"))
}

/// The change that a fixture is.
pub(crate) fn change(name: &str) -> ChangeEvent {
    match read(&one(name).record, &names()) {
        SourceEvent::Change(change) => *change,
        other => panic!("{name}: {other:?}"),
    }
}

fn load(path: &Path) -> Fixture {
    let text = std::fs::read_to_string(path).unwrap();
    let expect = serde_json::from_str::<serde_json::Value>(&text).unwrap()["expect"].clone();
    let mut records = intake::read_file(text.as_bytes(), Defaults { prefix: "mongo", topic: None }).unwrap();
    assert_eq!(records.len(), 1, "{}", path.display());
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    Fixture { name, text, expect, record: source_record(records.remove(0)) }
}
