//! When to try again.

use std::time::Duration;

/// How the time between attempts grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetrySchedule {
    /// After the first failure.
    pub base: Duration,
    /// By which it grows with each further failure, at least 1.
    pub factor: f64,
    /// At most, before jitter.
    pub cap: Duration,
    /// The share by which a delay varies to both sides, 0 to 1, so that not everybody comes at once.
    pub jitter: f64,
}

impl Default for RetrySchedule {
    /// 5 s, doubling, at most 15 min, varied by 20 %.
    fn default() -> Self {
        Self { base: Duration::from_secs(5), factor: 2.0, cap: Duration::from_secs(15 * 60), jitter: 0.2 }
    }
}

impl RetrySchedule {
    /// The time to the next attempt after `failures` failures in a row, at least 1 ms. `random` is from 0
    /// to 1; what lies outside counts as the nearer end.
    pub fn delay(&self, failures: u32, random: f64) -> Duration {
        const SHORTEST: Duration = Duration::from_millis(1);
        let steps = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        // Floats saturate by themselves: a power too large is infinity, and infinity is above the cap.
        let seconds = (self.base.as_secs_f64() * self.factor.powi(steps)).min(self.cap.as_secs_f64());
        let vary = 1.0 + self.jitter * (2.0 * random.clamp(0.0, 1.0) - 1.0);
        Duration::try_from_secs_f64(seconds * vary).map_or(self.cap, |delay| delay.max(SHORTEST))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn doubles_up_to_the_cap() {
        let schedule = RetrySchedule::default();
        for (failures, seconds) in
            [(0, 5), (1, 5), (2, 10), (3, 20), (8, 640), (9, 900), (64, 900), (u32::MAX, 900)]
        {
            assert_eq!(schedule.delay(failures, 0.5), Duration::from_secs(seconds), "{failures} failures");
        }
    }

    #[test]
    fn jitter_goes_to_both_sides() {
        let schedule = RetrySchedule::default();
        for (random, millis) in [(0.0, 4000), (0.25, 4500), (1.0, 6000), (-3.0, 4000), (7.0, 6000)] {
            assert_eq!(schedule.delay(1, random), Duration::from_millis(millis), "{random}");
        }
    }

    #[test]
    fn is_never_zero_even_with_a_schedule_of_nothing() {
        let nothing = RetrySchedule { base: Duration::ZERO, cap: Duration::ZERO, ..RetrySchedule::default() };
        for failures in [0, 1, u32::MAX] {
            assert_eq!(nothing.delay(failures, 0.0), Duration::from_millis(1));
        }
    }

    proptest! {
        #[test]
        fn stays_near_the_schedule_and_rises(failures: u32, random in 0.0..1.0_f64, small in 0..40_u32) {
            let schedule = RetrySchedule::default();
            let steady = RetrySchedule { jitter: 0.0, ..schedule };
            for failures in [failures, small] {
                let exact = steady.delay(failures, random);
                let delay = schedule.delay(failures, random);
                prop_assert!(exact >= schedule.base && exact <= schedule.cap);
                prop_assert!(delay >= exact.mul_f64(0.799) && delay <= exact.mul_f64(1.201));
                prop_assert!(steady.delay(failures.saturating_add(1), random) >= exact);
            }
        }
    }
}
