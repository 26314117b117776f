//! What a look at a dependency finds, and what to do about it: the answer of every backend to `dispatcher check`.

use serde::Serialize;

/// How much the clocks of two machines may differ before it is said, milliseconds.
const SKEW_SAID_MS: i64 = 1_000;

/// Beyond this receivers that check `webhook-timestamp` (five minutes, by Standard Webhooks) are about to refuse us.
const SKEW_FAULT_MS: i64 = 120_000;

/// Whether something is as it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it must be.
    Ok,
    /// It works, but costs speed, safety or a feature.
    Warning,
    /// The service cannot work so.
    Fault,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was asked: `kafka`, `redis`.
    pub dependency: &'static str,
    /// What about it: `transfer topic`.
    pub check: &'static str,
    /// How it is.
    pub outcome: Outcome,
    /// What was seen.
    pub found: String,
    /// What to do; empty when all is well.
    pub advice: String,
}

/// The findings about one dependency, in the order in which they were made.
#[derive(Debug)]
pub struct Findings {
    dependency: &'static str,
    list: Vec<Finding>,
}

impl Findings {
    /// None yet.
    pub fn of(dependency: &'static str) -> Self {
        Self { dependency, list: Vec::new() }
    }

    /// It is as it must be.
    pub fn ok(&mut self, check: &'static str, found: impl Into<String>) {
        self.push(check, Outcome::Ok, found.into(), String::new());
    }

    /// It works, but.
    pub fn warning(&mut self, check: &'static str, found: impl Into<String>, advice: impl Into<String>) {
        self.push(check, Outcome::Warning, found.into(), advice.into());
    }

    /// The service cannot work so.
    pub fn fault(&mut self, check: &'static str, found: impl Into<String>, advice: impl Into<String>) {
        self.push(check, Outcome::Fault, found.into(), advice.into());
    }

    /// Compares the dependency's clock, all in milliseconds since 1970: it told `theirs` between our `before` and `after`.
    pub fn clock(&mut self, theirs: i64, before: i64, after: i64) {
        const ADVICE: &str = "let both machines keep their clocks by NTP";
        let skew = if theirs < before { before - theirs } else { (theirs - after).max(0) };
        let direction = if theirs < before { "behind" } else { "ahead of" };
        let found = format!("{skew} ms {direction} this machine");
        match skew {
            SKEW_FAULT_MS.. => self.fault("clock", found, ADVICE),
            SKEW_SAID_MS.. => self.warning("clock", found, ADVICE),
            _ => self.ok("clock", format!("within {SKEW_SAID_MS} ms of this machine's")),
        }
    }

    /// All of them.
    pub fn into_list(self) -> Vec<Finding> {
        self.list
    }

    fn push(&mut self, check: &'static str, outcome: Outcome, found: String, advice: String) {
        self.list.push(Finding { dependency: self.dependency, check, outcome, found, advice });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(theirs: i64, before: i64, after: i64) -> Finding {
        let mut findings = Findings::of("x");
        findings.clock(theirs, before, after);
        findings.into_list().remove(0)
    }

    #[test]
    fn a_clock_is_judged_by_the_least_that_it_must_be_off() {
        let outcome = |theirs| clock(theirs, 10_000, 14_000).outcome;
        assert_eq!(outcome(10_000 - SKEW_FAULT_MS), Outcome::Fault);
        assert_eq!(outcome(14_000 + SKEW_FAULT_MS), Outcome::Fault);
        assert_eq!(outcome(9_000), Outcome::Warning);
        assert_eq!(outcome(15_000), Outcome::Warning);
        assert_eq!(outcome(9_001), Outcome::Ok);
        // The answer took 4 s: within that its clock may be right.
        assert_eq!(outcome(14_000), Outcome::Ok);
        assert_eq!(clock(0, 5_000, 5_001).found, "5000 ms behind this machine");
        assert_eq!(clock(9_000, 5_000, 5_001).found, "3999 ms ahead of this machine");
    }
}
