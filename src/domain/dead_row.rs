//! Rows of the stash that were given up: what is shown of them, and when one may come back.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::config::ClientId;
use super::stash::RowState;
use super::transfer::{EventId, Sequence, SourcePosition};

/// Of which kind a row is that was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GivenUp {
    /// Can be replayed.
    Dead,
    /// A newer change of its document was delivered: only a forced replay brings it back.
    Superseded,
}

impl GivenUp {
    /// The state of such rows.
    pub fn state(self) -> RowState {
        match self {
            Self::Dead => RowState::Dead,
            Self::Superseded => RowState::Superseded,
        }
    }
}

/// A row that was given up, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadRow {
    /// Whose.
    pub client: ClientId,
    /// The `webhook-id`.
    pub event_id: EventId,
    /// `<db>.<collection>:<id>`.
    pub document: Arc<str>,
    /// Its place in the log.
    pub sequence: Sequence,
    /// The source record that it was made of.
    pub source: SourcePosition,
    /// When the change happened, milliseconds since 1970.
    pub ts_ms: i64,
    /// What it counts for in bounds: the body, and what a row costs beside it.
    pub bytes: u64,
    /// Dead or superseded.
    pub kind: GivenUp,
    /// Attempts, of any outcome.
    pub attempts: u32,
    /// Those that failed by the payload's own fault.
    pub payload_failures: u32,
    /// The first failure (or when it was given up unsent), milliseconds since 1970, by the store's clock.
    pub first_failed_at_ms: i64,
    /// The last failure, or when it was given up unsent; milliseconds since 1970, by the store's clock.
    pub last_failed_at_ms: Option<i64>,
    /// Why the last attempt failed, or why it was given up unsent.
    pub reason: Option<String>,
    /// The HTTP status of the last attempt.
    pub status: Option<u16>,
}

impl DeadRow {
    /// Where it stands among others.
    pub fn place(&self) -> DeadRowPlace {
        DeadRowPlace { first_failed_at_ms: self.first_failed_at_ms, sequence: self.sequence }
    }
}

/// The place of a row among those that were given up: by the first failure, and of one moment by the place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeadRowPlace {
    /// Milliseconds since 1970.
    pub first_failed_at_ms: i64,
    /// The place in the log.
    pub sequence: Sequence,
}

impl fmt::Display for DeadRowPlace {
    /// As a cursor: `<first failure>-<sequence>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first_failed_at_ms, self.sequence)
    }
}

impl FromStr for DeadRowPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let broken = || format!("{text:?} is no cursor");
        let (time, sequence) = text.split_once('-').ok_or_else(broken)?;
        Ok(Self {
            first_failed_at_ms: time.parse().map_err(|_| broken())?,
            sequence: sequence.parse().map_err(|_| broken())?,
        })
    }
}

/// Which end comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByAge {
    /// The earliest failures.
    OldestFirst,
    /// The latest.
    NewestFirst,
}

/// Which rows are asked for.
#[derive(Debug, Clone)]
pub struct DeadRowQuery {
    /// Of this client; `None`: of all.
    pub client: Option<ClientId>,
    /// Of this kind.
    pub kind: GivenUp,
    /// First failed at or after this, milliseconds since 1970.
    pub from_ms: i64,
    /// First failed before this.
    pub until_ms: i64,
    /// Beyond this one, in the order that is asked for.
    pub after: Option<DeadRowPlace>,
    /// The order.
    pub order: ByAge,
    /// At most so many.
    pub limit: usize,
}

impl DeadRowQuery {
    /// The places between which the rows are, both left out: the times that are asked for, and what was read already.
    pub fn between(&self) -> (DeadRowPlace, DeadRowPlace) {
        // Before every row of that moment.
        let begin_of = |first_failed_at_ms| DeadRowPlace {
            first_failed_at_ms,
            sequence: Sequence { incarnation: 0, partition: 0, offset: -1 },
        };
        let (from, until) = (begin_of(self.from_ms), begin_of(self.until_ms));
        match (self.order, self.after) {
            (_, None) => (from, until),
            (ByAge::OldestFirst, Some(after)) => (from.max(after), until),
            (ByAge::NewestFirst, Some(after)) => (from, until.min(after)),
        }
    }
}

/// What the stash knows of a row that a replay is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnRow {
    /// Its state.
    pub state: RowState,
    /// A newer row of its document waits to be delivered.
    pub newer_waits: bool,
}

/// Why a replay does not bring a row back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// There is no row: it was delivered or purged.
    Gone,
    /// The row waits to be delivered.
    Waits,
    /// A newer change of its document was delivered.
    Superseded,
    /// A newer change of its document waits to be delivered.
    NewerWaits,
    /// As much waits for its client as may.
    Overflow,
}

impl Refusal {
    /// The label of metrics and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Waits => "waits",
            Self::Superseded => "superseded",
            Self::NewerWaits => "newer_waits",
            Self::Overflow => "overflow",
        }
    }

    /// For people.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Gone => "there is no such row any more: it was delivered, or purged",
            Self::Waits => "it waits to be delivered already",
            Self::Superseded => "a newer change of its document was delivered: the receiver would go back",
            Self::Overflow => "as much waits for its client as may",
            Self::NewerWaits => {
                "a newer change of its document waits to be delivered: the receiver would go back"
            }
        }
    }
}

/// Whether a replay brings a row back. `forced`: going back is wanted.
///
/// # Errors
/// Why not.
pub fn may_come_back(row: Option<OwnRow>, forced: bool) -> Result<(), Refusal> {
    match row {
        None => Err(Refusal::Gone),
        Some(OwnRow { state: RowState::Pending, .. }) => Err(Refusal::Waits),
        Some(_) if forced => Ok(()),
        Some(OwnRow { state: RowState::Superseded, .. }) => Err(Refusal::Superseded),
        Some(OwnRow { state: RowState::Dead, newer_waits: true }) => Err(Refusal::NewerWaits),
        Some(OwnRow { state: RowState::Dead, newer_waits: false }) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn force_passes_what_is_newer_and_nothing_else() {
        let row = |state, newer_waits| Some(OwnRow { state, newer_waits });
        for (row, plain, forced) in [
            (None, Err(Refusal::Gone), Err(Refusal::Gone)),
            (row(RowState::Pending, false), Err(Refusal::Waits), Err(Refusal::Waits)),
            (row(RowState::Pending, true), Err(Refusal::Waits), Err(Refusal::Waits)),
            (row(RowState::Dead, false), Ok(()), Ok(())),
            (row(RowState::Dead, true), Err(Refusal::NewerWaits), Ok(())),
            (row(RowState::Superseded, false), Err(Refusal::Superseded), Ok(())),
            (row(RowState::Superseded, true), Err(Refusal::Superseded), Ok(())),
        ] {
            assert_eq!((may_come_back(row, false), may_come_back(row, true)), (plain, forced), "{row:?}");
        }
    }

    #[test]
    fn a_cursor_reads_what_it_writes() {
        let sequence = Sequence { incarnation: 1, partition: 11, offset: 12_345 };
        let place = DeadRowPlace { first_failed_at_ms: 1_764_435_600_000, sequence };
        assert_eq!(place.to_string().parse(), Ok(place));
        for broken in ["", "1", "1-2-3", "a-1-2-3", "1-1-2-3-4"] {
            assert!(broken.parse::<DeadRowPlace>().is_err(), "{broken:?}");
        }
    }
}
