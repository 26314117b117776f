//! `dispatcher owners`: the owners whose work is not done.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::api::{Api, ApiError, ApiOptions, encoded};
use super::clients::span;
use super::output;
use crate::settings::Environment;

/// Options of `owners`.
#[derive(Debug, Args)]
pub(super) struct OwnersOptions {
    #[command(subcommand)]
    command: OwnersCommand,
}

#[derive(Debug, Subcommand)]
enum OwnersCommand {
    /// List the blocked owners: by whom, since when, and why
    List(ListOptions),
    /// Block an owner: the webhooks of his clients get nothing until he is unblocked
    Block(BlockOptions),
    /// Unblock an owner: what waits for his clients goes out, in order
    Unblock(UnblockOptions),
}

#[derive(Debug, Args)]
struct ListOptions {
    /// Print one JSON object an owner, a line each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    api: ApiOptions,
}

#[derive(Debug, Args)]
struct BlockOptions {
    /// The owner's id, as it stands in `owner` of the config documents
    owner: String,
    /// Why
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    by: ByOptions,
    #[command(flatten)]
    api: ApiOptions,
}

#[derive(Debug, Args)]
struct UnblockOptions {
    /// The owner's id, as it stands in `owner` of the config documents
    owner: String,
    #[command(flatten)]
    api: ApiOptions,
}

/// Who decides.
#[derive(Debug, Args)]
pub(super) struct ByOptions {
    /// Who decides it
    #[arg(long, env = "USER", default_value = "command line", hide_env_values = true)]
    pub(super) by: String,
}

pub(super) async fn run(options: OwnersOptions, environment: &Environment) -> anyhow::Result<()> {
    match options.command {
        OwnersCommand::List(options) => list(&options.api.open(environment)?, options.json).await,
        OwnersCommand::Block(BlockOptions { owner, reason, by, api }) => {
            let said = json!({ "reason": reason, "by": by.by });
            let (status, _) = api.open(environment)?.put(&path_of(&owner), &said).await?;
            output::note(&format!("{owner} is blocked{}", late(status.as_u16())));
            Ok(())
        }
        OwnersCommand::Unblock(UnblockOptions { owner, api }) => {
            let answer = api.open(environment)?.delete(&path_of(&owner)).await;
            let status = answer.map_err(|err| explain(err, &owner))?;
            output::note(&format!("{owner} is not blocked any more{}", late(status.as_u16())));
            Ok(())
        }
    }
}

fn path_of(owner: &str) -> String {
    format!("/v1/blocked-owners/{}", encoded(owner))
}

/// What an answer of 202 adds.
pub(super) fn late(status: u16) -> &'static str {
    if status == 202 { ", in use soon" } else { "" }
}

fn explain(err: ApiError, owner: &str) -> anyhow::Error {
    match &err {
        ApiError::Refused { status, .. } if status.as_u16() == 404 => {
            anyhow::anyhow!("{owner} is not blocked")
        }
        _ => err.into(),
    }
}

const COLUMNS: [&str; 4] = ["OWNER", "BY", "SINCE", "REASON"];

async fn list(api: &Api, as_json: bool) -> anyhow::Result<()> {
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    let now_ms = chrono::Utc::now().timestamp_millis();
    api.each_row("/v1/blocked-owners", "blocked_owners", |block| {
        if as_json {
            output::line(&block.to_string())?;
        } else {
            rows.push(row(block, now_ms));
        }
        Ok(())
    })
    .await?;
    if !as_json {
        output::aligned(&rows).iter().try_for_each(|line| output::line(line))?;
    }
    Ok(())
}

fn row(block: &Value, now_ms: i64) -> [String; 4] {
    let text = |name: &str| block[name].as_str().unwrap_or("-").escape_debug().to_string();
    let since = block["since_ms"].as_i64().map_or_else(|| "-".to_owned(), |since| span(now_ms - since));
    [text("owner"), text("by"), since, text("reason")]
}
