//! The time of day.

/// The time of day, passed in so that the rules stay pure and tests choose it.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970, UTC.
    fn now_ms(&self) -> i64;

    /// Milliseconds since this machine started, those included in which it, or this process, was stopped. Nobody sets it back:
    /// what must not happen after a deadline is held against it.
    fn boot_ms(&self) -> i64;
}

/// The clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        chrono::Utc::now().timestamp_millis()
    }

    fn boot_ms(&self) -> i64 {
        // The monotonic clock of Linux stands still while the machine is suspended.
        #[cfg(target_os = "linux")]
        const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
        let now = rustix::time::clock_gettime(CLOCK);
        now.tv_sec * 1000 + now.tv_nsec / 1_000_000
    }
}
