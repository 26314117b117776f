//! `dispatcher clients`: the clients of a running service.

use std::fmt;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::api::{Api, ApiError, ApiOptions, encoded};
use super::heavy_jobs::{self, CancelOptions, JobsOptions, ReplayOptions, ResyncOptions};
use super::output;
use super::owners::{ByOptions, late};
use crate::settings::{Environment, SettingsError};

/// Options of `clients`.
#[derive(Debug, Args)]
pub(super) struct ClientsOptions {
    #[command(subcommand)]
    command: ClientsCommand,
}

#[derive(Debug, Subcommand)]
enum ClientsCommand {
    /// List the clients: status, state and since when, what waits, the next try, and why
    List(ListOptions),
    /// Create a client, or replace its config, and switch it on
    Set(SetOptions),
    /// Switch a client on; its config stays as it is
    Enable(ClientOptions),
    /// Switch a client off: its changes are skipped until it is switched on; its config stays as it is
    Disable(ClientOptions),
    /// Stop a client's delivery: its changes wait until it is resumed
    Pause(PauseOptions),
    /// Let a client's delivery go on: what waits goes out, in order
    Resume(ClientOptions),
    /// Have a client's webhook tried now, whatever its schedule says
    Retry(ClientOptions),
    /// Print the attempts to deliver to a client that failed, and those that followed, as JSON lines, the newest first
    Attempts(ClientOptions),
    /// Send a client again what it may see, as MongoDB has it now
    Resync(ResyncOptions),
    /// Send a client again what is dead of it, as a job of the service
    Replay(ReplayOptions),
    /// List a client's resyncs and replays: those under way, and those of the last day
    Jobs(JobsOptions),
    /// End a resync or replay that is under way
    Cancel(CancelOptions),
    /// Delete a client's config
    Delete(ClientOptions),
}

#[derive(Debug, Args)]
struct PauseOptions {
    #[command(flatten)]
    client: ClientOptions,
    /// Why
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    by: ByOptions,
}

#[derive(Debug, Args)]
struct ListOptions {
    /// Print one JSON object a client, a line each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    api: ApiOptions,
}

#[derive(Debug, Args)]
pub(super) struct ClientOptions {
    /// The client's id, as it stands in `clients` of the documents
    pub(super) id: String,
    #[command(flatten)]
    pub(super) api: ApiOptions,
}

#[derive(Args)]
#[command(after_help = "\
What is not given is not kept: `set` replaces the whole config. A text that begins with @ names a file that holds it
(`-` for standard input), so that no secret stands among the arguments, where others can see it.

Examples:
  dispatcher clients set acme --webhook https://acme.example/changes --authorization @token.txt
  dispatcher clients set acme --value '{\"webhook\": \"https://acme.example/changes\", \"filter\": {\"include\": [\"identity.*\"]}}'
  dispatcher clients set acme --value @acme.json")]
struct SetOptions {
    /// The client's id, as it stands in `clients` of the documents
    id: String,
    /// Where its changes are POSTed
    #[arg(long, value_name = "URL", required_unless_present = "value")]
    webhook: Option<String>,
    /// The `authorization` header of its requests, sent as it stands
    #[arg(long, value_name = "TEXT|@FILE")]
    authorization: Option<String>,
    /// The secret that signs its requests (Standard Webhooks, `whsec_...`)
    #[arg(long, value_name = "TEXT|@FILE")]
    secret: Option<String>,
    /// The config's whole value as JSON; the options above replace its members
    #[arg(long, value_name = "JSON|@FILE")]
    value: Option<String>,
    #[command(flatten)]
    api: ApiOptions,
}

impl fmt::Debug for SetOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetOptions").field("id", &self.id).finish_non_exhaustive()
    }
}

pub(super) async fn run(options: ClientsOptions, environment: &Environment) -> anyhow::Result<()> {
    match options.command {
        ClientsCommand::List(options) => list(&options.api.open(environment)?, options.json).await,
        ClientsCommand::Set(options) => {
            let document = json!({ "status": "ACTIVE", "value": value_of(&options)? });
            put(&options.api.open(environment)?, &options.id, &document).await
        }
        ClientsCommand::Enable(options) => {
            put(&options.api.open(environment)?, &options.id, &json!({ "status": "ACTIVE" })).await
        }
        ClientsCommand::Disable(options) => {
            put(&options.api.open(environment)?, &options.id, &json!({ "status": "INACTIVE" })).await
        }
        ClientsCommand::Pause(PauseOptions { client, reason, by }) => {
            let said = json!({ "reason": reason, "by": by.by });
            act(&client, "pause", &said, environment, "paused").await
        }
        ClientsCommand::Resume(client) => act(&client, "resume", &json!({}), environment, "resumed").await,
        ClientsCommand::Retry(client) => act(&client, "retry", &json!({}), environment, "asked").await,
        ClientsCommand::Attempts(options) => attempts(&options.api.open(environment)?, &options.id).await,
        ClientsCommand::Resync(options) => heavy_jobs::resync(options, environment).await,
        ClientsCommand::Replay(options) => heavy_jobs::replay(options, environment).await,
        ClientsCommand::Jobs(options) => heavy_jobs::jobs(options, environment).await,
        ClientsCommand::Cancel(options) => heavy_jobs::cancel(options, environment).await,
        ClientsCommand::Delete(options) => {
            let api = options.api.open(environment)?;
            let status = api.delete(&path_of(&options.id)).await.map_err(|err| explain(err, &options.id))?;
            let late = if status.as_u16() == 202 { ", in use soon" } else { "" };
            output::note(&format!("{} deleted{late}", options.id));
            Ok(())
        }
    }
}

/// Has something done about a client's delivery.
async fn act(
    client: &ClientOptions,
    action: &str,
    said: &Value,
    environment: &Environment,
    done: &str,
) -> anyhow::Result<()> {
    let path = format!("{}/{action}", path_of(&client.id));
    let answer = client.api.open(environment)?.post(&path, said.to_string().into()).await;
    let (status, _) = answer.map_err(|err| explain(err, &client.id))?;
    // Asked for, a try is no more than that.
    let late = if action == "retry" { "" } else { late(status.as_u16()) };
    output::note(&format!("{} {done}{late}", client.id));
    Ok(())
}

async fn attempts(api: &Api, id: &str) -> anyhow::Result<()> {
    let mut before = None;
    loop {
        let from = before.map(|before: i64| format!("&before={before}")).unwrap_or_default();
        let page = api.get(&format!("{}/attempts?limit=1000{from}", path_of(id))).await?;
        for attempt in page["attempts"].as_array().into_iter().flatten() {
            output::line(&attempt.to_string())?;
        }
        before = page["next"].as_i64();
        if before.is_none() {
            return Ok(());
        }
    }
}

pub(super) fn path_of(id: &str) -> String {
    format!("/v1/clients/{}", encoded(id))
}

fn value_of(options: &SetOptions) -> anyhow::Result<Value> {
    let mut value = match &options.value {
        None => Map::new(),
        Some(text) => match serde_json::from_str(&text_or_file(text)?) {
            Ok(Value::Object(value)) => value,
            Ok(_) => return Err(SettingsError::new("--value", "expected a JSON object").into()),
            Err(err) => {
                let place = format!("is no JSON (line {}, column {})", err.line(), err.column());
                return Err(SettingsError::new("--value", place).into());
            }
        },
    };
    for (name, text) in [
        ("webhook", &options.webhook),
        ("authorization", &options.authorization),
        ("secret", &options.secret),
    ] {
        if let Some(text) = text {
            value.insert(name.to_owned(), text_or_file(text)?.into());
        }
    }
    Ok(Value::Object(value))
}

/// The text itself, or for `@FILE` what the file holds.
fn text_or_file(text: &str) -> anyhow::Result<String> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let mut content = String::new();
    let read = match path {
        "-" => std::io::stdin().read_to_string(&mut content),
        path => std::fs::File::open(Path::new(path)).and_then(|mut file| file.read_to_string(&mut content)),
    };
    read.with_context(|| format!("cannot read {path}"))?;
    content.truncate(content.trim_end_matches(['\r', '\n']).len());
    Ok(content)
}

async fn put(api: &Api, id: &str, document: &Value) -> anyhow::Result<()> {
    let (status, client) = api.put(&path_of(id), document).await.map_err(|err| explain(err, id))?;
    let what = match status.as_u16() {
        201 => "created",
        202 => "stored, in use soon",
        _ => "changed",
    };
    output::note(&format!("{id} {what}: {}", client["config"]["status"].as_str().unwrap_or("?")));
    Ok(())
}

/// A service that asks for a value, or answers 404, does not know the client.
pub(super) fn explain(err: ApiError, id: &str) -> anyhow::Error {
    match &err {
        ApiError::Refused { problem, .. } if problem["key"] == "value" => {
            anyhow::anyhow!("there is no client {id}: `clients set` creates it")
        }
        ApiError::Refused { status, .. } if status.as_u16() == 404 => {
            anyhow::anyhow!("there is no client {id}")
        }
        _ => err.into(),
    }
}

const COLUMNS: [&str; 9] =
    ["CLIENT", "STATUS", "STATE", "SINCE", "PENDING", "DEAD", "NEXT TRY", "WEBHOOK", "WHY"];

async fn list(api: &Api, as_json: bool) -> anyhow::Result<()> {
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    let now_ms = chrono::Utc::now().timestamp_millis();
    api.each_row("/v1/clients", "clients", |client| {
        if as_json {
            output::line(&client.to_string())?;
        } else {
            rows.push(row(client, now_ms));
        }
        Ok(())
    })
    .await?;
    if !as_json {
        output::aligned(&rows).iter().try_for_each(|line| output::line(line))?;
    }
    Ok(())
}

fn row(client: &Value, now_ms: i64) -> [String; 9] {
    let config = &client["config"];
    let status = match config["deleted"].as_bool() {
        Some(true) => "DELETED",
        _ => config["status"].as_str().unwrap_or("-"),
    };
    let (state, fault) = (&client["state"], &config["fault"]);
    let why = match fault["key"].as_str() {
        Some(key) => format!("{key}: {}", fault["problem"].as_str().unwrap_or_default()),
        None => state["reason"].as_str().unwrap_or_default().escape_debug().to_string(),
    };
    let since = state["since_ms"].as_i64().map(|since_ms| span(now_ms - since_ms));
    let next_try = state["next_attempt_at_ms"].as_i64().map(|at_ms| match at_ms - now_ms {
        ..=0 => "now".to_owned(),
        wait_ms => format!("in {}", span(wait_ms)),
    });
    let shown = |time: Option<String>| time.unwrap_or_else(|| "-".to_owned());
    let text = |value: &Value| value.as_str().unwrap_or("-").escape_debug().to_string();
    [
        text(&client["client"]),
        status.to_owned(),
        text(&state["phase"]),
        shown(since),
        client["backlog"]["pending"].to_string(),
        client["backlog"]["dead"].to_string(),
        shown(next_try),
        text(&config["value"]["webhook"]),
        why,
    ]
}

/// A time in whole seconds, for people.
pub(super) fn span(millis: i64) -> String {
    let seconds = u64::try_from(millis).unwrap_or(0).div_ceil(1000);
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::commands::exit_code;

    /// The value that `clients set` with these arguments sends.
    fn value(arguments: &[&str]) -> anyhow::Result<Value> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: SetOptions,
        }
        let arguments = ["set", "acme"].iter().chain(arguments);
        value_of(&Line::try_parse_from(arguments)?.options)
    }

    #[test]
    fn options_replace_members_of_the_value() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hunter2\n").unwrap();
        let secret = format!("@{}", file.path().display());
        let arguments = [
            "--value",
            r#"{"webhook":"http://a/","coalesce":true}"#,
            "--webhook",
            "http://b/",
            "--secret",
            &secret,
        ];
        assert_eq!(
            value(&arguments).unwrap(),
            json!({ "webhook": "http://b/", "coalesce": true, "secret": "hunter2" })
        );
    }

    #[test]
    fn a_value_that_is_no_object_is_a_mistake_in_the_command() {
        for text in ["[]", "{", "hunter2"] {
            let err = value(&["--value", text]).unwrap_err();
            assert_eq!(exit_code(&err), std::process::ExitCode::from(2), "{text}");
            assert!(!err.to_string().contains("hunter2"));
        }
        assert!(value(&[]).is_err());
        assert!(value(&["--value", "@/nowhere"]).unwrap_err().to_string().contains("/nowhere"));
    }

    #[test]
    fn the_list_is_aligned_and_an_id_cannot_break_it() {
        let client = json!({
            "client": "a\n\u{1b}[31m",
            "config": { "status": "ACTIVE", "deleted": false, "value": { "webhook": "http://a/" },
                "fault": { "key": "headers", "problem": "must be an object" } },
            "state": null,
            "backlog": { "pending": 12, "dead": 0 },
        });
        let failing = json!({
            "client": "c",
            "config": { "status": "ACTIVE", "deleted": false, "value": { "webhook": "http://c/" }, "fault": null },
            "state": { "phase": "degraded", "reason": "connect", "since_ms": 1000, "next_attempt_at_ms": 102_500 },
            "backlog": { "pending": 1, "dead": 0 },
        });
        let bare =
            json!({ "client": "b", "config": null, "state": null, "backlog": { "pending": 1, "dead": 2 } });
        assert_eq!(
            output::aligned(&[
                COLUMNS.map(str::to_owned),
                row(&client, 0),
                row(&bare, 0),
                row(&failing, 91_000)
            ]),
            [
                "CLIENT         STATUS  STATE     SINCE   PENDING  DEAD  NEXT TRY  WEBHOOK    WHY",
                "a\\n\\u{1b}[31m  ACTIVE  -         -       12       0     -         http://a/  headers: must be an object",
                "b              -       -         -       1        2     -         -",
                "c              ACTIVE  degraded  1m 30s  1        0     in 12s    http://c/  connect",
            ]
        );
    }
}
