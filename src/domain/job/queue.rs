//! What a queue is. All of it is fixed when the program is compiled; leaving a part out does not compile.

use std::time::Duration;

use crate::domain::retry::RetrySchedule;

/// A queue. Has no default on purpose: whoever adds one decides each of these.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueSpec {
    /// Its name in Redis and on the boards: a-z, 0-9 and `-`.
    pub name: &'static str,
    /// What becomes of a job that ended.
    pub retention: Retention,
    /// How often a job is tried before it is given up.
    pub attempts: u32,
    /// How long it waits between two attempts. The cap bounds what a handler may ask for, too.
    pub backoff: RetrySchedule,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// The setting for how many jobs of it run at once in a process: `<X>_WORKER_CONCURRENCY`.
    pub concurrency_setting: &'static str,
    /// How many that are when nothing is set.
    pub concurrency: u32,
    /// Which role runs it.
    pub workload: Workload,
}

/// What becomes of a job that ended. A queue has one of them: ids that are kept in one place and freed in another have
/// lost jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// Its id is kept, so that the same work is not done again: for `age`, and of the last `count` jobs.
    Dedup {
        /// At least a minute.
        age: Duration,
        /// At least 1.
        count: u32,
    },
    /// Its id is free at once, so that somebody (who holds the truth elsewhere) can add it again.
    Redrivable,
}

/// Which role of the service runs a queue's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Short jobs, many at once: role `retry`.
    Light,
    /// Started by the clock: role `schedule`.
    Scheduled,
    /// Minutes to hours: role `heavy`.
    Heavy,
}

/// Checks the queues of a set while the program is compiled.
///
/// # Panics
/// That is: does not compile, when a name or setting is malformed or given twice, or a number is out of range.
pub const fn check_queues(specs: &[QueueSpec]) {
    assert!(!specs.is_empty(), "a set of queues has one at least");
    let mut at = 0;
    while at < specs.len() {
        let spec = &specs[at];
        assert!(is_queue_name(spec.name), "a queue's name is 1 to 64 of a-z, 0-9 and '-'");
        assert!(is_concurrency_setting(spec.concurrency_setting), "the setting is <X>_WORKER_CONCURRENCY");
        assert!(spec.attempts > 0, "a job is tried once at least");
        assert!(spec.concurrency > 0, "one job runs at least");
        assert!(!spec.timeout.is_zero(), "an attempt takes time");
        assert!(
            spec.backoff.factor >= 1.0 && spec.backoff.jitter >= 0.0 && spec.backoff.jitter <= 1.0,
            "a back-off grows, and varies by a share of it"
        );
        if let Retention::Dedup { age, count } = spec.retention {
            assert!(age.as_secs() >= 60 && count > 0, "a dedup queue keeps its ids");
        }
        let mut other = 0;
        while other < at {
            assert!(!is_same(spec.name, specs[other].name), "two queues have one name");
            let setting = specs[other].concurrency_setting;
            assert!(!is_same(spec.concurrency_setting, setting), "two queues have one setting");
            other += 1;
        }
        at += 1;
    }
}

/// Checks the names of a queue's jobs while the program is compiled.
///
/// # Panics
/// That is: does not compile, when a name is empty or given twice.
pub const fn check_job_names(names: &[&str]) {
    let mut at = 0;
    while at < names.len() {
        assert!(!names[at].is_empty(), "a job has a name");
        let mut other = 0;
        while other < at {
            assert!(!is_same(names[at], names[other]), "two jobs have one name");
            other += 1;
        }
        at += 1;
    }
}

const fn is_queue_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !(bytes[at].is_ascii_lowercase() || bytes[at].is_ascii_digit() || bytes[at] == b'-') {
            return false;
        }
        at += 1;
    }
    !bytes.is_empty() && bytes.len() <= 64
}

const fn is_concurrency_setting(setting: &str) -> bool {
    const END: &[u8] = b"_WORKER_CONCURRENCY";
    let bytes = setting.as_bytes();
    if bytes.len() <= END.len() {
        return false;
    }
    let front = bytes.len() - END.len();
    let mut at = 0;
    while at < bytes.len() {
        let is_front = at < front && (bytes[at].is_ascii_uppercase() || bytes[at] == b'_');
        let is_end = at >= front && bytes[at] == END[at - front];
        if !is_front && !is_end {
            return false;
        }
        at += 1;
    }
    true
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: QueueSpec = QueueSpec {
        name: "mail",
        retention: Retention::Redrivable,
        attempts: 1,
        backoff: RetrySchedule {
            base: Duration::from_secs(1),
            factor: 2.0,
            cap: Duration::from_secs(60),
            jitter: 0.2,
        },
        timeout: Duration::from_secs(1),
        concurrency_setting: "MAIL_WORKER_CONCURRENCY",
        concurrency: 1,
        workload: Workload::Light,
    };

    #[test]
    fn takes_a_good_set() {
        let other =
            QueueSpec { name: "mail-2", concurrency_setting: "OTHER_MAIL_WORKER_CONCURRENCY", ..GOOD };
        check_queues(&[GOOD, other]);
        check_job_names(&["A", "B"]);
    }

    /// What does not compile in a constant panics here.
    fn is_refused(specs: &[QueueSpec]) -> bool {
        std::panic::catch_unwind(|| check_queues(specs)).is_err()
    }

    #[test]
    fn refuses_each_mistake() {
        let kept = |age, count| Retention::Dedup { age: Duration::from_secs(age), count };
        for wrong in [
            QueueSpec { name: "", ..GOOD },
            QueueSpec { name: "a:b", ..GOOD },
            QueueSpec { name: "Mail", ..GOOD },
            QueueSpec { concurrency_setting: "MAIL_CONCURRENCY", ..GOOD },
            QueueSpec { concurrency_setting: "_WORKER_CONCURRENCY", ..GOOD },
            QueueSpec { concurrency_setting: "mail_WORKER_CONCURRENCY", ..GOOD },
            QueueSpec { attempts: 0, ..GOOD },
            QueueSpec { concurrency: 0, ..GOOD },
            QueueSpec { timeout: Duration::ZERO, ..GOOD },
            QueueSpec { backoff: RetrySchedule { factor: 0.5, ..GOOD.backoff }, ..GOOD },
            QueueSpec { retention: kept(1, 10), ..GOOD },
            QueueSpec { retention: kept(3600, 0), ..GOOD },
        ] {
            assert!(is_refused(&[wrong]), "{wrong:?}");
        }
        assert!(is_refused(&[]));
        assert!(is_refused(&[GOOD, QueueSpec { name: "mail-2", ..GOOD }]));
        assert!(is_refused(&[GOOD, QueueSpec { concurrency_setting: "X_WORKER_CONCURRENCY", ..GOOD }]));
        assert!(std::panic::catch_unwind(|| check_job_names(&["A", "A"])).is_err());
        assert!(std::panic::catch_unwind(|| check_job_names(&[""])).is_err());
    }
}
