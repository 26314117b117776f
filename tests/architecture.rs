//! Holds the house in order: who may import whom, how long a file may be, and that the documents name what exists.
//! In one crate the compiler checks none of it. And that the packaging fits the settings.

#![expect(clippy::unwrap_used, reason = "all of this is test code: it fails by panic")]

#[path = "architecture/documents.rs"]
mod documents;
#[path = "architecture/migrations.rs"]
mod migrations;
#[path = "architecture/packaging.rs"]
mod packaging;
#[path = "architecture/rules.rs"]
mod rules;
#[path = "architecture/source.rs"]
mod source;

use std::path::{Path, PathBuf};

/// The folder of the manifest.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a folder with this extension, sorted.
fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|err| panic!("{}: {err}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path, extension));
        } else if path.extension().is_some_and(|is| is == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}
