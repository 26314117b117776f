//! What is shown of an actor.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct as _};
use serde_json::Value;
use utoipa::ToSchema;

use super::{cell::Life, exit::ExitReason};

/// What the status page and the dashboard show of an actor, of this process or another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ActorStatus {
    /// What it is.
    #[schema(value_type = String)]
    pub kind: Cow<'static, str>,
    /// Which of its kind.
    #[schema(value_type = String)]
    pub id: Arc<str>,
    /// Where it is in its life.
    pub state: Life,
    /// Seconds since it was first started; restarts do not set it back.
    pub uptime_seconds: u64,
    /// Seconds since it came into this state.
    pub state_seconds: u64,
    /// Seconds since it last took a message or ticked. Large for an idle actor as for a stuck one.
    pub progress_seconds_ago: u64,
    /// What waits for it; `None`: it has no queue, and takes each message as it comes.
    #[serde(default)]
    pub mailbox: Option<u64>,
    /// Restarts since it was first started.
    pub restarts: u64,
    /// How many of its lives ended for which reason.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub exits: BTreeMap<ExitReason, u64>,
    /// Why it last broke or was restarted.
    pub last_cause: Option<LastCause>,
    /// Name of the last message that it began to handle.
    #[schema(value_type = Option<String>)]
    pub last_message: Option<Cow<'static, str>>,
    /// The state that it last published.
    #[schema(value_type = Option<Object>)]
    pub published: Option<Arc<Value>>,
}

/// Why an actor last broke or was restarted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
pub struct LastCause {
    /// Of which kind it was.
    pub reason: ExitReason,
    /// Text of the panic, or the reason that was given; one line, 300 characters at most. One that a panic put together may hold anything, and is
    /// for the log alone: it is not serialised.
    pub message: String,
    /// The message stands in the code as it is. What another process tells is.
    #[serde(default = "told")]
    #[schema(ignore)]
    pub is_fixed: bool,
    /// `file:line` of the panic, or of the call; may be empty.
    pub place: String,
    /// Seconds that the life had lasted.
    pub lasted_seconds: u64,
    /// Seconds since then.
    pub seconds_ago: u64,
}

/// Whoever told it has left out what must not be seen.
fn told() -> bool {
    true
}

impl LastCause {
    /// What of its text may be shown.
    pub fn shown(&self) -> &str {
        if self.is_fixed { &self.message } else { "a panic, see the log" }
    }
}

impl Serialize for LastCause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { reason, message: _, is_fixed: _, place, lasted_seconds, seconds_ago } = self;
        let mut cause = serializer.serialize_struct("LastCause", 5)?;
        cause.serialize_field("reason", reason)?;
        cause.serialize_field("message", self.shown())?;
        cause.serialize_field("place", place)?;
        cause.serialize_field("lasted_seconds", lasted_seconds)?;
        cause.serialize_field("seconds_ago", seconds_ago)?;
        cause.end()
    }
}
