//! What `cargo test` runs of the bench, so that it does not rot: every embedded scenario, tiny, and whether the sink finds
//! what is wrong. The figures mean nothing.

use crate::changes::{Workload, client_id};
use crate::scenarios::{Rate, Scenario};
use crate::sink::ledger::Ledger;

/// The scenarios.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let workload = Workload { clients: 4, documents: 20, versions: 3 };
    vec![
        Scenario::Preload(workload),
        Scenario::Steady(workload, Rate(200)),
        Scenario::Drain(workload),
        Scenario::Memory(Workload { clients: 50, documents: 50, versions: 1 }),
    ]
}

/// Enters arrivals into a ledger, and looks whether it says the right thing of them.
///
/// # Errors
/// It does not.
pub(crate) fn ledger_finds_faults() -> anyhow::Result<()> {
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
