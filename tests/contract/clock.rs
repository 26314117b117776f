//! The contract of a clock.

use std::time::{SystemTime, UNIX_EPOCH};

use dispatcher::ports::clock::Clock;

fn system_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Within a minute of the machine's: further off, receivers refuse our signatures.
pub(crate) async fn it_tells_the_time_of_day_in_milliseconds(clock: &impl Clock) {
    assert!((clock.now_ms() - system_ms()).abs() < 60_000);
}

pub(crate) async fn it_goes_on(clock: &impl Clock) {
    let before = clock.now_ms();
    let waited = SystemTime::now();
    while clock.now_ms() <= before {
        assert!(waited.elapsed().unwrap().as_secs() < 10, "the clock stands still");
        std::thread::yield_now();
    }
}
