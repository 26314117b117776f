//! How many partitions the transfer log has. It is fixed when the log is first used: settings, topic and what is remembered are
//! compared as the start of the service does.

use crate::ports::findings::Findings;

const CHECK: &str = "partitions";

/// Says whether they agree. `None`: not there, or not seen.
pub(super) fn judge(configured: u32, topic: Option<u32>, remembered: Option<u32>, findings: &mut Findings) {
    match (topic, remembered) {
        (Some(topic), Some(remembered)) if topic != remembered => findings.fault(
            CHECK,
            format!("the topic has {topic}, and was made with {remembered}"),
            format!(
                "clients would lose their order. Name a new topic, DISPATCHER_TRANSFER_TOPIC, or make this one again with {remembered}"
            ),
        ),
        (topic, remembered) => match remembered.or(topic) {
            Some(kept) if kept != configured => findings.warning(
                CHECK,
                format!("the log keeps {kept}, not the {configured} of the settings"),
                format!("set transfer.partitions to {kept}. Never change what the topic has: clients would lose their order"),
            ),
            Some(kept) => findings.ok(CHECK, kept.to_string()),
            None => {}
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::findings::Outcome;

    #[test]
    fn it_is_judged_as_the_start_does() {
        let outcome = |topic, remembered| {
            let mut findings = Findings::of("transfer log");
            judge(12, topic, remembered, &mut findings);
            findings.into_list().first().map(|finding| finding.outcome)
        };
        assert_eq!(outcome(None, None), None, "it will be made");
        assert_eq!(outcome(Some(12), Some(12)), Some(Outcome::Ok));
        assert_eq!(outcome(Some(12), None), Some(Outcome::Ok));
        assert_eq!(outcome(Some(5), Some(5)), Some(Outcome::Warning));
        assert_eq!(outcome(Some(5), None), Some(Outcome::Warning), "others made it");
        assert_eq!(outcome(None, Some(5)), Some(Outcome::Warning), "it will be made again");
        assert_eq!(outcome(Some(12), Some(5)), Some(Outcome::Fault));
        assert_eq!(outcome(Some(5), Some(12)), Some(Outcome::Fault));
    }
}
