//! Standard output and standard error.

use std::io::{self, Write};

/// Prints a line.
pub(super) fn line(text: &str) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{text}")
}

/// Prints a line for people on standard error.
pub(super) fn note(text: &str) {
    // Nobody is left to tell when even this cannot be written.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Rows of a table as lines, the columns below each other.
pub(super) fn aligned<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<_> = (0..COLUMNS).map(width).collect();
    rows.iter()
        .map(|row| {
            let cells: Vec<_> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect()
}

/// A number with its noun: `1 record`, `2 records`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Whether a command ended because nobody reads its output any more.
pub(super) fn is_reader_gone(err: &anyhow::Error) -> bool {
    err.chain().any(|cause| {
        let kind = match (cause.downcast_ref::<io::Error>(), cause.downcast_ref::<serde_json::Error>()) {
            (Some(err), _) => Some(err.kind()),
            (None, Some(err)) => err.io_error_kind(),
            (None, None) => None,
        };
        kind == Some(io::ErrorKind::BrokenPipe)
    })
}
