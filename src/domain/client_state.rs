//! The state of a client's delivery, and what changes it.
//!
//! ```text
//!            failure                    gate opens, one request succeeds
//! Healthy ───────────> Degraded ──────────────────────────────────────────> Draining ───> Healthy
//!    ^  rows wait: Draining                                           no rows: Healthy  rows gone
//!    └── from any of them: Paused (operator), Disabled (config); back to Draining or Healthy
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::delivery::FailureClass;
use super::retry::Pacing;

/// What a client's delivery is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Changes go out as they come.
    Healthy,
    /// The webhook fails: changes wait, the next try is known.
    Degraded,
    /// It lives again, and what waits goes out.
    Draining,
    /// An operator's decision: changes wait.
    Paused,
    /// The config is INACTIVE, deleted or unusable, or its owner is blocked: changes wait.
    Disabled,
}

impl Phase {
    /// The word that everybody reads.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Draining => "draining",
            Self::Paused => "paused",
            Self::Disabled => "disabled",
        }
    }
}

/// What became of a try that somebody asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tried {
    /// It was taken.
    Delivered,
    /// It failed by the webhook's fault, or its config's.
    Failed,
    /// This payload was refused.
    Refused,
}

/// The state of a client's delivery. `phase`, `since_ms` and `reason` follow from the other fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientState {
    /// What it is doing.
    pub phase: Phase,
    /// Since when, milliseconds since 1970.
    pub since_ms: i64,
    /// Why.
    pub reason: String,
    /// When the next attempt is made, milliseconds since 1970: while it is degraded, and only then. Before
    /// it the gate is closed.
    pub next_attempt_at_ms: Option<i64>,
    /// The first failure since the last success that was not a payload's own, milliseconds since 1970.
    pub failing_since_ms: Option<i64>,
    /// The last success, milliseconds since 1970.
    pub last_success_ms: Option<i64>,
    /// Failed rounds in a row: the step of the retry schedule.
    pub failed_rounds: u32,
    /// Failed attempts since `failing_since_ms` that lie far enough apart to count ([`Pacing::spread_ms`]).
    #[serde(default)]
    pub counted_failures: u32,
    /// When the last of them was, milliseconds since 1970.
    #[serde(default)]
    pub counted_at_ms: Option<i64>,
    /// The last failure, milliseconds since 1970.
    #[serde(default)]
    pub last_failure_ms: Option<i64>,
    /// Its reason label; forgotten when no rows wait any more.
    #[serde(default)]
    pub last_failure: Option<String>,
    /// Until when the webhook asked to be left alone (`Retry-After`), milliseconds since 1970. A success of
    /// a request that was on its way does not end it.
    #[serde(default)]
    pub hold_until_ms: Option<i64>,
    /// Whether rows wait in the stash.
    #[serde(default)]
    pub rows_waiting: bool,
    /// Whether so much waits that changes are dropped.
    #[serde(default)]
    pub overflows: bool,
    /// How many changes were dropped so far.
    #[serde(default)]
    pub dropped: u64,
    /// How many of them a resync has made good. The store says so, whatever is put.
    #[serde(default)]
    pub resynced: u64,
    /// How many of the tries that somebody asked for were made: who asks sees by it that there was an answer.
    #[serde(default)]
    pub tries: u64,
    /// What became of the last of them.
    #[serde(default)]
    pub last_try: Option<Tried>,
    /// Who paused it.
    #[serde(default)]
    pub paused_by: Option<String>,
    /// Why its config, or its owner, does not let it deliver.
    #[serde(default)]
    pub disabled_by: Option<String>,
}

/// What changes the state of a client's delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEvent {
    /// A request was answered with 2xx.
    Delivered,
    /// A request failed, and the gate stays as it is: one failure of many, or not the webhook's fault.
    RequestFailed {
        /// Whose fault it was.
        class: FailureClass,
        /// The reason label.
        reason: String,
    },
    /// Requests failed so that the webhook is to be left alone.
    EndpointFailed {
        /// The reason label.
        reason: String,
        /// How long the webhook asked to be left alone.
        retry_after: Option<Duration>,
    },
    /// So much waits in the stash that nothing more may: changes are dropped.
    Overflow,
    /// More may wait again.
    RoomAgain,
    /// So many changes were dropped.
    Dropped {
        /// How many.
        count: u64,
    },
    /// A resync has made good so many of the changes that were dropped.
    Resynced {
        /// How many, from the first on.
        dropped: u64,
    },
    /// Rows wait in the stash.
    RowsWaiting,
    /// No rows wait any more.
    RowsGone,
    /// The config is active and has no fault, and nobody blocks its owner. Changes nothing while it was so before; otherwise the webhook has
    /// all its time again.
    ConfigUsable,
    /// The config is another one, and as usable as before: it is tried now, and has all the time again that a webhook may fail.
    ConfigChanged,
    /// The config is active, and its value has a fault.
    ConfigUnusable {
        /// Which.
        reason: String,
    },
    /// The config is INACTIVE, deleted or gone.
    ConfigInactive,
    /// The config is active, and its owner is blocked.
    OwnerBlocked {
        /// By whom, and why.
        reason: String,
    },
    /// Somebody wants to see it tried, whatever the schedule says.
    TryNow,
    /// The first answer after that, whatever request it is of.
    Tried(Tried),
    /// An operator stops it.
    Pause {
        /// Who.
        by: String,
    },
    /// An operator lets it go on.
    Resume,
}

impl ClientState {
    /// The state of a client of which nothing is known.
    pub fn new(now_ms: i64) -> Self {
        Self {
            phase: Phase::Healthy,
            since_ms: now_ms,
            reason: String::new(),
            next_attempt_at_ms: None,
            failing_since_ms: None,
            last_success_ms: None,
            failed_rounds: 0,
            counted_failures: 0,
            counted_at_ms: None,
            last_failure_ms: None,
            last_failure: None,
            hold_until_ms: None,
            rows_waiting: false,
            overflows: false,
            dropped: 0,
            resynced: 0,
            tries: 0,
            last_try: None,
            paused_by: None,
            disabled_by: None,
        }
    }

    /// The state after an event. `random`, from 0 to 1, is for the jitter of canaries.
    #[must_use]
    pub fn apply(&self, event: &ClientEvent, now_ms: i64, pacing: &Pacing, random: f64) -> Self {
        let mut next = self.clone();
        match event {
            ClientEvent::Delivered => next.delivered(now_ms),
            ClientEvent::RequestFailed { class, reason } => {
                // The time of the failure that closed a gate stays: it tells whether the clock was set back behind it.
                let closed_at = next.last_failure_ms.filter(|_| next.next_attempt_at_ms.is_some());
                next.failed(reason, now_ms);
                next.last_failure_ms = closed_at.or(next.last_failure_ms);
                // One bad document for three days is no dead webhook.
                if *class != FailureClass::Payload {
                    next.count_failure(now_ms, pacing);
                }
            }
            ClientEvent::EndpointFailed { reason, retry_after } => {
                let hold = retry_after.map(|wait| later(now_ms, wait));
                let retry_at = |rounds| later(now_ms, pacing.canary.delay(rounds, random));
                next.endpoint_failed(hold, now_ms, retry_at);
                next.failed(reason, now_ms);
                next.count_failure(now_ms, pacing);
                next.reason.clone_from(reason);
            }
            ClientEvent::Overflow => next.overflows = true,
            ClientEvent::RoomAgain => next.overflows = false,
            ClientEvent::Dropped { count } => next.dropped = next.dropped.saturating_add(*count),
            ClientEvent::Resynced { dropped } => next.resynced = next.resynced.max(*dropped),
            ClientEvent::RowsWaiting => next.rows_waiting = true,
            ClientEvent::RowsGone => {
                next.rows_waiting = false;
                next.overflows = false;
                next.last_failure = None;
            }
            ClientEvent::ConfigUsable => {
                if next.disabled_by.take().is_some() {
                    next.forget_failures();
                }
            }
            ClientEvent::ConfigChanged => {
                next.forget_failures();
                next.try_now(now_ms);
            }
            ClientEvent::ConfigUnusable { reason } | ClientEvent::OwnerBlocked { reason } => {
                next.disabled_by = Some(reason.clone())
            }
            ClientEvent::ConfigInactive => next.disabled_by = Some("config is not active".to_owned()),
            ClientEvent::TryNow => next.try_now(now_ms),
            ClientEvent::Tried(tried) => {
                next.tries = next.tries.saturating_add(1);
                next.last_try = Some(*tried);
            }
            ClientEvent::Pause { by } => next.paused_by = Some(by.clone()),
            ClientEvent::Resume => next.paused_by = None,
        }
        next.settle(self.phase, now_ms);
        next
    }

    /// How many changes were dropped that no resync has made good: more than none, and the client needs one.
    pub fn missing(&self) -> u64 {
        self.dropped.saturating_sub(self.resynced)
    }

    /// Whether a request may start now.
    pub fn may_send(&self, now_ms: i64) -> bool {
        self.wait(now_ms) == Some(Duration::ZERO)
    }

    /// The time until a request may start. `None`: time alone does not help, it is paused or disabled.
    pub fn wait(&self, now_ms: i64) -> Option<Duration> {
        match self.phase {
            Phase::Healthy | Phase::Draining => Some(Duration::ZERO),
            Phase::Paused | Phase::Disabled => None,
            Phase::Degraded if self.gate_is_open(now_ms) => Some(Duration::ZERO),
            Phase::Degraded => {
                let millis = self.next_attempt_at_ms.unwrap_or(now_ms).saturating_sub(now_ms);
                Some(Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
            }
        }
    }

    /// Whether only one request at a time may be on its way: it finds out whether the webhook lives again.
    pub fn is_probing(&self) -> bool {
        self.phase == Phase::Degraded
    }

    /// Whether the webhook has had its chances: it failed for `failing_for`, by the clock of the store, and often enough at different
    /// times. One last try decides.
    pub fn is_given_up(&self, failing_for: Duration, pacing: &Pacing) -> bool {
        self.failing_since_ms.is_some()
            && failing_for >= pacing.give_up
            && self.counted_failures >= Pacing::ATTEMPTS
            && !matches!(self.phase, Phase::Paused | Phase::Disabled)
    }

    /// Whether the webhook took something lately: within the last tenth of the time to giving up that is over, or since. That it did is
    /// stored once in each of them.
    pub fn lives(&self, now_ms: i64, pacing: &Pacing) -> bool {
        let lately_ms = pacing.spread_ms().saturating_mul(2);
        self.last_success_ms.is_some_and(|at| now_ms.saturating_sub(at) < lately_ms)
    }

    /// Whether it was tried for so long, and failed: the last failure that counts was so much later than the first.
    pub fn has_failed_for(&self, time: Duration) -> bool {
        let (Some(since_ms), Some(last_ms)) = (self.failing_since_ms, self.last_failure_ms) else {
            return false;
        };
        u64::try_from(last_ms.saturating_sub(since_ms)).is_ok_and(|ms| u128::from(ms) >= time.as_millis())
    }

    fn delivered(&mut self, now_ms: i64) {
        self.last_success_ms = Some(now_ms);
        self.forget_failures();
        self.hold_until_ms =
            self.hold_until_ms.filter(|until| now_ms < *until && !self.clock_went_back(now_ms));
        self.next_attempt_at_ms = self.hold_until_ms;
    }

    /// The failure clock stands at nought.
    fn forget_failures(&mut self) {
        self.failing_since_ms = None;
        self.counted_failures = 0;
        self.counted_at_ms = None;
        self.failed_rounds = 0;
    }

    fn try_now(&mut self, now_ms: i64) {
        self.hold_until_ms = None;
        self.next_attempt_at_ms = self.next_attempt_at_ms.map(|at| at.min(now_ms));
    }

    /// A failure while the gate is open is a round of its own. One behind the closed gate was on its way
    /// when the round failed: it can only make the wait longer, by what the webhook asks for.
    fn endpoint_failed(&mut self, hold_ms: Option<i64>, now_ms: i64, retry_at: impl Fn(u32) -> i64) {
        let opens_at_ms = if self.gate_is_open(now_ms) {
            self.failed_rounds = self.failed_rounds.saturating_add(1);
            self.hold_until_ms = hold_ms;
            Some(retry_at(self.failed_rounds))
        } else {
            self.hold_until_ms = self.hold_until_ms.max(hold_ms);
            self.next_attempt_at_ms
        };
        self.next_attempt_at_ms = opens_at_ms.max(self.hold_until_ms);
    }

    /// The failure clock: it runs from the first failure on, and each tenth of the time to giving up one failure counts.
    fn count_failure(&mut self, now_ms: i64, pacing: &Pacing) {
        self.failing_since_ms.get_or_insert(now_ms);
        // A clock that was set back must not stop the counting.
        let apart = |counted: i64| now_ms.saturating_sub(counted).saturating_abs() >= pacing.spread_ms();
        if self.counted_at_ms.is_none_or(apart) {
            self.counted_failures = self.counted_failures.saturating_add(1);
            self.counted_at_ms = Some(now_ms);
        }
    }

    fn failed(&mut self, reason: &str, now_ms: i64) {
        self.last_failure_ms = Some(now_ms);
        self.last_failure = Some(reason.to_owned());
    }

    fn gate_is_open(&self, now_ms: i64) -> bool {
        self.next_attempt_at_ms.is_none_or(|at| at <= now_ms) || self.clock_went_back(now_ms)
    }

    /// The clock was set back behind the failure that closed the gate: the gate's time means nothing now, and
    /// may lie days ahead. A step of less than a minute only makes the wait so much longer.
    fn clock_went_back(&self, now_ms: i64) -> bool {
        const STEP_MS: i64 = 60_000;
        self.last_failure_ms.is_some_and(|failed| now_ms < failed.saturating_sub(STEP_MS))
    }

    /// Makes phase, since and reason what the other fields say.
    fn settle(&mut self, before: Phase, now_ms: i64) {
        if self.paused_by.is_some() || self.disabled_by.is_some() {
            // Nothing is tried, so there is no next attempt; and who lets it go on wants to see it try.
            self.failed_rounds = 0;
            self.next_attempt_at_ms = None;
            self.hold_until_ms = None;
        }
        (self.phase, self.reason) = match (&self.paused_by, &self.disabled_by, self.next_attempt_at_ms) {
            (Some(name), _, _) => (Phase::Paused, format!("paused by {name}")),
            (None, Some(reason), _) => (Phase::Disabled, reason.clone()),
            // Only a failure leads here, and it left its reason.
            (None, None, Some(_)) => (Phase::Degraded, std::mem::take(&mut self.reason)),
            (None, None, None) if self.rows_waiting => {
                let failure =
                    self.last_failure.iter().map(|reason| format!(", the last failure was {reason}"));
                (Phase::Draining, "changes wait in the stash".to_owned() + &failure.collect::<String>())
            }
            (None, None, None) => (Phase::Healthy, String::new()),
        };
        if self.phase != before {
            self.since_ms = now_ms;
        }
    }
}

fn later(now_ms: i64, wait: Duration) -> i64 {
    now_ms.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
