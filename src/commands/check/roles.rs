//! Which roles nobody has.

use crate::ports::findings::Findings;
use crate::settings::{Role, Roles};

/// Those that neither this process will have, nor another has. `held`: by replicas that run; `None`: nobody can tell.
pub(super) fn judge(ours: &Roles, held: Option<&[&'static str]>, findings: &mut Findings) {
    let Some(held) = held else { return };
    let is_had = |role: &Role| ours.has(*role) || held.contains(&role.as_str());
    let nobody: Vec<&str> =
        Role::ALL.into_iter().filter(|role| !is_had(role)).map(Role::as_str).collect();
    if nobody.is_empty() {
        findings.ok("roles", "each has a process, with this one");
    } else {
        let advice = "start a process that has them: DISPATCHER_ROLES";
        findings.warning("roles", format!("no process has {}", nobody.join(", ")), advice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::findings::{Finding, Outcome};

    fn judged(ours: &[&str], held: Option<&[&'static str]>) -> Vec<Finding> {
        let ours = serde_json::from_value(serde_json::json!(ours)).unwrap();
        let mut findings = Findings::of("replicas");
        judge(&ours, held, &mut findings);
        findings.into_list()
    }

    #[test]
    fn roles_that_nobody_has_are_told() {
        let all = Role::ALL.map(Role::as_str);
        assert_eq!(judged(&all, Some(&[]))[0].outcome, Outcome::Ok);
        let others = ["transfer", "retry", "schedule", "heavy"];
        assert_eq!(judged(&["ingest", "web"], Some(&others))[0].outcome, Outcome::Ok);
        let found = judged(&["ingest", "web"], Some(&others[..3]));
        assert_eq!((found[0].outcome, found[0].found.as_str()), (Outcome::Warning, "no process has heavy"));
        assert!(judged(&["web"], None).is_empty(), "nobody can tell");
    }
}
