//! Which status the next webhook is answered with.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::str::FromStr;

/// So many answers of one status: `500:3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failures {
    status: u16,
    count: u64,
}

impl FromStr for Failures {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (status, count) = text.split_once(':').ok_or("expected STATUS:COUNT, as in 500:3")?;
        let count = count.parse().map_err(|_| format!("{count:?} is no count"))?;
        Ok(Self { status: parse_status(status)?, count })
    }
}

/// A final HTTP status.
pub(super) fn parse_status(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(status @ 200..=599) => Ok(status),
        _ => Err(format!("{text:?} is no status from 200 to 599")),
    }
}

/// The failures first, in order; then every nth fails; the rest is answered as usual.
pub(super) struct AnswerPlan {
    usual: u16,
    failures: VecDeque<Failures>,
    every: Option<NonZeroU64>,
    answered: u64,
}

impl AnswerPlan {
    pub(super) fn new(usual: u16, failures: Vec<Failures>, every: Option<NonZeroU64>) -> Self {
        Self { usual, failures: failures.into(), every, answered: 0 }
    }

    pub(super) fn next_status(&mut self) -> u16 {
        self.answered += 1;
        while let Some(failures) = self.failures.front_mut() {
            if failures.count > 0 {
                failures.count -= 1;
                return failures.status;
            }
            self.failures.pop_front();
        }
        match self.every {
            Some(every) if self.answered.is_multiple_of(every.get()) => 500,
            _ => self.usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statuses(usual: u16, failures: &[&str], every: Option<u64>, count: usize) -> Vec<u16> {
        let failures = failures.iter().map(|text| text.parse().unwrap()).collect();
        let mut plan = AnswerPlan::new(usual, failures, every.and_then(NonZeroU64::new));
        (0..count).map(|_| plan.next_status()).collect()
    }

    #[test]
    fn failures_are_used_up_in_order() {
        assert_eq!(statuses(200, &[], None, 2), [200, 200]);
        assert_eq!(statuses(204, &["500:2", "404:0", "410:1"], None, 5), [500, 500, 410, 204, 204]);
    }

    #[test]
    fn every_nth_fails_counted_from_the_first() {
        assert_eq!(statuses(200, &[], Some(3), 6), [200, 200, 500, 200, 200, 500]);
        assert_eq!(statuses(200, &["503:1"], Some(2), 4), [503, 500, 200, 500]);
        assert_eq!(statuses(200, &[], Some(1), 2), [500, 500]);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "500", "500:", ":3", "500:-1", "99:1", "199:1", "600:1", "x:1", "500:1:1"] {
            assert!(text.parse::<Failures>().is_err(), "{text:?}");
        }
    }
}
