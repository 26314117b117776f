//! When an actor that broke starts again, and when it does not any more.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// How long to wait before a restart, and how many restarts are too many.
///
/// The wait doubles with each failure inside the window, so an actor that ran well for a whole window starts
/// from `base` again. `limit` must be reachable: the first `limit` waits together must be shorter than
/// `window`, or an actor that never gets up restarts forever.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RestartPolicy {
    /// First wait. 100 ms: a single panic is hardly seen by a client, and yet a broken actor cannot spin.
    pub base: Duration,
    /// Longest wait. 30 s: an actor whose trouble is over is back within half a minute.
    pub cap: Duration,
    /// Failures inside the window after which one more ends the actor. 10: with the waits above an actor
    /// that never gets up tries for 81 s (97 s with jitter) before it is given up, long enough for a
    /// store to come back.
    pub limit: usize,
    /// 300 s: three times the time that it takes to reach the limit.
    pub window: Duration,
    /// Part of the wait that is random, either way. 0.2: actors that broke together, on a cause that they
    /// share, do not come back in the same instant.
    pub jitter: f64,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(100),
            cap: Duration::from_secs(30),
            limit: 10,
            window: Duration::from_secs(300),
            jitter: 0.2,
        }
    }
}

/// The failures of one actor inside the window.
#[derive(Debug, Clone, Default)]
pub(super) struct Failures(VecDeque<Instant>);

impl Failures {
    /// Counts one more; how long to wait before the restart, or `None` when it was one too many.
    pub(super) fn add(&mut self, policy: &RestartPolicy, now: Instant) -> Option<Duration> {
        while self.0.front().is_some_and(|at| now.duration_since(*at) > policy.window) {
            self.0.pop_front();
        }
        if self.0.len() >= policy.limit {
            return None;
        }
        let doubled = 1_u32.checked_shl(self.0.len() as u32).unwrap_or(u32::MAX);
        self.0.push_back(now);
        let wait = policy.base.saturating_mul(doubled).min(policy.cap);
        Some(wait.mul_f64((1.0 + policy.jitter * (2.0 * fastrand::f64() - 1.0)).max(0.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEADY: RestartPolicy = RestartPolicy {
        base: Duration::from_millis(100),
        cap: Duration::from_secs(30),
        limit: 10,
        window: Duration::from_secs(300),
        jitter: 0.0,
    };

    #[test]
    fn waits_double_up_to_the_cap_and_end_at_the_limit() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        let waits: Vec<_> =
            std::iter::from_fn(|| failures.add(&STEADY, now)).map(|wait| wait.as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000]);
    }

    #[test]
    fn the_default_limit_is_reached_by_an_actor_that_never_gets_up() {
        let policy = RestartPolicy::default();
        let (mut failures, start) = (Failures::default(), Instant::now());
        let mut now = start;
        while let Some(wait) = failures.add(&policy, now) {
            now += wait;
            assert!(now - start < policy.window, "restarts forever");
        }
        assert!(now - start > Duration::from_secs(60), "gives up too early: {:?}", now - start);
    }

    #[test]
    fn a_window_without_failure_forgets() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        for _ in 0..5 {
            failures.add(&STEADY, now);
        }
        let later = now + STEADY.window + Duration::from_millis(1);
        assert_eq!(failures.add(&STEADY, later), Some(STEADY.base));
    }

    #[test]
    fn jitter_spreads_within_its_bounds() {
        let policy = RestartPolicy { jitter: 0.2, ..STEADY };
        let waits: Vec<_> =
            (0..200).filter_map(|_| Failures::default().add(&policy, Instant::now())).collect();
        let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
        assert!(*least >= Duration::from_millis(80) && *most <= Duration::from_millis(120));
        assert!(*most - *least > Duration::from_millis(10), "{least:?} to {most:?} is no spread");
    }

    #[test]
    fn many_failures_do_not_overflow() {
        let policy = RestartPolicy { limit: 1_000, ..STEADY };
        let (mut failures, now) = (Failures::default(), Instant::now());
        let last = std::iter::from_fn(|| failures.add(&policy, now)).last();
        assert_eq!(last, Some(policy.cap));
    }
}
