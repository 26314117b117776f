//! `dispatcher clients resync`, `replay`, `jobs` and `cancel`: work on one client that takes its time.

use chrono::{DateTime, Utc};
use clap::Args;
use serde_json::{Map, Value, json};

use super::api::{ApiError, encoded};
use super::clients::{ClientOptions, explain, path_of, span};
use super::output;
use crate::settings::Environment;

/// Options of `clients resync`.
#[derive(Debug, Args)]
pub(super) struct ResyncOptions {
    #[command(flatten)]
    client: ClientOptions,
    /// Only this collection, `<db>.<collection>`; may be given several times. Otherwise all that the client's filter admits
    #[arg(long = "collection", value_name = "DB.COLLECTION")]
    collections: Vec<String>,
    /// Also if the same was done already within a day
    #[arg(long)]
    again: bool,
}

/// Options of `clients replay`.
#[derive(Debug, Args)]
pub(super) struct ReplayOptions {
    #[command(flatten)]
    client: ClientOptions,
    /// Only what failed first at this time or later: 2026-01-31T10:00:00Z
    #[arg(long, value_name = "TIME")]
    from: Option<DateTime<Utc>>,
    /// Only what failed first before this time
    #[arg(long, value_name = "TIME")]
    to: Option<DateTime<Utc>>,
    /// Also what the receiver has something newer of, or will get: it goes back
    #[arg(long)]
    force: bool,
    /// Also if the same was done already within a day
    #[arg(long)]
    again: bool,
}

/// Options of `clients jobs`.
#[derive(Debug, Args)]
pub(super) struct JobsOptions {
    #[command(flatten)]
    client: ClientOptions,
    /// Print one JSON object a job, a line each
    #[arg(long)]
    json: bool,
}

/// Options of `clients cancel`.
#[derive(Debug, Args)]
pub(super) struct CancelOptions {
    #[command(flatten)]
    client: ClientOptions,
    /// The job's id, as `clients jobs` shows it
    job: String,
}

pub(super) async fn resync(options: ResyncOptions, environment: &Environment) -> anyhow::Result<()> {
    let mut said = Map::new();
    if !options.collections.is_empty() {
        said.insert("collections".to_owned(), options.collections.into());
    }
    said.insert("again".to_owned(), options.again.into());
    start(&options.client, "resync", said.into(), environment).await
}

pub(super) async fn replay(options: ReplayOptions, environment: &Environment) -> anyhow::Result<()> {
    let millis = |time: Option<DateTime<Utc>>| time.map(|time| time.timestamp_millis());
    let said = json!({
        "from_ms": millis(options.from),
        "to_ms": millis(options.to),
        "force": options.force,
        "again": options.again,
    });
    start(&options.client, "replay", said, environment).await
}

async fn start(
    client: &ClientOptions,
    kind: &str,
    said: Value,
    environment: &Environment,
) -> anyhow::Result<()> {
    let path = format!("{}/{kind}", path_of(&client.id));
    let answer = client.api.open(environment)?.post(&path, said.to_string().into()).await;
    let (_, answer) = answer.map_err(|err| explain(err, &client.id))?;
    let job = &answer["job"];
    let (id, state) = (job["id"].as_str().unwrap_or("?"), job["state"].as_str().unwrap_or("?"));
    let hint = if state == "open" { "" } else { " (of the last day: --again does it once more)" };
    output::note(&format!("{id} is {state}{hint}"));
    Ok(())
}

const COLUMNS: [&str; 6] = ["JOB", "KIND", "STATE", "SINCE", "PROGRESS", "WHY"];

pub(super) async fn jobs(options: JobsOptions, environment: &Environment) -> anyhow::Result<()> {
    let api = options.client.api.open(environment)?;
    let answer = api.get(&format!("{}/heavy-jobs", path_of(&options.client.id))).await?;
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    let now_ms = Utc::now().timestamp_millis();
    for job in answer["heavy_jobs"].as_array().into_iter().flatten() {
        if options.json {
            output::line(&job.to_string())?;
        } else {
            rows.push(row(job, now_ms));
        }
    }
    if !options.json {
        output::aligned(&rows).iter().try_for_each(|line| output::line(line))?;
    }
    Ok(())
}

fn row(job: &Value, now_ms: i64) -> [String; 6] {
    let text = |name: &str| job[name].as_str().unwrap_or_default().escape_debug().to_string();
    let since = job["created_ms"].as_i64().map_or_else(String::new, |created_ms| span(now_ms - created_ms));
    let counts = job["progress"].as_object().into_iter().flatten();
    let progress: Vec<String> = counts.map(|(what, count)| format!("{what} {count}")).collect();
    [text("id"), text("kind"), text("state"), since, progress.join(", "), text("reason")]
}

pub(super) async fn cancel(options: CancelOptions, environment: &Environment) -> anyhow::Result<()> {
    let api = options.client.api.open(environment)?;
    let path = format!("{}/heavy-jobs/{}", path_of(&options.client.id), encoded(&options.job));
    let job = api.get(&path).await.map_err(unknown)?;
    if job["state"] != "open" {
        anyhow::bail!("{} has ended: it is {}", options.job, job["state"].as_str().unwrap_or("?"));
    }
    api.delete(&path).await.map_err(unknown)?;
    output::note(&format!("{} is cancelled: what it has in hand is finished", options.job));
    Ok(())
}

fn unknown(err: ApiError) -> anyhow::Error {
    match &err {
        ApiError::Refused { status, .. } if status.as_u16() == 404 => {
            anyhow::anyhow!("the client has no such job")
        }
        _ => err.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_aligned() {
        let job = json!({
            "id": "resync-acme-1", "kind": "resync", "state": "open", "created_ms": 1000,
            "progress": { "sent": 12, "changed_meanwhile": 1 }, "reason": null,
        });
        assert_eq!(
            output::aligned(&[COLUMNS.map(str::to_owned), row(&job, 91_000)]),
            [
                "JOB            KIND    STATE  SINCE   PROGRESS                      WHY",
                "resync-acme-1  resync  open   1m 30s  sent 12, changed_meanwhile 1",
            ]
        );
    }
}
