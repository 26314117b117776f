//! What waits in the stash: payloads that could not be delivered.

use std::sync::Arc;

use super::dead_row::OwnRow;
use super::delivery::FailureClass;
use super::transfer::{DocumentHash, EventId, Sequence, Transfer};

/// The state of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowState {
    /// Waits to be delivered.
    Pending,
    /// Given up; can be replayed until it is purged.
    Dead,
    /// Dead, and a newer change of its document was delivered: not replayed any more.
    Superseded,
}

impl RowState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Dead, Self::Superseded];

    /// The word in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Dead => "dead",
            Self::Superseded => "superseded",
        }
    }
}

impl std::str::FromStr for RowState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| format!("{text:?} is no state"))
    }
}

/// Names one life of a delivery actor: a row that carries it is in that actor's hands right now.
/// A claim of another life counts as none, so nothing stays claimed when its holder dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Claim(pub u64);

/// A payload that goes into the stash.
#[derive(Debug, Clone)]
pub struct NewRow {
    /// What could not be delivered.
    pub transfer: Arc<Transfer>,
    /// The attempt that failed, if one was made. `None`: it waits behind others.
    pub failure: Option<RowFailure>,
    /// In flight as its row is written (insurance).
    pub claim: Option<Claim>,
}

/// How an attempt failed, and when the next may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFailure {
    /// What it counts for.
    pub class: FailureClass,
    /// The reason label.
    pub reason: String,
    /// The HTTP status.
    pub status: Option<u16>,
    /// Milliseconds since 1970: no attempt before.
    pub next_attempt_at_ms: i64,
}

impl RowFailure {
    /// What it adds to the failures that count towards giving the payload up: 1 or 0.
    pub fn payload_failures(&self) -> i64 {
        i64::from(self.class == FailureClass::Payload)
    }
}

/// A row as it is read for draining.
#[derive(Debug, Clone)]
pub struct StashRow {
    /// The payload, with its place in the order.
    pub transfer: Arc<Transfer>,
    /// Attempts so far, of any outcome.
    pub attempts: u32,
    /// Failures of the payload class so far.
    pub payload_failures: u32,
    /// Milliseconds since 1970: no attempt before. 0: at once.
    pub next_attempt_at_ms: i64,
    /// In whose hands it is.
    pub claim: Option<Claim>,
}

/// Rows as they are read for draining: a stretch of them, oldest first.
#[derive(Debug, Clone, Default)]
pub struct StashPage {
    /// Those that may be sent now.
    pub rows: Vec<StashRow>,
    /// The last place that was looked at: it goes on behind it. Never at or behind a row that is not below the committed offset: it may be a
    /// moment later. `None`: no row stands there that could be sent now.
    pub end: Option<Sequence>,
}

/// One write to the stash. All of a batch are one transaction.
#[derive(Debug, Clone)]
pub enum StashWrite {
    /// Inserts the row; changes nothing when the event has one already (stashing twice is one row).
    Insert(NewRow),
    /// The payload was delivered: deletes its row, if any, and marks older dead rows of its document superseded.
    Delivered {
        /// What was delivered.
        transfer: Arc<Transfer>,
    },
    /// A newer row of the document goes in place of its older ones that wait: deletes those.
    Coalesced {
        /// The newer one.
        transfer: Arc<Transfer>,
    },
    /// An attempt failed: counts it, releases the claim, sets the next attempt.
    Failed {
        /// Of which event.
        event_id: EventId,
        /// How.
        failure: RowFailure,
    },
    /// Gives a payload up: it stays, visible, as `dead`.
    Dead {
        /// Of which event.
        event_id: EventId,
        /// Why.
        failure: RowFailure,
    },
    /// A replay came from the log: the row of its event waits again, and is drained like any other. A dead one at its old place, unless a
    /// newer row of its document waits; by a forced replay a dead or superseded one at the place of the replay, as if it happened
    /// now. Any other row, or none, stays as it is.
    Replay {
        /// The replay.
        transfer: Arc<Transfer>,
    },
}

impl StashWrite {
    /// What keeps a transfer of the log that is not sent as it comes.
    pub fn of_unsent(transfer: Arc<Transfer>) -> Self {
        if transfer.kind.is_replay() {
            Self::Replay { transfer }
        } else {
            Self::Insert(NewRow { transfer, failure: None, claim: None })
        }
    }
}

/// What the stash knows of a batch of changes that are about to be sent.
#[derive(Debug, Clone, Default)]
pub struct StashCheck {
    /// Documents with a pending row: their changes are appended, never sent ahead.
    pub waiting: std::collections::HashSet<DocumentHash>,
    /// Events that have a row of their own, in any state: they are settled unsent, unless they are replays.
    pub stashed: std::collections::HashMap<EventId, OwnRow>,
    /// Documents with a dead row: their delivery supersedes it.
    pub dead: std::collections::HashSet<DocumentHash>,
}

/// Where a change belongs that comes from the transfer log: rows win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Its own row exists: it is settled unsent, for the row will be.
    HasRow,
    /// Its document has a row that waits: it is appended.
    Behind,
    /// It may be sent.
    Free {
        /// Its document has dead rows, which its delivery supersedes.
        supersedes: bool,
    },
}

impl StashCheck {
    /// Where this change belongs.
    pub fn place(&self, document: &DocumentHash, event: &EventId) -> Place {
        if self.stashed.contains_key(event) {
            Place::HasRow
        } else if self.waiting.contains(document) {
            Place::Behind
        } else {
            Place::Free { supersedes: self.dead.contains(document) }
        }
    }
}

/// What waits for one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Pending rows.
    pub pending: u64,
    /// Their bytes.
    pub pending_bytes: u64,
    /// Dead rows.
    pub dead: u64,
    /// When the oldest pending change happened, milliseconds since 1970.
    pub oldest_ts_ms: Option<i64>,
    /// The earliest time, of those that are set, before which a pending row is not attempted, milliseconds since 1970.
    pub next_attempt_at_ms: Option<i64>,
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::domain::config::ClientId;
    use crate::domain::transfer::{EventId, NewTransfer, Sequence, SourcePosition, TransferKind};

    #[test]
    fn a_replay_never_makes_a_row() {
        use TransferKind::{ForcedReplay, Live, Replay, Resync};
        for (kind, makes_a_row) in [(Live, true), (Resync, true), (Replay, false), (ForcedReplay, false)] {
            let content = NewTransfer {
                client: ClientId::new("a"),
                document: "d".into(),
                document_hash: DocumentHash([1; 16]),
                event_id: EventId::from_stored("evt_a"),
                kind,
                source: SourcePosition { topic: "t".into(), partition: 0, offset: 0 },
                traceparent: None,
                ts_ms: 0,
                body: Bytes::new(),
            };
            let sequence = Sequence { incarnation: 1, partition: 0, offset: 0 };
            let write = StashWrite::of_unsent(Arc::new(Transfer { sequence, content }));
            assert_eq!(matches!(write, StashWrite::Insert(_)), makes_a_row, "{kind:?}");
            assert_eq!(matches!(write, StashWrite::Replay { .. }), !makes_a_row, "{kind:?}");
        }
    }

    #[test]
    fn a_state_reads_what_it_writes() {
        for state in [RowState::Pending, RowState::Dead, RowState::Superseded] {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        assert!("gone".parse::<RowState>().is_err());
    }
}
