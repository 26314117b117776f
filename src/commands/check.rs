//! `dispatcher check`: reads the settings, asks every dependency, and says what to do about each fault. Changes nothing.

#[cfg(feature = "cluster")]
mod partitions;
#[cfg(feature = "cluster")]
mod roles;
#[cfg(feature = "cluster")]
mod stores;
mod this_machine;

use std::path::PathBuf;

use clap::Args;

use super::output;
use crate::backends::embedded;
use crate::ports::findings::{Finding, Findings, Outcome};
use crate::settings::{Mode, Settings, SettingsError, Sources};

/// Options of the check.
#[derive(Debug, Args)]
pub(super) struct CheckOptions {
    /// A settings file (TOML; config/default.toml lists all keys). Wins over DISPATCHER_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON lines, one for each thing that was looked at
    #[arg(long)]
    json: bool,
}

/// Looks at everything and prints it. Warnings are no failure.
pub(super) async fn run(options: CheckOptions) -> anyhow::Result<()> {
    let settings = Settings::load(&Sources::of_process(options.config))?;
    let findings = look(&settings).await?;
    if options.json {
        for finding in &findings {
            output::line(&serde_json::to_string(finding)?)?;
        }
    } else {
        output::note(&format!("mode {}", settings.mode.as_str()));
        table(&findings).iter().try_for_each(|line| output::line(line))?;
    }
    match findings.iter().filter(|finding| finding.outcome == Outcome::Fault).count() {
        0 => Ok(()),
        faults => anyhow::bail!(
            "{} of {} checks: the service cannot work so",
            output::counted(faults as u64, "fault"),
            findings.len()
        ),
    }
}

async fn look(settings: &Settings) -> Result<Vec<Finding>, SettingsError> {
    let (is_served, api) = this_machine::api(&settings.api).await;
    let mut findings = api;
    findings.extend(this_machine::egress(&settings.egress.allow));
    match settings.mode {
        Mode::Embedded => {
            let mut folder = Findings::of("embedded");
            embedded::probe(&settings.data_dir, is_served, &mut folder);
            findings.extend(folder.into_list());
        }
        #[cfg(feature = "cluster")]
        Mode::Cluster => findings.extend(stores::look(settings).await?),
        // The settings refuse it.
        #[cfg(not(feature = "cluster"))]
        Mode::Cluster => {}
    }
    Ok(findings)
}

/// One line for each finding, and one below it with what to do.
fn table(findings: &[Finding]) -> Vec<String> {
    let mut rows = vec![["DEPENDENCY", "CHECK", "OUTCOME", "FOUND"].map(str::to_owned)];
    rows.extend(findings.iter().map(|finding| {
        [
            finding.dependency.to_owned(),
            finding.check.to_owned(),
            word(finding.outcome).to_owned(),
            shown(&finding.found),
        ]
    }));
    let mut lines = output::aligned(&rows).into_iter();
    let mut table: Vec<String> = lines.next().into_iter().collect();
    for (line, finding) in lines.zip(findings) {
        table.push(line);
        if !finding.advice.is_empty() {
            table.push(format!("    -> {}", shown(&finding.advice)));
        }
    }
    table
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Warning => "warning",
        Outcome::Fault => "FAULT",
    }
}

/// What others said, as one line that moves no cursor.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_followed_by_what_to_do() {
        let mut findings = Findings::of("redis");
        findings.ok("version", "7.0");
        findings.fault("writing", "NOPERM\r\n\u{1b}[2J", "let it write");
        assert_eq!(
            table(&findings.into_list()),
            [
                "DEPENDENCY  CHECK    OUTCOME  FOUND",
                "redis       version  ok       7.0",
                "redis       writing  FAULT    NOPERM   [2J",
                "    -> let it write",
            ]
        );
    }
}
