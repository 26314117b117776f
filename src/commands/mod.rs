//! The command line.
//!
//! Exit codes: 0 done, 1 failed, 2 a mistake in the command or the settings.

mod actors;
mod api;
mod audit;
mod check;
mod clients;
mod dead_letters;
mod demo;
pub mod explain;
mod heavy_jobs;
mod logging;
mod operational_events;
mod output;
mod owners;
mod queues;
pub mod receive;
mod records;
mod run;
mod send;
mod token;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::settings::{Environment, SettingsError, Sources};

/// Carries MongoDB change events to the webhooks of the clients that may see each document.
///
/// Without a command it runs the service. The commands that talk to a running service find it by --url.
#[derive(Debug, Parser)]
#[command(name = "dispatcher", version, args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(flatten)]
    run: run::RunOptions,
    #[command(subcommand)]
    command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  dispatcher demo                                            watch it work, in a temporary folder
  DISPATCHER_EGRESS_ALLOW=127.0.0.1 dispatcher               run the service, embedded, in ./data; webhooks may be here
  dispatcher check                                           say what the settings lead to, before it runs
  dispatcher receive                                         a webhook that prints what it gets
  dispatcher clients set acme --webhook http://127.0.0.1:4011/
  dispatcher send events.json                                hand change events to the service
  dispatcher explain events.json                             say what it would make of them

Exit codes: 0 done, 1 failed, 2 a mistake in the command or the settings.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service (the default)
    Run(run::RunOptions),
    /// Ask everything that the service needs, and say what to do about each fault
    Check(check::CheckOptions),
    /// Show it at work: receivers, a stream of sample events and a live summary, in a temporary folder
    Demo(demo::DemoOptions),
    /// Hand change events to a running service
    Send(send::SendOptions),
    /// Receive webhooks: print them, check signatures and order, fail on request
    Receive(receive::ReceiveOptions),
    /// Say what each record of a file is, and who would get it
    Explain(explain::ExplainOptions),
    /// List and change the clients of a running service
    Clients(clients::ClientsOptions),
    /// List the blocked owners, block and unblock them
    Owners(owners::OwnersOptions),
    /// List the actors of a running service, and have one begin anew
    Actors(actors::ActorsOptions),
    /// Look at the queues of a running service and their jobs, and act on them
    Queues(queues::QueuesOptions),
    /// Print what happened to clients and to the service itself, as JSON lines
    OperationalEvents(operational_events::OperationalEventsOptions),
    /// Print what operators did by the API, as JSON lines, the newest first
    Audit(audit::AuditOptions),
    /// Make a token for the API: print it once, and the lines for the settings
    Token(token::TokenOptions),
    /// List, show, send again or delete what was given up
    DeadLetters(dead_letters::DeadLettersOptions),
}

/// Does what the command line says. A reader of the output that goes away (`| head`) ends it without an error.
///
/// # Errors
/// To be shown by [`one_line`], and to end the process with [`exit_code`].
pub fn run(cli: Cli) -> anyhow::Result<()> {
    match dispatch(cli) {
        Err(err) if output::is_reader_gone(&err) => Ok(()),
        outcome => outcome,
    }
}

fn dispatch(cli: Cli) -> anyhow::Result<()> {
    let system = actix_rt::System::new();
    let command = match cli.command {
        None => return system.block_on(run::run(cli.run)),
        Some(Command::Run(options)) => return system.block_on(run::run(options)),
        Some(command) => command,
    };
    let environment = Sources::of_process(None).environment;
    logging::start(log_filter(&environment));
    system.block_on(async {
        match command {
            Command::Run(options) => run::run(options).await,
            Command::Check(options) => check::run(options).await,
            Command::Demo(options) => demo::run(options).await,
            Command::Send(options) => send::run(options, &environment).await,
            Command::Receive(options) => receive::run(options).await,
            Command::Explain(options) => explain::run(options).await,
            Command::Clients(options) => clients::run(options, &environment).await,
            Command::Owners(options) => owners::run(options, &environment).await,
            Command::Actors(options) => actors::run(options, &environment).await,
            Command::Queues(options) => queues::run(options, &environment).await,
            Command::OperationalEvents(options) => operational_events::run(options, &environment).await,
            Command::Audit(options) => audit::run(options, &environment).await,
            Command::Token(options) => token::run(&options),
            Command::DeadLetters(options) => dead_letters::run(options, &environment).await,
        }
    })
}

/// Commands other than `run` say what they have to say themselves.
fn log_filter(environment: &Environment) -> &str {
    environment.get("RUST_LOG").map_or("warn", String::as_str)
}

/// An error and its causes as one line.
pub fn one_line(err: &anyhow::Error) -> String {
    format!("{err:#}").lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// 2 for mistakes in the command or the settings, else 1.
pub fn exit_code(err: &anyhow::Error) -> ExitCode {
    if err.is::<SettingsError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn without_a_command_it_runs() {
        let cli = Cli::try_parse_from(["dispatcher", "--config", "x.toml"]).unwrap();
        assert!(cli.command.is_none());
        assert!(Cli::try_parse_from(["dispatcher", "--config", "x.toml", "demo"]).is_err());
        assert!(Cli::try_parse_from(["dispatcher", "sned"]).is_err());
    }

    #[test]
    fn an_error_is_one_line_and_knows_its_exit_code() {
        let failed = anyhow::anyhow!("a\nb").context("while c");
        assert_eq!(one_line(&failed), "while c: a b");
        assert_eq!(exit_code(&failed), ExitCode::FAILURE);
        let mistake = anyhow::Error::new(SettingsError::new("--value", "is no JSON")).context("settings");
        assert_eq!(exit_code(&mistake), ExitCode::from(2));
    }
}
