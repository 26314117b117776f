//! When a scheduled job is due.

use std::time::Duration;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds};

/// How often something happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Cadence {
    /// At a steady distance.
    Every(Duration),
    /// By the calendar.
    Cron {
        /// Five fields, or six with the seconds first.
        pattern: Box<Cron>,
        /// Whose calendar.
        time_zone: Tz,
    },
}

/// Why a text is no cadence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CadenceError {
    /// Shorter than a second, or longer than a year.
    #[error("a distance is 1 s to 366 days")]
    Distance,
    /// No cron pattern, or one that never comes.
    #[error("cron pattern '{pattern}': {problem}")]
    Pattern {
        /// As it was given.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No name of the IANA database.
    #[error("there is no time zone '{0}'")]
    TimeZone(String),
}

impl Cadence {
    /// At a steady distance.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn every(distance: Duration) -> Result<Self, CadenceError> {
        let range = Duration::from_secs(1)..=Duration::from_secs(366 * 24 * 3600);
        if range.contains(&distance) { Ok(Self::Every(distance)) } else { Err(CadenceError::Distance) }
    }

    /// By the calendar of a time zone (`Europe/Berlin`).
    ///
    /// # Errors
    /// When the pattern or the time zone cannot be read.
    pub fn cron(pattern: &str, time_zone: &str) -> Result<Self, CadenceError> {
        let problem =
            |problem: String| CadenceError::Pattern { pattern: pattern.chars().take(100).collect(), problem };
        let time_zone =
            time_zone.parse().map_err(|_| CadenceError::TimeZone(time_zone.chars().take(100).collect()))?;
        let parser = CronParser::builder().seconds(Seconds::Optional).build();
        let cron = parser.parse(pattern).map_err(|err| problem(err.to_string()))?;
        let cadence = Self::Cron { pattern: Box::new(cron), time_zone };
        cadence.next_after(0).map(|_| cadence).ok_or_else(|| problem("it never comes".to_owned()))
    }

    /// The next time after `now_ms` (both milliseconds since 1970). A steady distance counts from 1970; `None` when the calendar has no
    /// such day any more.
    pub fn next_after(&self, now_ms: i64) -> Option<i64> {
        match self {
            Self::Every(distance) => {
                let distance = i64::try_from(distance.as_millis()).ok()?;
                Some((now_ms.div_euclid(distance) + 1) * distance)
            }
            Self::Cron { pattern, time_zone } => {
                let now = DateTime::<Utc>::from_timestamp_millis(now_ms)?.with_timezone(time_zone);
                pattern.find_next_occurrence(&now, false).ok().map(|next| next.timestamp_millis())
            }
        }
    }

    /// The shortest distance between two times, of the next thousand after `now_ms`.
    pub fn shortest_gap(&self, now_ms: i64) -> Duration {
        if let Self::Every(distance) = self {
            return *distance;
        }
        let times = std::iter::successors(self.next_after(now_ms), |time| self.next_after(*time)).take(1001);
        let times: Vec<i64> = times.collect();
        let gap = times.windows(2).map(|pair| pair[1].abs_diff(pair[0])).min();
        gap.map_or(Duration::MAX, Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds since 1970.
    fn at(text: &str) -> i64 {
        DateTime::parse_from_rfc3339(text).unwrap().timestamp_millis()
    }

    #[test]
    fn a_steady_distance_counts_from_1970() {
        let cadence = Cadence::every(Duration::from_secs(300)).unwrap();
        assert_eq!(cadence.next_after(at("2026-01-01T00:04:59.999Z")), Some(at("2026-01-01T00:05:00Z")));
        assert_eq!(cadence.next_after(at("2026-01-01T00:05:00Z")), Some(at("2026-01-01T00:10:00Z")));
        assert_eq!(cadence.shortest_gap(0), Duration::from_secs(300));
    }

    #[test]
    fn the_calendar_is_that_of_the_time_zone() {
        let cadence = Cadence::cron("30 2 * * *", "Europe/Berlin").unwrap();
        assert_eq!(cadence.next_after(at("2026-01-10T12:00:00Z")), Some(at("2026-01-11T01:30:00Z")));
        assert_eq!(cadence.next_after(at("2026-07-10T12:00:00Z")), Some(at("2026-07-11T00:30:00Z")));
    }

    #[test]
    fn an_hour_that_is_skipped_or_comes_twice_is_one_time() {
        let cadence = Cadence::cron("30 2 * * *", "Europe/Berlin").unwrap();
        // 2026-03-29: 02:00 becomes 03:00. 2026-10-25: 03:00 becomes 02:00.
        for day in ["2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z"] {
            let first = cadence.next_after(at(day)).unwrap();
            let second = cadence.next_after(first).unwrap();
            let hours = (second - first) / 3_600_000;
            assert!((22..=26).contains(&hours), "{day}: {hours} h");
        }
    }

    #[test]
    fn seconds_come_first_when_they_are_given() {
        let cadence = Cadence::cron("*/5 * * * * *", "UTC").unwrap();
        assert_eq!(cadence.shortest_gap(0), Duration::from_secs(5));
    }

    #[test]
    fn the_shortest_gap_is_found() {
        let cadence = Cadence::cron("0,50 * * * *", "UTC").unwrap();
        assert_eq!(cadence.shortest_gap(0), Duration::from_secs(600));
    }

    #[test]
    fn says_what_is_wrong() {
        assert_eq!(Cadence::every(Duration::from_millis(999)), Err(CadenceError::Distance));
        assert!(matches!(Cadence::cron("not cron", "UTC"), Err(CadenceError::Pattern { .. })));
        assert!(matches!(Cadence::cron("0 0 31 2 *", "UTC"), Err(CadenceError::Pattern { .. })));
        assert_eq!(Cadence::cron("0 0 * * *", "Mars"), Err(CadenceError::TimeZone("Mars".to_owned())));
    }
}
