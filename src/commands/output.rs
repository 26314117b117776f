//! Standard output. A reader that goes away (`| head`) ends the command, without an error.

use std::io::{self, Write};
use std::ops::ControlFlow;

/// Prints a line. `Break`: nobody reads any more.
pub(super) fn line(text: &str) -> io::Result<ControlFlow<()>> {
    match writeln!(io::stdout().lock(), "{text}") {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(err) if err.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(err) => Err(err),
    }
}

/// Prints a line for people on standard error.
pub(super) fn note(text: &str) {
    // Nobody is left to tell when even this cannot be written.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
