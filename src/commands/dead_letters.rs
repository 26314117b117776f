//! `dispatcher dead-letters`: the source records that could not be read.

use clap::Args;
use serde_json::Value;

use super::api::ApiOptions;
use super::output;
use crate::settings::Environment;

/// Options of `dead-letters`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each line is a record as `send` and `explain` take it. Records of client configs hold secrets: of these the position is
kept and nothing else, and told on standard error.

Examples:
  dispatcher dead-letters | dispatcher explain -
  dispatcher dead-letters --after 1700 > new.jsonl")]
pub(super) struct DeadLettersOptions {
    /// Only letters with a higher id
    #[arg(long, value_name = "ID")]
    after: Option<i64>,
    #[command(flatten)]
    api: ApiOptions,
}

pub(super) async fn run(options: DeadLettersOptions, environment: &Environment) -> anyhow::Result<()> {
    let api = options.api.open(environment)?;
    let mut after = options.after;
    loop {
        let from = after.map(|after| format!("&after={after}")).unwrap_or_default();
        let page = api.get(&format!("/v1/dead-letters?limit=1000{from}")).await?;
        for letter in page["dead_letters"].as_array().into_iter().flatten() {
            let record = &letter["record"];
            if record.is_null() {
                output::note(&position(letter));
            } else {
                output::line(&record.to_string())?;
            }
        }
        after = page["next"].as_i64();
        if after.is_none() {
            return Ok(());
        }
    }
}

fn position(letter: &Value) -> String {
    let text = |name: &str| letter[name].as_str().unwrap_or_default().escape_debug().to_string();
    format!(
        "dead letter {} keeps its position only: {}/{}@{}: {}",
        letter["id"],
        text("topic"),
        letter["partition"],
        letter["offset"],
        text("reason")
    )
}
