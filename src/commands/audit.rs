//! `dispatcher audit`: who did what.

use clap::Args;

use super::api::{ApiOptions, encoded};
use super::output;
use crate::settings::Environment;

/// Options of `audit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dispatcher audit --limit 20
  dispatcher audit --by ann --action pause_client")]
pub(super) struct AuditOptions {
    /// Only what this token did
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Only this action, as `pause_client`
    #[arg(long)]
    action: Option<String>,
    /// Only on this, as it is printed
    #[arg(long)]
    subject: Option<String>,
    /// How many, the newest first; all of them, unless it is said
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    api: ApiOptions,
}

pub(super) async fn run(options: AuditOptions, environment: &Environment) -> anyhow::Result<()> {
    let api = options.api.open(environment)?;
    let filters = [("by", &options.by), ("action", &options.action), ("subject", &options.subject)];
    let filters: String = filters
        .into_iter()
        .filter_map(|(name, text)| Some(format!("&{name}={}", encoded(text.as_ref()?))))
        .collect();
    let (mut left, mut before) = (options.limit.unwrap_or(u64::MAX), String::new());
    while left > 0 {
        let page = api.get(&format!("/v1/audit?limit={}{filters}{before}", left.min(1000))).await?;
        for action in page["actions"].as_array().into_iter().flatten() {
            output::line(&action.to_string())?;
            left -= 1;
        }
        let Some(next) = page["next"].as_i64() else { break };
        before = format!("&before={next}");
    }
    Ok(())
}
