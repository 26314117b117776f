//! What happened lately, from counts that only rise.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::actors::meters::{Counts, RANGES, begin_of};

/// How long a mark stands before it is the older one, in ticks: a window spans one to two of these.
const MARK_TICKS: u64 = 60;

/// The counts of the last one to two minutes.
#[derive(Default)]
pub(super) struct Window {
    /// The counts at two moments, the older first; none before anything was counted.
    marks: Option<Box<[Counts; 2]>>,
    marked_at: u64,
    last: u64,
    latency: Option<Latency>,
}

/// Percentiles in milliseconds, each right to a quarter of its value; 262,144 stands for that and more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Latency {
    /// Half of the values are below.
    pub p50: f64,
    /// 95 of 100 are below.
    pub p95: f64,
    /// 99 of 100 are below.
    pub p99: f64,
}

impl Window {
    /// Looks at the counts, at this tick. `total` says cheaply whether there is anything new.
    pub(super) fn look(&mut self, tick: u64, total: u64, counts: impl FnOnce() -> Counts) -> Option<Latency> {
        let is_marked = self.marks.is_some() && tick < self.marked_at + MARK_TICKS;
        if total == 0 || (is_marked && total == self.last) {
            return self.latency;
        }
        self.last = total;
        let now = counts();
        let marks = self.marks.get_or_insert_with(|| {
            // What was counted before the first look happened just now.
            self.marked_at = tick;
            Box::new([[0; RANGES]; 2])
        });
        if tick >= self.marked_at + MARK_TICKS {
            **marks = if tick >= self.marked_at + 2 * MARK_TICKS { [now; 2] } else { [marks[1], now] };
            self.marked_at = tick;
        }
        let lately: Counts = std::array::from_fn(|range| now[range].wrapping_sub(marks[0][range]));
        self.latency = percentiles(&lately);
        self.latency
    }
}

fn percentiles(counts: &Counts) -> Option<Latency> {
    let total: u64 = counts.iter().copied().map(u64::from).sum();
    if total == 0 {
        return None;
    }
    let at = |share: f64| {
        let wanted = (total as f64 * share).ceil().max(1.0);
        let mut below = 0.0;
        for (range, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = f64::from(*count);
            if below + count >= wanted {
                let (begin, end) = (begin_of(range), begin_of(range + 1));
                let ms =
                    if range == RANGES - 1 { end } else { begin + (end - begin) * (wanted - below) / count };
                return (ms * 100.0).round() / 100.0;
            }
            below += count;
        }
        begin_of(RANGES)
    };
    Some(Latency { p50: at(0.50), p95: at(0.95), p99: at(0.99) })
}

/// Things a second: follows what was counted within about five seconds, so that it can be read while it moves.
#[derive(Default)]
pub(super) struct Rate {
    last: u64,
    rate: f64,
}

impl Rate {
    /// How many were added since the last look.
    pub(super) fn look(&mut self, total: u64, seconds: f64) -> u64 {
        let added = total.saturating_sub(self.last);
        self.last = total;
        if added > 0 || self.rate > 0.0 {
            let share = 1.0 - (-seconds / 5.0).exp();
            self.rate += (added as f64 / seconds.max(0.001) - self.rate) * share;
            if self.rate < 0.005 {
                self.rate = 0.0;
            }
        }
        added
    }

    /// As it is shown: more digits would only flicker.
    pub(super) fn shown(&self) -> f64 {
        let scale = if self.rate < 10.0 {
            100.0
        } else if self.rate < 100.0 {
            10.0
        } else {
            1.0
        };
        (self.rate * scale).round() / scale
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::actors::meters::Meters;
    use crate::domain::config::ClientId;

    #[test]
    fn percentiles_are_right_to_a_quarter() {
        let meters = Meters::default();
        let meter = meters.of(&ClientId::new("a"));
        for ms in 1..=1000 {
            meters.delivered(&meter, Duration::from_millis(ms), Duration::ZERO, 0);
        }
        let Latency { p50, p95, p99 } = percentiles(&meter.answers()).unwrap();
        for (is, should) in [(p50, 500.0), (p95, 950.0), (p99, 990.0)] {
            assert!((is / should - 1.0_f64).abs() < 0.25, "{is} for {should}");
        }
        assert_eq!(percentiles(&[0; RANGES]), None);
    }

    #[test]
    fn a_window_forgets_what_is_older_than_two_minutes() {
        let (mut window, mut counts) = (Window::default(), [0; RANGES]);
        counts[40] = 10;
        let slow = window.look(1, 10, || counts).unwrap().p50;
        counts[8] = 30;
        let mixed = window.look(30, 40, || counts).unwrap();
        assert!(mixed.p50 < slow && mixed.p99 > slow / 2.0, "{mixed:?}");
        // A minute and then two later only the fast ones are new, and then nothing is.
        counts[8] = 60;
        window.look(61, 70, || counts);
        counts[8] = 90;
        let fast = window.look(122, 100, || counts).unwrap();
        assert!(fast.p99 < slow / 2.0, "{fast:?}");
        assert_eq!(window.look(300, 100, || counts), None);
    }

    #[test]
    fn a_rate_rises_and_ends_at_nothing() {
        let mut rate = Rate::default();
        for second in 1..=60 {
            rate.look(second * 20, 1.0);
        }
        assert!((rate.shown() - 20.0).abs() < 0.2, "{}", rate.shown());
        for _ in 0..60 {
            rate.look(1200, 1.0);
        }
        assert!(rate.shown() == 0.0, "{}", rate.shown());
    }
}
