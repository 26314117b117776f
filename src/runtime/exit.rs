//! Why a life of an actor came to its end.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a life of an actor came to its end. A restart begins the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// A panic in a handler, a hook, a timer or a future of its context.
    Panicked,
    /// Its context stopped though nobody had asked for that.
    StoppedItself,
    /// It had work at hand and made no progress for longer than it may.
    Frozen,
    /// It was asked to begin anew: by an operator, or because its right to what it held had ended.
    Asked,
    /// Its thread made no progress: it was left behind, with all actors on it.
    LostArbiter,
    /// It was stopped in order.
    Stopped,
    /// It broke too often within the window of its restart policy.
    Failed,
}

impl ExitReason {
    /// The word in logs, events and statuses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Panicked => "panicked",
            Self::StoppedItself => "stopped_itself",
            Self::Frozen => "frozen",
            Self::Asked => "asked",
            Self::LostArbiter => "lost_arbiter",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}
