//! The log on standard error: time, level, target, message; a line an entry.

use std::fmt::Write as _;
use std::io::Write as _;

use log::LevelFilter;

/// Libraries that tell their own comings and goings at info, or twice a second that Redis is away. A filter that names them wins.
const CHATTY: [(&str, LevelFilter); 2] =
    [("actix_server", LevelFilter::Warn), ("bullmq", LevelFilter::Error)];

/// Starts logging with a filter in the syntax of `RUST_LOG`. A second start changes nothing.
pub(super) fn start(filter: &str) {
    let mut builder = env_logger::Builder::new();
    for (library, level) in CHATTY {
        builder.filter_module(library, level);
    }
    builder.parse_filters(filter).format(|line, record| {
        let message = one_line(&record.args().to_string());
        writeln!(line, "{} {:5} {} {message}", line.timestamp_millis(), record.level(), record.target())
    });
    // Fails when a logger is installed: in tests that start the service twice.
    let _ = builder.try_init();
}

/// Ids come from outside and may hold anything: control characters are escaped, so that nobody writes lines of ours.
fn one_line(message: &str) -> String {
    let mut escaped = String::with_capacity(message.len());
    for character in message.chars() {
        if character.is_control() {
            // Writing to a string does not fail.
            let _ = write!(escaped, "{}", character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn an_id_cannot_forge_a_line() {
        assert_eq!(
            one_line("client=a\n2026 INFO all is well\u{1b}[2J"),
            "client=a\\n2026 INFO all is well\\u{1b}[2J"
        );
        assert_eq!(one_line("client=å🦀"), "client=å🦀");
    }
}
