//! What an operator sees of the rows of the stash, whatever their state, and asks of them.

use std::sync::Arc;

use super::config::ClientId;
use super::stash::RowState;
use super::transfer::{DocumentHash, EventId, Sequence, SourcePosition, TransferKind};

/// A row, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowView {
    /// The `webhook-id`.
    pub event_id: EventId,
    /// `<db>.<collection>:<id>`.
    pub document: Arc<str>,
    /// Its state.
    pub state: RowState,
    /// What brought it into the log.
    pub kind: TransferKind,
    /// Its place in the log.
    pub sequence: Sequence,
    /// The source record that it was made of.
    pub source: SourcePosition,
    /// When the change happened, milliseconds since 1970.
    pub ts_ms: i64,
    /// What it counts for in bounds: the body, and what a row costs beside it.
    pub bytes: u64,
    /// When it came into the stash, milliseconds since 1970, by the store's clock.
    pub stashed_at_ms: i64,
    /// Attempts, of any outcome.
    pub attempts: u32,
    /// Those that failed by the payload's own fault.
    pub payload_failures: u32,
    /// No attempt before, milliseconds since 1970. 0: at once.
    pub next_attempt_at_ms: i64,
    /// The first failure, milliseconds since 1970, by the store's clock.
    pub first_failed_at_ms: Option<i64>,
    /// The last failure.
    pub last_failed_at_ms: Option<i64>,
    /// Why the last attempt failed, or why it was given up unsent.
    pub reason: Option<String>,
    /// The HTTP status of the last attempt.
    pub status: Option<u16>,
}

/// Which rows of a client are asked for. They come in the order in which they are delivered.
#[derive(Debug, Clone)]
pub struct RowQuery {
    /// Whose.
    pub client: ClientId,
    /// Of one state; `None`: of all.
    pub state: Option<RowState>,
    /// Of one document; `None`: of all.
    pub document: Option<DocumentHash>,
    /// Only behind this place.
    pub after: Option<Sequence>,
    /// At most so many.
    pub limit: usize,
}

/// The document that `<db>.<collection>:<id>` names. A database's name has no dot, a collection's no colon.
pub fn named_document(text: &str) -> Option<DocumentHash> {
    let (place, id) = text.split_once(':')?;
    let (db, collection) = place.split_once('.')?;
    Some(DocumentHash::of(db, collection, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_found_by_what_is_shown_of_it() {
        let hash = DocumentHash::of("identity", "users.old", "a:b.c");
        assert_eq!(named_document("identity.users.old:a:b.c"), Some(hash));
        assert_eq!(named_document("identity.users:"), Some(DocumentHash::of("identity", "users", "")));
        for broken in ["", "users:1", "identity.users", "1"] {
            assert_eq!(named_document(broken), None, "{broken}");
        }
    }
}
