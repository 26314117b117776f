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

/// When a webhook that fails gets its next canary: one real payload, for nobody agreed to other probes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CanarySchedule {
    /// After the failure that closed the gate. It doubles up to `every`.
    pub first: Duration,
    /// The distance while the outage is young.
    pub every: Duration,
    /// The longest distance: an old outage is looked at less often.
    pub cap: Duration,
    /// The share by which a wait is shortened at most, 0 to 1, so that not everybody comes at once. Never lengthened: `every` is what a
    /// receiver that lives again waits at most.
    pub jitter: f64,
}

impl CanarySchedule {
    /// So many canaries keep the distance `every`, then it doubles: with the defaults after about two minutes.
    const YOUNG: u32 = 10;

    /// The time to the next canary after `rounds` failed ones in a row, at least 1 ms. `random` is from 0 to 1; what lies outside counts
    /// as the nearer end.
    pub fn delay(&self, rounds: u32, random: f64) -> Duration {
        const SHORTEST: Duration = Duration::from_millis(1);
        let doubled = |times: u32| 2f64.powi(i32::try_from(times).unwrap_or(i32::MAX));
        let young = self.first.as_secs_f64() * doubled(rounds.saturating_sub(1));
        let old = self.every.as_secs_f64() * doubled(rounds.saturating_sub(Self::YOUNG));
        let seconds =
            young.min(old).min(self.cap.as_secs_f64()) * (1.0 - self.jitter * random.clamp(0.0, 1.0));
        Duration::try_from_secs_f64(seconds).map_or(self.cap, |delay| delay.max(SHORTEST))
    }
}

impl Default for CanarySchedule {
    /// 5 s, 10 s, then every 15 s, after ten failures doubling up to 2 min; each up to 20 % sooner.
    fn default() -> Self {
        Self {
            first: Duration::from_secs(5),
            every: Duration::from_secs(15),
            cap: Duration::from_secs(120),
            jitter: 0.2,
        }
    }
}

/// How a webhook that fails is treated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pacing {
    /// When it is tried again.
    pub canary: CanarySchedule,
    /// After how long without a success it is switched off.
    pub give_up: Duration,
}

impl Pacing {
    /// Failed attempts that it takes at least to switch a webhook off. They count only when they lie a tenth of `give_up` apart: a process
    /// that was away, or a clock that jumped, switches nobody off.
    pub const ATTEMPTS: u32 = 5;

    /// How far apart failed attempts lie that count, milliseconds; 1 at least.
    pub fn spread_ms(&self) -> i64 {
        i64::try_from(self.give_up.as_millis() / 10).unwrap_or(i64::MAX).max(1)
    }
}

impl Default for Pacing {
    /// Switched off after 3 days.
    fn default() -> Self {
        Self { canary: CanarySchedule::default(), give_up: Duration::from_secs(3 * 24 * 3600) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn canaries_come_every_15_s_and_of_an_old_outage_less_often() {
        let schedule = CanarySchedule::default();
        for (rounds, seconds) in [
            (0, 5),
            (1, 5),
            (2, 10),
            (3, 15),
            (10, 15),
            (11, 30),
            (12, 60),
            (13, 120),
            (14, 120),
            (u32::MAX, 120),
        ] {
            assert_eq!(schedule.delay(rounds, 0.0), Duration::from_secs(seconds), "{rounds} rounds");
        }
        assert_eq!(schedule.delay(3, 1.0), Duration::from_secs(12));
        let nothing = CanarySchedule { first: Duration::ZERO, ..schedule };
        assert_eq!(nothing.delay(1, 0.0), Duration::from_millis(1));
    }

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
