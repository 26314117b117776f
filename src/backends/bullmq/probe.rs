//! Looks at what stands under the keys of the queues: another version of BullMQ may have left it there. Changes nothing.

use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, RedisResult};

use crate::domain::config::Secret;
use crate::ports::findings::Findings;

const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// Its layout is ours, but for queues that it paused.
const LEAST_MAJOR: u32 = 5;

/// What was found of a queue.
#[derive(Default)]
struct Left {
    /// What Node's library says of itself.
    version: Option<String>,
    /// There are jobs in the order of priority of version 3.
    has_old_priorities: bool,
    /// Jobs that version 5 parked when it paused the queue.
    parked: u64,
}

/// Looks whether these queues can be shared.
pub async fn probe(url: &Secret, prefix: &str, queues: &[&'static str], findings: &mut Findings) {
    match read(url, prefix, queues).await {
        Ok(all) => queues.iter().zip(&all).for_each(|(queue, left)| judge(queue, left, findings)),
        Err(err) => findings.fault(
            "keys",
            err.to_string(),
            format!("let the user of the service read {prefix}:*, or set DISPATCHER_QUEUE_PREFIX"),
        ),
    }
}

async fn read(url: &Secret, prefix: &str, queues: &[&'static str]) -> RedisResult<Vec<Left>> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER_WITHIN))
        .set_response_timeout(Some(ANSWER_WITHIN));
    let client = Client::open(url.expose())?;
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    let mut all = Vec::with_capacity(queues.len());
    for queue in queues {
        let (version, has_old_priorities, parked) = redis::pipe()
            .cmd("HGET")
            .arg(format!("{prefix}:{queue}:meta"))
            .arg("version")
            .cmd("EXISTS")
            .arg(format!("{prefix}:{queue}:priority"))
            .cmd("LLEN")
            .arg(format!("{prefix}:{queue}:paused"))
            .query_async(&mut connection)
            .await?;
        all.push(Left { version, has_old_priorities, parked });
    }
    Ok(all)
}

fn judge(queue: &'static str, left: &Left, findings: &mut Findings) {
    const ADVICE: &str = "let that version finish its jobs, then update every program that uses the queue to BullMQ 5 or 6, or give \
                          ours other names: DISPATCHER_QUEUE_PREFIX";
    let major = left.version.as_deref().and_then(major);
    if let Some(old) = major.filter(|major| *major < LEAST_MAJOR) {
        findings.fault(queue, format!("BullMQ {old} uses it: its keys mean other things"), ADVICE);
    } else if left.has_old_priorities {
        findings.warning(queue, "BullMQ 3 left prioritized jobs there, which nobody sees", ADVICE);
    } else if left.parked > 0 {
        let advice = "resume the queue from here, or by BullMQ 6: a resume by BullMQ 5 would lose what was added meanwhile";
        findings.warning(queue, format!("BullMQ 5 has paused it with {} jobs", left.parked), advice);
    } else {
        let found = left.version.clone().unwrap_or_else(|| "nobody else uses it".to_owned());
        findings.ok(queue, found);
    }
}

/// Of `bullmq:5.61.0`.
fn major(version: &str) -> Option<u32> {
    version.strip_prefix("bullmq:")?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::findings::Outcome;

    fn outcome(version: Option<&str>, has_old_priorities: bool, parked: u64) -> Outcome {
        let mut findings = Findings::of("queues");
        let left = Left { version: version.map(str::to_owned), has_old_priorities, parked };
        judge("dispatcher", &left, &mut findings);
        let list = findings.into_list();
        assert_eq!(list.len(), 1);
        list[0].outcome
    }

    #[test]
    fn what_an_older_version_left_is_told() {
        assert_eq!(outcome(None, false, 0), Outcome::Ok);
        assert_eq!(outcome(Some("bullmq:6.7.0"), false, 0), Outcome::Ok);
        assert_eq!(outcome(Some("bullmq:5.61.0"), false, 0), Outcome::Ok);
        assert_eq!(outcome(Some("bullmq:5.61.0"), false, 3), Outcome::Warning);
        assert_eq!(outcome(Some("bullmq:4.12.2"), false, 0), Outcome::Fault);
        assert_eq!(outcome(Some("bullmq:5.1.0"), true, 0), Outcome::Warning);
        assert_eq!(outcome(Some("bullmq-pro:7"), false, 0), Outcome::Ok, "of another we know nothing");
    }
}
