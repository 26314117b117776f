//! The live summary: a line a client, written over on a terminal.

use std::io::{self, IsTerminal as _};

use serde_json::Value;

use super::super::clients::span;
use super::super::output;
use super::receivers::Receivers;

/// On something that is not a terminal only every so many summaries are shown.
const EVERY: u32 = 5;

/// Shows summaries.
#[derive(Default)]
pub(super) struct Summary {
    shown: u32,
}

impl Summary {
    /// Shows what `GET /v1/clients` says, and what the webhooks counted.
    pub(super) fn show(&mut self, clients: &Value, receivers: &Receivers, events: u64) -> io::Result<()> {
        let terminal = io::stdout().is_terminal();
        self.shown += 1;
        if !terminal && self.shown % EVERY != 1 {
            return Ok(());
        }
        let now_ms = chrono::Utc::now().timestamp_millis();
        let mut lines = vec![
            format!("{}:", output::counted(events, "change event")),
            format!(
                "  {:<8} {:<9} {:>9} {:>7} {:>7}  why",
                "client", "state", "delivered", "refused", "waiting"
            ),
        ];
        for client in clients["clients"].as_array().into_iter().flatten() {
            let name = client["client"].as_str().unwrap_or_default();
            let state = &client["state"];
            let answers = receivers.answers(name);
            let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
            let next_try = state["next_attempt_at_ms"].as_i64();
            let next_try = next_try.map(|at_ms| format!(", next try in {}", span(at_ms - now_ms)));
            lines.push(format!(
                "  {name:<8} {:<9} {:>9} {:>7} {:>7}  {}{}",
                state["phase"].as_str().unwrap_or("healthy"),
                count(answers.map(|answers| answers.taken())),
                count(answers.map(|answers| answers.refused())),
                client["backlog"]["pending"].as_u64().unwrap_or_default(),
                state["reason"].as_str().unwrap_or_default(),
                next_try.unwrap_or_default(),
            ));
        }
        let rows = lines.len();
        if !terminal {
            return output::line(&lines.join("\n"));
        }
        let up = if self.shown > 1 { format!("\x1b[{rows}A") } else { String::new() };
        // A line that is wider than the terminal is cut off: one that goes on in the next would not be written over.
        output::line(&format!("{up}\x1b[?7l{}\x1b[K\x1b[?7h", lines.join("\x1b[K\n")))
    }
}
