//! How fast the service delivers, from outside: the built binary as a process of its own, a fast receiver as another, and
//! the bare HTTP client beside them in the same run. `docs/benchmarks.md` says what the figures mean.
//!
//! `scripts/bench` runs it all; `cargo test` runs every scenario with tiny numbers. Words on the command line choose
//! scenarios by parts of their names.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its figures are for people")]

mod bare;
mod changes;
mod check;
mod chosen;
mod clock;
mod machine;
mod process;
mod report;
mod scenarios;
mod service;
mod sink;
mod stores;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use crate::bare::Bare;
use crate::changes::Workload;
use crate::chosen::Chosen;
use crate::clock::Deadline;
use crate::machine::Machine;
use crate::report::Row;
use crate::scenarios::{Rate, Scenario};
use crate::sink::Sink;
use crate::stores::Mode;

/// The whole bench ends within this.
const WITHIN: Duration = Duration::from_secs(5 * 60);

/// How long each set of bare loops runs.
const BARE: Duration = Duration::from_millis(1500);

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(err) => {
            eprintln!("bench: {err:#}");
            ExitCode::FAILURE
        }
    }
}

/// `false`: a scenario failed.
fn run(arguments: Vec<String>) -> anyhow::Result<bool> {
    if arguments.iter().any(|argument| argument == sink::ARGUMENT) {
        return sink::server::run().map(|()| true);
    }
    // Asked by tools that look for tests to run one by one: there are none.
    if arguments.iter().any(|argument| argument == "--list") {
        return Ok(true);
    }
    let chosen = Chosen::read(&arguments);
    // Cargo says so when it is a bench.
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    actix_rt::System::new().block_on(async {
        if is_bench { bench(&chosen).await } else { check::run(&chosen, Deadline::after(WITHIN)).await }
    })
}

/// What is run when nothing is left out.
fn all() -> Vec<(Mode, Scenario)> {
    let memory = |clients| Scenario::Memory(Workload { clients, documents: clients, versions: 1 });
    let scenarios = [
        Scenario::Preload(Workload { clients: 20, documents: 5000, versions: 4 }),
        Scenario::Steady(Workload { clients: 20, documents: 1000, versions: 5 }, Rate(500)),
        Scenario::Drain(Workload { clients: 20, documents: 1250, versions: 2 }),
        memory(1000),
        memory(5000),
    ];
    let in_mode = |mode| scenarios.map(|scenario| (mode, scenario));
    Mode::all().into_iter().flat_map(in_mode).collect()
}

async fn bench(chosen: &Chosen) -> anyhow::Result<bool> {
    let deadline = Deadline::after(WITHIN);
    let machine = Machine::here();
    println!("{}\n\n{}", machine.describe(), report::HEAD);
    let mut sink = Sink::start()?;
    let mut rows = Vec::new();
    let mut show = |row: Row| {
        println!("{}", report::line(&row));
        rows.push(row);
    };
    let bare = Bare::find(&mut sink, BARE, |row| show(row.clone()))?;
    let mut failures = Vec::new();
    for (mode, scenario) in all() {
        let name = scenario.name(mode);
        if !chosen.has(&name) {
            continue;
        }
        match deadline.bound(scenario.run(mode, &mut sink, deadline)).await {
            Ok(row) => show(row.beside(&bare.best)),
            Err(err) => {
                println!("| {name} | FAILED |");
                failures.push(format!("{name}: {err:#}"));
            }
        }
    }
    sink.open()?;
    show(bare.again(&mut sink)?);
    let file = keep(&json!({ "machine": machine, "rows": rows, "failures": failures }))?;
    println!("\nkept in {file}");
    for failure in &failures {
        eprintln!("bench: {failure}");
    }
    Ok(failures.is_empty())
}

/// Writes a run to a file of its own, and returns its path.
fn keep(run: &serde_json::Value) -> anyhow::Result<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{}.json", chrono::Utc::now().format("%Y%m%dT%H%M%SZ")));
    std::fs::write(&file, format!("{run:#}\n"))?;
    Ok(file.display().to_string())
}
