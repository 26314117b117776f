//! `dispatcher dead-letters`: what a running service gave up.

mod source;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::api::{Api, ApiError, ApiOptions, encoded};
use super::clients::span;
use super::output;
use crate::settings::Environment;

/// Options of `dead-letters`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dispatcher dead-letters list --client acme
  dispatcher dead-letters show acme evt_rgaebwsn7sb7qrbtxtmyzpy3vm --body
  dispatcher dead-letters replay acme evt_rgaebwsn7sb7qrbtxtmyzpy3vm
  dispatcher dead-letters replay acme --from 2026-01-31T10:00:00Z --to 2026-01-31T11:30:00Z
  dispatcher dead-letters source | dispatcher explain -")]
pub(super) struct DeadLettersOptions {
    #[command(subcommand)]
    command: Letters,
}

#[derive(Debug, Subcommand)]
enum Letters {
    /// List payloads that were given up, those that failed last first
    List(ListOptions),
    /// Show one as JSON
    Show(ShowOptions),
    /// Send one again, or all of a client, or those that first failed within a time
    Replay(ReplayOptions),
    /// Delete one for good
    Purge(LetterOptions),
    /// Print the source records that could not be read, as JSON lines
    Source(source::SourceOptions),
    /// Have a source record read again, by a version that can read it
    Redrive(source::RedriveOptions),
}

#[derive(Debug, Args)]
struct ListOptions {
    /// Only of this client
    #[arg(long)]
    client: Option<String>,
    /// Those that a newer change of their document made needless
    #[arg(long)]
    superseded: bool,
    /// At most so many
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Print one JSON object a letter, a line each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    api: ApiOptions,
}

#[derive(Debug, Args)]
struct LetterOptions {
    /// The client's id
    client: String,
    /// The event's id, as in `webhook-id`
    event: String,
    #[command(flatten)]
    api: ApiOptions,
}

#[derive(Debug, Args)]
struct ShowOptions {
    #[command(flatten)]
    letter: LetterOptions,
    /// With the payload
    #[arg(long)]
    body: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A replay keeps its `webhook-id` and its body, and says `webhook-replay: true`. It waits like any other change while its webhook is away. It is
refused when a newer change of the document was delivered or waits: with --force it goes all the same, as if it happened now.")]
struct ReplayOptions {
    /// The client's id
    client: String,
    /// The event's id; without one everything dead of the client is replayed
    event: Option<String>,
    /// Although the receiver goes back by it
    #[arg(long, requires = "event")]
    force: bool,
    /// Only what first failed at this time or later
    #[arg(long, value_name = "TIME", conflicts_with = "event")]
    from: Option<DateTime<Utc>>,
    /// Only what first failed before this time
    #[arg(long, value_name = "TIME", conflicts_with = "event")]
    to: Option<DateTime<Utc>>,
    #[command(flatten)]
    api: ApiOptions,
}

pub(super) async fn run(options: DeadLettersOptions, environment: &Environment) -> anyhow::Result<()> {
    match options.command {
        Letters::List(options) => list(&options.api.open(environment)?, &options).await,
        Letters::Show(ShowOptions { letter, body }) => {
            let api = letter.api.open(environment)?;
            let query = if body { "?body=true" } else { "" };
            let shown = api.get(&format!("{}{query}", path_of(&letter.client, &letter.event))).await?;
            Ok(output::line(&serde_json::to_string_pretty(&shown)?)?)
        }
        Letters::Replay(options) => {
            let api = options.api.open(environment)?;
            match &options.event {
                Some(event) => replay_one(&api, &options.client, event, options.force).await,
                None => replay_all(&api, &options).await,
            }
        }
        Letters::Purge(letter) => {
            let api = letter.api.open(environment)?;
            api.delete(&path_of(&letter.client, &letter.event)).await?;
            output::note("deleted");
            Ok(())
        }
        Letters::Source(options) => source::list(options, environment).await,
        Letters::Redrive(options) => source::redrive(options, environment).await,
    }
}

fn path_of(client: &str, event: &str) -> String {
    format!("/v1/dead-letters/{}/{}", encoded(client), encoded(event))
}

const COLUMNS: [&str; 6] = ["CLIENT", "EVENT", "FIRST FAILED", "ATTEMPTS", "WHY", "DOCUMENT"];

/// What one request asks for.
const PAGE: usize = 1000;

async fn list(api: &Api, options: &ListOptions) -> anyhow::Result<()> {
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    let now_ms = Utc::now().timestamp_millis();
    let (mut left, mut after) = (options.limit, None::<String>);
    while left > 0 {
        let mut path = format!("/v1/dead-letters?limit={}", left.min(PAGE));
        if options.superseded {
            path += "&state=superseded";
        }
        for (name, value) in [("client", &options.client), ("after", &after)] {
            if let Some(value) = value {
                path += &format!("&{name}={}", encoded(value));
            }
        }
        let page = api.get(&path).await?;
        for letter in page["dead_letters"].as_array().into_iter().flatten() {
            left = left.saturating_sub(1);
            if options.json {
                output::line(&letter.to_string())?;
            } else {
                rows.push(row(letter, now_ms));
            }
        }
        after = page["next"].as_str().map(str::to_owned);
        if after.is_none() {
            break;
        }
    }
    if !options.json {
        output::aligned(&rows).iter().try_for_each(|line| output::line(line))?;
    }
    Ok(())
}

fn row(letter: &Value, now_ms: i64) -> [String; 6] {
    let text = |name: &str| letter[name].as_str().unwrap_or("-").escape_debug().to_string();
    let first = letter["first_failed_at_ms"].as_i64().unwrap_or(now_ms);
    [
        text("client"),
        text("event_id"),
        format!("{} ago", span(now_ms - first)),
        letter["attempts"].to_string(),
        text("reason"),
        text("document"),
    ]
}

async fn replay_one(api: &Api, client: &str, event: &str, force: bool) -> anyhow::Result<()> {
    let query = if force { "?force=true" } else { "" };
    let path = format!("{}/replay{query}", path_of(client, event));
    api.post(&path, bytes::Bytes::new()).await.map_err(|err| match &err {
        ApiError::Refused { status, problem, .. } if status.as_u16() == 409 && !force => {
            let newer = matches!(problem["reason"].as_str(), Some("superseded" | "newer_waits"));
            let hint = if newer { "; --force replays it all the same" } else { "" };
            anyhow::anyhow!("{err}{hint}")
        }
        _ => err.into(),
    })?;
    output::note("it will be sent again");
    Ok(())
}

async fn replay_all(api: &Api, options: &ReplayOptions) -> anyhow::Result<()> {
    let path = format!("/v1/clients/{}/dead-letters/replay", encoded(&options.client));
    let mut range = Map::new();
    for (name, time) in [("from_ms", options.from), ("to_ms", options.to)] {
        if let Some(time) = time {
            range.insert(name.to_owned(), time.timestamp_millis().into());
        }
    }
    range.insert("limit".to_owned(), 500.into());
    let (mut replayed, mut refused) = (0, Map::new());
    loop {
        let (_, answer) = api.post(&path, Value::Object(range.clone()).to_string().into()).await?;
        replayed += answer["replayed"].as_u64().unwrap_or(0);
        for (reason, count) in answer["refused"].as_object().into_iter().flatten() {
            let sum = refused.get(reason).and_then(Value::as_u64).unwrap_or(0) + count.as_u64().unwrap_or(0);
            refused.insert(reason.clone(), sum.into());
        }
        match &answer["next"] {
            Value::String(next) => range.insert("after".to_owned(), next.as_str().into()),
            _ => break,
        };
    }
    output::note(&format!("{} will be sent again", output::counted(replayed, "dead letter")));
    for (reason, count) in refused {
        output::note(&format!("{count} refused: {reason}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: ReplayOptions,
    }

    #[test]
    fn a_replay_is_of_one_or_of_a_time() {
        for (words, is_right) in [
            ("acme", true),
            ("acme evt_a", true),
            ("acme evt_a --force", true),
            ("acme --from 2026-01-31T10:00:00Z --to 2026-01-31T11:00:00+01:00", true),
            ("", false),
            ("acme --force", false),
            ("acme evt_a --from 2026-01-31T10:00:00Z", false),
            ("acme --from yesterday", false),
        ] {
            let line = Line::try_parse_from(["replay"].into_iter().chain(words.split_whitespace()));
            assert_eq!(line.is_ok(), is_right, "{words}");
        }
    }

    #[test]
    fn the_list_is_aligned_and_no_id_breaks_it() {
        let letter = json!({
            "client": "a\n", "event_id": "evt_a", "document": "identity.users:\u{1b}", "attempts": 10,
            "first_failed_at_ms": 1000, "reason": "status_422",
        });
        assert_eq!(
            output::aligned(&[COLUMNS.map(str::to_owned), row(&letter, 91_000)]),
            [
                "CLIENT  EVENT  FIRST FAILED  ATTEMPTS  WHY         DOCUMENT",
                "a\\n     evt_a  1m 30s ago    10        status_422  identity.users:\\u{1b}",
            ]
        );
    }
}
