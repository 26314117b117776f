//! How long a transaction may take: longer for more bytes, and longer after one that was too slow, within bounds.

use std::time::Duration;

/// Every so many bytes have the time of a small transaction.
const STEP_BYTES: usize = 16 * 1024 * 1024;

/// No transaction takes longer: the thread that writes it answers no group meanwhile, and is out of it after five minutes.
const LONGEST: Duration = Duration::from_secs(240);

/// Brokers that are silent for so long within a transaction are away, and it is not too large.
const SILENCE: Duration = Duration::from_secs(5);

/// The time of the transactions of a producer.
pub(super) struct Pace {
    base: Duration,
    longest: Duration,
    /// Doubled by each transaction that was too slow.
    stretch: u32,
}

/// What was seen of a transaction that failed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    /// Records of it.
    pub(super) records: usize,
    /// Those that the brokers took.
    pub(super) taken: usize,
    /// The longest time in which they took none.
    pub(super) silence: Duration,
    /// It failed because its time was over.
    pub(super) late: bool,
}

impl Pace {
    pub(super) fn new(base: Duration) -> Self {
        Self { base, longest: LONGEST.max(base), stretch: 1 }
    }

    /// For a small transaction.
    pub(super) fn base(&self) -> Duration {
        self.base
    }

    /// For so many bytes. Few values, for each is another `transaction.timeout.ms`, and so another beginning of the producer.
    pub(super) fn time_for(&self, bytes: usize) -> Duration {
        let steps = u32::try_from(1 + bytes / STEP_BYTES).unwrap_or(u32::MAX);
        let factor = steps.checked_next_power_of_two().unwrap_or(u32::MAX).saturating_mul(self.stretch);
        self.base.saturating_mul(factor).min(self.longest)
    }

    /// The brokers allow no transaction of this length. `false`: not even a small one.
    pub(super) fn is_refused(&mut self, time: Duration) -> bool {
        self.longest = (time / 2).max(self.base);
        self.longest < time
    }

    /// A transaction was written.
    pub(super) fn worked(&mut self) {
        self.stretch = 1;
    }

    /// A transaction failed that had this time. `true`: it can never be written, for the brokers took of it all along, and the time was the
    /// longest.
    pub(super) fn failed(&mut self, time: Duration, seen: Seen) -> bool {
        let is_slow = seen.late && seen.taken > 0 && seen.silence < SILENCE;
        // A record alone shows nothing until it is written.
        if !(is_slow || seen.late && seen.records == 1) {
            return false;
        }
        if time >= self.longest {
            return is_slow;
        }
        self.stretch = self.stretch.saturating_mul(2);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn secs(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn slow(records: usize) -> Seen {
        Seen { records, taken: records / 2, silence: secs(1), late: true }
    }

    #[test]
    fn more_bytes_have_more_time_within_bounds() {
        let pace = Pace::new(secs(10));
        for (bytes, time) in
            [(0, 10), (16 * MIB - 1, 10), (16 * MIB, 20), (40 * MIB, 40), (200 * MIB, 160), (9_000 * MIB, 240)]
        {
            assert_eq!(pace.time_for(bytes), secs(time), "{bytes}");
        }
        assert_eq!(pace.time_for(usize::MAX), secs(240));
        assert_eq!(Pace::new(secs(900)).time_for(0), secs(900), "as somebody has set it");
    }

    #[test]
    fn one_that_was_too_slow_has_longer_and_cannot_be_written_in_the_end() {
        let mut pace = Pace::new(secs(10));
        for time in [10, 20, 40, 80, 160] {
            assert_eq!(pace.time_for(1), secs(time));
            assert!(!pace.failed(secs(time), slow(4)));
        }
        assert!(!pace.failed(secs(240), Seen { silence: SILENCE, ..slow(4) }), "the brokers were away");
        assert!(!pace.failed(secs(240), Seen { late: false, ..slow(4) }), "it was another reason");
        assert!(pace.failed(secs(240), slow(4)));
        pace.worked();
        assert_eq!(pace.time_for(1), secs(10));
    }

    #[test]
    fn brokers_that_are_away_make_nothing_longer() {
        let mut pace = Pace::new(secs(10));
        let away = Seen { records: 4, taken: 0, silence: secs(10), late: true };
        assert!(!pace.failed(secs(10), away));
        assert_eq!(pace.time_for(1), secs(10));
        assert!(!pace.failed(secs(10), Seen { records: 1, ..away }));
        assert_eq!(pace.time_for(1), secs(20), "of a record alone nobody can tell");
    }

    #[test]
    fn what_the_brokers_do_not_allow_is_not_asked_again() {
        let mut pace = Pace::new(secs(10));
        assert!(pace.is_refused(secs(160)));
        assert_eq!(pace.time_for(usize::MAX), secs(80));
        assert!(pace.is_refused(secs(80)) && pace.is_refused(secs(40)) && pace.is_refused(secs(20)));
        assert!(!pace.is_refused(secs(10)), "not even a small one");
    }
}
