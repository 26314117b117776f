//! Waiting for something that can only be asked for.

use std::time::{Duration, Instant};

/// Asks until the answer is there, and returns it. This is the only place in these tests that lets time pass.
///
/// # Panics
/// When the time is over: with `what` was waited for, and what the last question said.
pub(crate) async fn eventually<T>(
    what: &str,
    within: Duration,
    mut ask: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let deadline = Instant::now() + within;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(missing) if Instant::now() >= deadline => {
                panic!("{what}: not within {within:?}: {missing}")
            }
            Err(_) => actix_web::rt::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// `Ok` when it holds, else what is missing.
pub(crate) fn holds(condition: bool, missing: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(missing()) }
}
