//! What `cargo test` runs of the bench, so that it does not rot: every embedded scenario, tiny, and whether the sink finds
//! what is wrong. The figures mean nothing.

use std::time::Duration;

use crate::bare::Bare;
use crate::changes::{Workload, client_id};
use crate::chosen::Chosen;
use crate::clock::Deadline;
use crate::report::Row;
use crate::scenarios::{Rate, Scenario};
use crate::sink::Sink;
use crate::sink::ledger::Ledger;
use crate::stores::Mode;

/// How long each set of bare loops runs.
const BARE: Duration = Duration::from_millis(20);

/// Versions and times have more digits in one than in the other.
const BODIES_DIFFER_BY: u64 = 8;

/// Runs the checks, and writes what came of them as Rust's test harness does. `false`: one failed.
///
/// # Errors
/// There is no sink, or no limit to compare with.
pub(crate) async fn run(chosen: &Chosen, deadline: Deadline) -> anyhow::Result<bool> {
    let mut results = Results::default();
    let name = "ledger_finds_faults";
    if results.begin(chosen, name) {
        results.end(name, ledger_finds_faults());
    }
    let mut scenarios: Vec<(String, Scenario)> =
        scenarios().into_iter().map(|scenario| (scenario.name(Mode::Embedded), scenario)).collect();
    scenarios.retain(|(name, _)| results.begin(chosen, name));
    if !scenarios.is_empty() {
        let mut sink = Sink::start()?;
        let bare = Bare::find(&mut sink, BARE, |_| {})?.best;
        for (name, scenario) in scenarios {
            let row = scenario.run(Mode::Embedded, &mut sink, deadline).await;
            results.end(&name, row.and_then(|row| is_the_same_work(&row, &bare)));
        }
    }
    println!("{}", results.summary());
    Ok(results.failed == 0)
}

#[derive(Default)]
struct Results {
    passed: u32,
    failed: u32,
    filtered_out: u32,
}

impl Results {
    fn begin(&mut self, chosen: &Chosen, name: &str) -> bool {
        let is_chosen = chosen.has(name);
        self.filtered_out += u32::from(!is_chosen);
        is_chosen
    }

    fn end(&mut self, name: &str, result: anyhow::Result<()>) {
        match result {
            Ok(()) => {
                self.passed += 1;
                println!("test {name} ... ok");
            }
            Err(err) => {
                self.failed += 1;
                println!("test {name} ... FAILED\n{err:#}");
            }
        }
    }

    fn summary(&self) -> String {
        let Self { passed, failed, filtered_out } = self;
        let word = if *failed == 0 { "ok" } else { "FAILED" };
        format!(
            "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {filtered_out} filtered out"
        )
    }
}

/// Else the ratio of the two means nothing.
fn is_the_same_work(row: &Row, bare: &Row) -> anyhow::Result<()> {
    let (ours, theirs) = (row.body_bytes, bare.body_bytes);
    anyhow::ensure!(
        ours.abs_diff(theirs) <= BODIES_DIFFER_BY,
        "bodies of {ours} bytes, bare ones have {theirs}"
    );
    Ok(())
}

fn scenarios() -> Vec<Scenario> {
    let workload = Workload { clients: 4, documents: 20, versions: 3 };
    vec![
        Scenario::Preload(workload),
        Scenario::Steady(workload, Rate(200)),
        Scenario::Drain(workload),
        Scenario::Memory(Workload { clients: 50, documents: 50, versions: 1 }),
    ]
}

/// Enters arrivals into a ledger, and looks whether it says the right thing of them.
fn ledger_finds_faults() -> anyhow::Result<()> {
    let arrivals = |versions_and_offsets: &[(u64, &str)]| {
        let mut ledger = Ledger::default();
        for (version, sequence) in versions_and_offsets {
            let body = format!(r#"{{"id":"{}","after":{{"version":{version},"sent_us":1}}}}"#, client_id(7));
            ledger.enter(&format!("/hook/{}", client_id(1)), sequence, body.as_bytes());
        }
        ledger.report()
    };
    let right = arrivals(&[(1, "5-0-8"), (2, "5-0-9"), (1, "5-0-8"), (2, "5-0-9"), (3, "5-0-10")]);
    right.verify(3, 1)?;
    anyhow::ensure!(right.repeats == 2, "{} repeats, not 2", right.repeats);
    for (what, versions_and_offsets) in [
        ("the first is missing", [(2, "5-0-8")].as_slice()),
        ("one is missing", &[(1, "5-0-8"), (3, "5-0-9")]),
        ("a sequence goes back", &[(1, "5-0-8"), (2, "5-0-7")]),
        ("sequences are compared as text", &[(1, "5-0-10"), (2, "5-0-9")]),
        ("a change comes under another sequence", &[(1, "5-0-8"), (1, "5-0-9")]),
        ("a repeat has another body", &[(1, "5-0-8"), (2, "5-0-9"), (2, "5-0-8")]),
        ("no sequence", &[(1, "")]),
    ] {
        anyhow::ensure!(arrivals(versions_and_offsets).faults == 1, "not found: {what}");
    }
    anyhow::ensure!(right.verify(4, 1).is_err(), "not found: a delivery is missing");
    anyhow::ensure!(right.verify(3, 2).is_err(), "not found: a client is missing");
    Ok(())
}
