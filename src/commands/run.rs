//! `dispatcher run`: the service.

use std::path::PathBuf;

use clap::Args;

use super::logging;
use crate::app;
use crate::settings::{self, Settings, Sources};

/// Options of the service.
#[derive(Debug, Args)]
pub(super) struct RunOptions {
    /// A settings file (TOML; config/default.toml lists all keys). Wins over DISPATCHER_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What this process does, with commas: ingest, transfer, retry, schedule, heavy, web. Wins over DISPATCHER_ROLES; all of them if
    /// nothing is said. Cluster mode only
    #[arg(long, value_name = "ROLES", value_delimiter = ',')]
    roles: Option<Vec<String>>,
}

/// Runs the service until it is told to stop.
pub(super) async fn run(options: RunOptions) -> anyhow::Result<()> {
    let sources = Sources { roles: options.roles, ..Sources::of_process(options.config) };
    let settings = Settings::load(&sources)?;
    logging::start(&settings.log.filter);
    for name in settings::unused(&sources.environment, settings.mode) {
        log::warn!("{name} is set, and changes nothing mode={}", settings.mode.as_str());
    }
    // Every webhook connection is a descriptor.
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) => log::debug!("open files limit={limit}"),
        Err(err) => log::warn!("the limit of open files stays as it is err={err}"),
    }
    if !settings.api.needs_token() && !settings.api.host.is_loopback() {
        log::warn!(
            "no token is set: the api answers this machine only though it listens on {}",
            settings.api.address()
        );
    }
    app::run(settings).await
}
