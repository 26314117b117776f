//! Waiting for something that can only be asked for.

use std::time::{Duration, Instant};

/// The first pause between two questions, and the longest: whoever waits for long asks less often, since others have work to do.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(100));

/// Asks until the answer is there, and returns it. This is the only place in these tests that lets time pass.
///
/// # Panics
/// When the time is over: with `what` was waited for, and what the last question said.
pub(crate) async fn eventually<T>(
    what: &str,
    within: Duration,
    mut ask: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let begin = Instant::now();
    let deadline = begin + within;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(missing) if Instant::now() >= deadline => {
                panic!("{what}: not within {within:?}: {missing}")
            }
            Err(_) => actix_web::rt::time::sleep((begin.elapsed() / 20).clamp(PAUSES.0, PAUSES.1)).await,
        }
    }
}

/// `Ok` when it holds, else what is missing.
pub(crate) fn holds(condition: bool, missing: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(missing()) }
}
