//! The state of a client's delivery, and what changes it.

use serde::{Deserialize, Serialize};

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
    /// The config is INACTIVE, deleted or unusable: changes wait.
    Disabled,
}

/// The state of a client's delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientState {
    /// What it is doing.
    pub phase: Phase,
    /// Since when, milliseconds since 1970.
    pub since_ms: i64,
    /// Why.
    pub reason: String,
    /// When the next attempt is made, milliseconds since 1970, while it is degraded.
    pub next_attempt_at_ms: Option<i64>,
    /// The first failure since the last success, milliseconds since 1970.
    pub failing_since_ms: Option<i64>,
    /// The last success, milliseconds since 1970.
    pub last_success_ms: Option<i64>,
    /// Failed rounds in a row: the step of the retry schedule.
    pub failed_rounds: u32,
}
