//! The judge of what was switched off.

use std::time::Duration;

use crate::memory::configs::ConfigStep;
use crate::receiver::{Book, Request};

/// A success of a moment ago may not be known to whoever switches off.
const MOMENT_MS: i64 = 30_000;

/// So many failures it takes.
const FAILURES: usize = 5;

/// A client is switched off because its webhook said that it is gone; or because its config had all its time, and failed in it, and
/// never succeeded.
pub(crate) fn judge(steps: &[ConfigStep], book: &Book, give_up: Duration) -> Vec<String> {
    let give_up_ms = give_up.as_millis() as i64;
    let mut wrong = Vec::new();
    for (index, off) in steps.iter().enumerate().filter(|(_, step)| step.switched_off) {
        let (client, at_ms) = (off.client.as_str(), off.at_ms);
        let ended = |request: &&Request| request.ended_ms.is_some_and(|ended_ms| ended_ms <= at_ms);
        let requests = || book.of(client).filter(ended);
        if requests().any(|request| request.status == Some(410) && request.webhook == off.webhook) {
            continue;
        }
        let before = steps[..index].iter().rfind(|step| step.client == off.client).unwrap();
        if at_ms - before.at_ms < give_up_ms {
            wrong.push(format!(
                "{client} is switched off {} ms after its config changed",
                at_ms - before.at_ms
            ));
        }
        let since = |request: &&Request| request.ended_ms > Some(at_ms - give_up_ms);
        let known = |request: &&Request| request.ended_ms <= Some(at_ms - MOMENT_MS);
        if let Some(success) = requests().filter(since).find(|one| one.acknowledged && known(one)) {
            let ago = at_ms - success.ended_ms.unwrap();
            wrong.push(format!("{client} is switched off {ago} ms after a success"));
        }
        let last_success_ms = requests().filter(|one| one.acknowledged).filter_map(|one| one.ended_ms).max();
        let unconnected = book
            .unconnected
            .iter()
            .filter(|(of, ended_ms)| of == client && *ended_ms <= at_ms && Some(*ended_ms) > last_success_ms);
        let answered = requests().rev().take_while(|request| !request.acknowledged).count();
        let failures = answered + unconnected.count();
        if failures < FAILURES {
            wrong.push(format!("{client} is switched off after {failures} failures"));
        }
    }
    wrong
}
