//! How long things last: seconds in every run, and what the environment says in a long one.

use std::time::Duration;

/// How long something is away: what `DISPATCHER_TEST_OUTAGE` says, else this.
pub(crate) fn outage_or(usual: Duration) -> Duration {
    match std::env::var("DISPATCHER_TEST_OUTAGE") {
        Ok(text) => humantime::parse_duration(&text).expect("DISPATCHER_TEST_OUTAGE is a duration"),
        Err(_) => usual,
    }
}
