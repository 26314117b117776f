//! Source records that could not be read.

use clap::Args;
use serde_json::Value;

use super::super::api::{ApiError, ApiOptions};
use super::super::output;
use crate::settings::Environment;

#[derive(Debug, Args)]
#[command(after_help = "\
Each line is a record as `send` and `explain` take it. Records of client configs hold secrets: of these the position is
kept and nothing else, and told on standard error.

Examples:
  dispatcher dead-letters source | dispatcher explain -
  dispatcher dead-letters source --after 1700 > new.jsonl")]
pub(super) struct SourceOptions {
    /// Only letters with a higher id
    #[arg(long, value_name = "ID")]
    after: Option<i64>,
    /// Print whole letters, with their ids and reasons
    #[arg(long)]
    letters: bool,
    #[command(flatten)]
    api: ApiOptions,
}

#[derive(Debug, Args)]
pub(super) struct RedriveOptions {
    /// The letter's id: see `source --letters`
    id: i64,
    /// Although receivers may have something newer of its document: nobody can know
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    api: ApiOptions,
}

pub(super) async fn list(options: SourceOptions, environment: &Environment) -> anyhow::Result<()> {
    let api = options.api.open(environment)?;
    let mut after = options.after;
    loop {
        let from = after.map(|after| format!("&after={after}")).unwrap_or_default();
        let page = api.get(&format!("/v1/dead-letters/source?limit=1000{from}")).await?;
        for letter in page["dead_letters"].as_array().into_iter().flatten() {
            let record = &letter["record"];
            if options.letters {
                output::line(&letter.to_string())?;
            } else if record.is_null() {
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

pub(super) async fn redrive(options: RedriveOptions, environment: &Environment) -> anyhow::Result<()> {
    let api = options.api.open(environment)?;
    let query = if options.force { "?force=true" } else { "" };
    let path = format!("/v1/dead-letters/source/{}/redrive{query}", options.id);
    api.post(&path, bytes::Bytes::new()).await.map_err(|err| match &err {
        ApiError::Refused { problem, .. } if problem["reason"] == "may_be_older" => {
            anyhow::anyhow!("{err}; --force does it")
        }
        _ => err.into(),
    })?;
    output::note("it is in the source stream again");
    Ok(())
}
