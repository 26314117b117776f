//! `dispatcher operational-events`: what happened that the operator wants to know of.

use std::time::Duration;

use clap::Args;

use super::api::{ApiOptions, encoded};
use super::output;
use crate::settings::Environment;

/// How often it is asked for new ones.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Options of `operational-events`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dispatcher operational-events --client acme
  dispatcher operational-events --after 1700 --follow")]
pub(super) struct OperationalEventsOptions {
    /// Only this client's
    #[arg(long, value_name = "ID")]
    client: Option<String>,
    /// Only events with a higher id
    #[arg(long, value_name = "ID", default_value_t = 0)]
    after: i64,
    /// Print new ones as they happen, until it is ended
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    api: ApiOptions,
}

pub(super) async fn run(options: OperationalEventsOptions, environment: &Environment) -> anyhow::Result<()> {
    let api = options.api.open(environment)?;
    let client = options.client.map(|client| format!("&client={}", encoded(&client))).unwrap_or_default();
    let mut after = options.after;
    loop {
        let page = api.get(&format!("/v1/operational-events?limit=1000&after={after}{client}")).await?;
        for event in page["events"].as_array().into_iter().flatten() {
            output::line(&event.to_string())?;
            after = event["id"].as_i64().unwrap_or(after);
        }
        if !page["next"].is_null() {
            continue;
        }
        if !options.follow {
            return Ok(());
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}
