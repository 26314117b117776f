//! The live summary: a line a client, written over on a terminal.

use std::io::{self, IsTerminal as _};

use serde_json::Value;

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
        let mut lines = vec![format!(
            "{events:>6} events  {:<8} {:<9} {:>9} {:>7} {:>8}  why",
            "client", "state", "delivered", "refused", "waiting"
        )];
        for client in clients["clients"].as_array().into_iter().flatten() {
            let name = client["client"].as_str().unwrap_or_default();
            let state = &client["state"];
            let answers = receivers.answers(name);
            let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
            lines.push(format!(
                "{:>13}  {name:<8} {:<9} {:>9} {:>7} {:>8}  {}",
                "",
                state["phase"].as_str().unwrap_or("healthy"),
                count(answers.map(|answers| answers.taken())),
                count(answers.map(|answers| answers.refused())),
                client["backlog"]["pending"].as_u64().unwrap_or_default(),
                state["reason"].as_str().unwrap_or_default(),
            ));
        }
        let rows = lines.len();
        let text = lines.join(if terminal { "\x1b[K\n" } else { "\n" });
        let up = if terminal && self.shown > 1 { format!("\x1b[{rows}A") } else { String::new() };
        output::line(&format!("{up}{text}{}", if terminal { "\x1b[K" } else { "" }))
    }
}
