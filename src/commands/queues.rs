//! `dispatcher queues`: the queues of a running service.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::api::{Api, ApiOptions, encoded};
use super::clients::span;
use super::output;
use super::owners::{ByOptions, late};
use crate::settings::Environment;

/// Options of `queues`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dispatcher queues list
  dispatcher queues jobs dispatcher --state delayed
  dispatcher queues promote dispatcher retry-acme
  dispatcher queues retry dispatcher-heavy --all
  dispatcher queues clean dispatcher-heavy completed --older-than 7days")]
pub(super) struct QueuesOptions {
    #[command(subcommand)]
    command: QueuesCommand,
    #[command(flatten)]
    api: ApiOptions,
}

#[derive(Debug, Subcommand)]
enum QueuesCommand {
    /// List the queues: paused or not, how many jobs are where, and for how long the oldest has waited
    List,
    /// Print a queue as JSON, with its schedules
    Show { queue: String },
    /// Print the jobs of a state, one JSON object a line
    Jobs {
        queue: String,
        /// waiting, prioritized, active, delayed, completed or failed
        #[arg(long, default_value = "waiting")]
        state: String,
        /// Pass over so many
        #[arg(long, default_value_t = 0)]
        offset: u64,
        /// Print at most so many
        #[arg(long, default_value_t = 100)]
        limit: u64,
    },
    /// Print a job as JSON, with its log
    Job { queue: String, id: String },
    /// A delayed job waits no longer
    Promote(Which),
    /// A failed job has all its attempts again
    Retry(Which),
    /// Remove a job that no worker has
    Remove { queue: String, id: String },
    /// No worker takes a job until the queue is resumed
    Pause {
        queue: String,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
        #[command(flatten)]
        by: ByOptions,
    },
    /// Go on with a paused queue
    Resume { queue: String },
    /// Remove the jobs of a state
    Clean {
        queue: String,
        /// waiting, prioritized, delayed, completed or failed
        state: String,
        /// Only those that were added, or ended, at least so long ago
        #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
        older_than: std::time::Duration,
        /// At most so many
        #[arg(long, default_value_t = 1000)]
        limit: u64,
    },
}

/// One job, or all of them.
#[derive(Debug, Args)]
struct Which {
    queue: String,
    /// The job
    #[arg(required_unless_present = "all")]
    id: Option<String>,
    /// All of them
    #[arg(long, conflicts_with = "id")]
    all: bool,
}

pub(super) async fn run(options: QueuesOptions, environment: &Environment) -> anyhow::Result<()> {
    let api = options.api.open(environment)?;
    match options.command {
        QueuesCommand::List => list(&api).await,
        QueuesCommand::Show { queue } => print(&api.get(&path_of(&queue)).await?),
        QueuesCommand::Jobs { queue, state, offset, limit } => {
            jobs(&api, &queue, &state, offset, limit).await
        }
        QueuesCommand::Job { queue, id } => print(&api.get(&job_path(&queue, &id)).await?),
        QueuesCommand::Promote(some) => act(&api, &some, "promote", "promoted").await,
        QueuesCommand::Retry(some) => act(&api, &some, "retry", "retried").await,
        QueuesCommand::Remove { queue, id } => {
            api.delete(&job_path(&queue, &id)).await?;
            output::note(&format!("{id} removed"));
            Ok(())
        }
        QueuesCommand::Pause { queue, reason, by } => {
            let said = json!({ "reason": reason, "by": by.by });
            let (status, _) =
                api.post(&format!("{}/pause", path_of(&queue)), said.to_string().into()).await?;
            output::note(&format!("{queue} is paused{}", late(status.as_u16())));
            Ok(())
        }
        QueuesCommand::Resume { queue } => {
            api.post(&format!("{}/resume", path_of(&queue)), "".into()).await?;
            output::note(&format!("{queue} goes on"));
            Ok(())
        }
        QueuesCommand::Clean { queue, state, older_than, limit } => {
            let older_than_ms = u64::try_from(older_than.as_millis()).unwrap_or(u64::MAX);
            let clean = json!({ "state": state, "older_than_ms": older_than_ms, "limit": limit });
            let path = format!("{}/clean", path_of(&queue));
            note_count(&api.post(&path, clean.to_string().into()).await?.1, "removed")
        }
    }
}

fn path_of(queue: &str) -> String {
    format!("/v1/queues/{}", encoded(queue))
}

fn job_path(queue: &str, id: &str) -> String {
    format!("{}/jobs/{}", path_of(queue), encoded(id))
}

fn print(document: &Value) -> anyhow::Result<()> {
    Ok(output::line(&serde_json::to_string_pretty(document)?)?)
}

async fn act(api: &Api, some: &Which, verb: &str, done: &str) -> anyhow::Result<()> {
    match &some.id {
        Some(id) => {
            api.post(&format!("{}/{verb}", job_path(&some.queue, id)), "".into()).await?;
            output::note(&format!("{id} {done}"));
            Ok(())
        }
        None => {
            let path = format!("{}/{verb}-all", path_of(&some.queue));
            note_count(&api.post(&path, "".into()).await?.1, done)
        }
    }
}

fn note_count(answer: &Value, done: &str) -> anyhow::Result<()> {
    let count = answer["count"].as_u64().unwrap_or_default();
    output::note(&format!("{} {done}", output::counted(count, "job")));
    Ok(())
}

async fn jobs(api: &Api, queue: &str, state: &str, offset: u64, limit: u64) -> anyhow::Result<()> {
    const PAGE: u64 = 100;
    let (mut next, mut left) = (Some(offset), limit);
    while let Some(offset) = next.filter(|_| left > 0) {
        let page = left.min(PAGE);
        let query = format!("state={}&offset={offset}&limit={page}", encoded(state));
        let answer = api.get(&format!("{}/jobs?{query}", path_of(queue))).await?;
        for job in answer["jobs"].as_array().into_iter().flatten() {
            output::line(&job.to_string())?;
        }
        left -= page;
        next = answer["next"].as_u64();
    }
    Ok(())
}

const COLUMNS: [&str; 9] = [
    "QUEUE",
    "PAUSED",
    "ACTIVE",
    "WAITING",
    "PRIORITIZED",
    "DELAYED",
    "COMPLETED",
    "FAILED",
    "OLDEST WAITING",
];

async fn list(api: &Api) -> anyhow::Result<()> {
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    let answer = api.get("/v1/queues").await?;
    rows.extend(answer["queues"].as_array().into_iter().flatten().map(row));
    output::aligned(&rows).iter().try_for_each(|line| output::line(line))?;
    Ok(())
}

fn row(queue: &Value) -> [String; 9] {
    let paused = match (queue["paused"].as_bool(), queue["pause"]["by"].as_str()) {
        (Some(true), Some(by)) => format!("by {}", by.escape_debug()),
        (Some(true), None) => "yes".to_owned(),
        _ => "-".to_owned(),
    };
    let count = |state: &str| queue["counts"][state].to_string();
    let oldest = queue["oldest_waiting_ms"].as_i64().map_or_else(|| "-".to_owned(), span);
    [
        queue["name"].as_str().unwrap_or("-").escape_debug().to_string(),
        paused,
        count("active"),
        count("waiting"),
        count("prioritized"),
        count("delayed"),
        count("completed"),
        count("failed"),
        oldest,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_says_who_paused_what() {
        let counts = json!({ "active": 1, "waiting": 20, "prioritized": 0, "delayed": 3, "completed": 0, "failed": 4 });
        let queue = |name: &str, paused: bool, pause: Value| json!({ "name": name, "paused": paused, "pause": pause, "counts": counts, "oldest_waiting_ms": 1_500 });
        let rows = [
            COLUMNS.map(str::to_owned),
            row(&queue("a", true, json!({ "by": "ann\n" }))),
            row(&queue("b", true, Value::Null)),
            row(&queue("c", false, Value::Null)),
        ];
        assert_eq!(
            output::aligned(&rows),
            [
                "QUEUE  PAUSED    ACTIVE  WAITING  PRIORITIZED  DELAYED  COMPLETED  FAILED  OLDEST WAITING",
                "a      by ann\\n  1       20       0            3        0          4       2s",
                "b      yes       1       20       0            3        0          4       2s",
                "c      -         1       20       0            3        0          4       2s",
            ]
        );
    }
}
