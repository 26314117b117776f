//! `dispatcher actors`: the actors of a running service.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::api::{Api, ApiError, ApiOptions, encoded};
use super::clients::span;
use super::output;
use crate::settings::Environment;

/// Options of `actors`.
#[derive(Debug, Args)]
pub(super) struct ActorsOptions {
    #[command(subcommand)]
    command: ActorsCommand,
}

#[derive(Debug, Subcommand)]
enum ActorsCommand {
    /// List the actors: state and since when, restarts, the last message, and why it last broke
    List(ListOptions),
    /// Have an actor begin anew, with its mailbox; one of a client that was given up is started again
    Restart(RestartOptions),
}

#[derive(Debug, Args)]
struct ListOptions {
    /// Print one JSON object an actor, a line each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    api: ApiOptions,
}

#[derive(Debug, Args)]
struct RestartOptions {
    /// What it is: delivery, fleet, stash, ...
    kind: String,
    /// Which of its kind: of a delivery actor, the client
    #[arg(default_value = "-")]
    id: String,
    #[command(flatten)]
    api: ApiOptions,
}

pub(super) async fn run(options: ActorsOptions, environment: &Environment) -> anyhow::Result<()> {
    match options.command {
        ActorsCommand::List(options) => list(&options.api.open(environment)?, options.json).await,
        ActorsCommand::Restart(RestartOptions { kind, id, api }) => {
            let path = format!("/v1/actors/{}/{}/restart", encoded(&kind), encoded(&id));
            api.open(environment)?.post(&path, "".into()).await?;
            output::note(&format!("{kind} {id} begins anew"));
            Ok(())
        }
    }
}

const COLUMNS: [&str; 7] = ["KIND", "ID", "STATE", "SINCE", "RESTARTS", "LAST MESSAGE", "LAST CAUSE"];

async fn list(api: &Api, json: bool) -> anyhow::Result<()> {
    // A service with a fault says so by its status, too.
    let status = match api.get("/status").await {
        Err(ApiError::Refused { problem, .. }) if problem["actors"].is_array() => problem,
        answer => answer?,
    };
    let actors = status["actors"].as_array().map(Vec::as_slice).unwrap_or_default();
    if json {
        actors.iter().try_for_each(|actor| output::line(&actor.to_string()))?;
        return Ok(());
    }
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(actors.iter().map(row));
    output::aligned(&rows).iter().try_for_each(|line| output::line(line))?;
    Ok(())
}

fn row(actor: &Value) -> [String; 7] {
    let text = |value: &Value| {
        value.as_str().filter(|text| !text.is_empty()).unwrap_or("-").escape_debug().to_string()
    };
    let ago = |value: &Value| {
        value.as_i64().map_or_else(|| "-".to_owned(), |seconds| span(seconds.saturating_mul(1_000)))
    };
    let cause = &actor["last_cause"];
    let why = if cause.is_object() {
        format!("{} {} ago at {}", text(&cause["reason"]), ago(&cause["seconds_ago"]), text(&cause["place"]))
    } else {
        "-".to_owned()
    };
    [
        text(&actor["kind"]),
        text(&actor["id"]),
        text(&actor["state"]),
        ago(&actor["state_seconds"]),
        actor["restarts"].to_string(),
        text(&actor["last_message"]),
        why,
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_list_says_what_broke_and_an_id_cannot_break_it() {
        let fine = json!({ "kind": "stash", "id": "", "state": "running", "state_seconds": 61, "restarts": 0,
            "last_cause": null, "last_message": null });
        let cause = json!({ "reason": "panicked", "message": "-", "place": "src/a.rs:7", "seconds_ago": 5 });
        let broke = json!({ "kind": "delivery", "id": "a\n", "state": "restarting", "state_seconds": 1, "restarts": 2,
            "last_cause": cause, "last_message": "Wake" });
        assert_eq!(
            output::aligned(&[COLUMNS.map(str::to_owned), row(&fine), row(&broke)]),
            [
                "KIND      ID   STATE       SINCE  RESTARTS  LAST MESSAGE  LAST CAUSE",
                "stash     -    running     1m 1s  0         -             -",
                "delivery  a\\n  restarting  1s     2         Wake          panicked 5s ago at src/a.rs:7",
            ]
        );
    }
}
