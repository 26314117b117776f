//! The binary: the command line and its exit code.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use dispatcher::commands::{self, Cli};

fn main() -> ExitCode {
    // Before anything speaks TLS. An error means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match commands::run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            // Nobody is left to tell when even this cannot be written.
            let _ = writeln!(std::io::stderr(), "dispatcher: {}", commands::one_line(&err));
            commands::exit_code(&err)
        }
    }
}
