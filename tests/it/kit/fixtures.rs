//! The sample events of `tests/fixtures/debezium`, with what is to be read from each.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// One sample.
pub(crate) struct Fixture {
    /// The file name without `.json`.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The record as the intake takes it.
    pub(crate) record: Value,
    /// What is to be read from it.
    pub(crate) expect: Value,
}

impl Fixture {
    /// All samples, by name.
    ///
    /// # Panics
    /// When there are none, or one cannot be read.
    pub(crate) fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/debezium");
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|err| panic!("{}: {err}", folder.display()));
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        assert!(paths.len() > 200, "{} fixtures in {}", paths.len(), folder.display());
        paths.iter().map(|path| Self::read(path)).collect()
    }

    /// Those whose name starts with `prefix`.
    pub(crate) fn named(prefix: &str) -> Vec<Self> {
        let mut fixtures = Self::all();
        fixtures.retain(|fixture| fixture.name.starts_with(prefix));
        assert!(!fixtures.is_empty(), "no fixture {prefix}");
        fixtures
    }

    fn read(path: &Path) -> Self {
        let text = std::fs::read(path).unwrap();
        let mut record: Value =
            serde_json::from_slice(&text).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
        let members = record.as_object_mut().unwrap();
        members.remove("note");
        members.remove("origin");
        let expect = members.remove("expect").unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Self { name, path: path.to_owned(), record, expect }
    }

    /// What kind it may be read as: the expected one first, then others that are as good.
    pub(crate) fn kinds(&self) -> Vec<&str> {
        let also = self.expect["accept_also"].as_array().map(Vec::as_slice).unwrap_or_default();
        std::iter::once(&self.expect["kind"]).chain(also).filter_map(Value::as_str).collect()
    }

    /// The texts of a list in `expect`.
    pub(crate) fn texts(&self, member: &str) -> Vec<&str> {
        self.expect[member].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
    }
}
