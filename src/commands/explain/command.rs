//! The command: its options, and where configs come from.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use url::Url;

use super::explain;
use super::routes::Clients;
use crate::commands::api::{Api, parse_url};
use crate::commands::output;
use crate::domain::change_event::SourceNames;
use crate::domain::config::Secret;
use crate::domain::routing::RoutingSettings;
use crate::settings::{Settings, Sources};

/// Options of `explain`.
#[derive(Args)]
#[command(after_help = "\
One JSON object a record: kind (change, tombstone, skip, invalid), op, db, collection, id, clients, removed_clients,
deleted, reason. Without --url no service is asked; with it also routes: who would get it now, and why not.

Examples:
  dispatcher explain events.json
  dispatcher explain --url http://127.0.0.1:4010 events.json
  dispatcher dead-letters source | dispatcher explain -")]
pub(in crate::commands) struct ExplainOptions {
    /// The file, as `send` takes it; `-` reads standard input
    file: PathBuf,
    /// The topic of bare values that do not say where they belong
    #[arg(long)]
    topic: Option<String>,
    /// Ask this service which clients there are
    #[arg(long, value_parser = parse_url)]
    url: Option<Url>,
    /// The admin token. Better given as DISPATCHER_ADMIN_TOKEN or DISPATCHER_ADMIN_TOKEN_FILE: others can see arguments
    #[arg(long, requires = "url")]
    token: Option<String>,
    /// A settings file: topics and prefixes are read by it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl std::fmt::Debug for ExplainOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExplainOptions").field("file", &self.file).finish_non_exhaustive()
    }
}

/// Explains a file to standard output.
pub(in crate::commands) async fn run(options: ExplainOptions) -> anyhow::Result<()> {
    let sources = Sources::of_process(options.config);
    let settings = Settings::load(&sources)?;
    let clients = match options.url {
        Some(url) => {
            let api = Api::open(&url, options.token.map(Secret::new), &sources.environment)?;
            Some(Clients::load(&api).await?)
        }
        None => None,
    };
    let routing = RoutingSettings {
        revoke: settings.routing.revoke,
        mongo_prefix: &settings.mongo.prefix,
        blocked: settings.guard.blocked,
    };
    let routes = clients.as_ref().map(|clients| move |change: &_| clients.routes(change, &routing));
    let names = SourceNames {
        prefix: settings.source.prefix.as_str().into(),
        signal_collections: settings.source.signal_collections.clone(),
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let explained = explain(
        open(&options.file)?,
        options.topic.as_deref(),
        &names,
        routes.as_ref().map(|routes| routes as _),
        &mut out,
    )?;
    out.flush()?;
    if explained.invalid > 0 {
        output::note(&format!("{} of {} records cannot be read", explained.invalid, explained.records));
    }
    Ok(())
}

fn open(path: &Path) -> anyhow::Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Box::new(file))
}
