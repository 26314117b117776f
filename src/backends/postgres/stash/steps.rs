//! Many writes as few statements. Writes of different clients commute, so they are sorted into steps: what a client asks
//! for in one order is done in that order, and each step writes all its rows at once.

use std::collections::{HashMap, HashSet};

use crate::domain::config::ClientId;
use crate::domain::stash::{NewRow, RowFailure, RowState, StashWrite};
use crate::domain::transfer::{DocumentHash, EventId, Transfer};
use crate::ports::stash::StashBatch;

/// A failed attempt at a row.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub(super) client: &'a ClientId,
    pub(super) event: &'a EventId,
    pub(super) failure: &'a RowFailure,
    /// What the row is now.
    pub(super) state: RowState,
}

/// Writes of one kind.
pub(super) enum Step<'a> {
    Insert(Vec<&'a NewRow>),
    Delivered(Vec<&'a Transfer>),
    Coalesced(Vec<&'a Transfer>),
    /// No event twice: each failure counts.
    Failed(Vec<Attempt<'a>>, HashSet<(&'a ClientId, &'a EventId)>),
    /// No document twice: each looks at what the one before left.
    Replay(Vec<&'a Transfer>, HashSet<(&'a ClientId, DocumentHash)>),
}

impl<'a> Step<'a> {
    /// Takes the write, if it is of this kind and has room here.
    fn takes(&mut self, client: &'a ClientId, write: &'a StashWrite) -> bool {
        match (self, write) {
            (Self::Insert(rows), StashWrite::Insert(row)) => rows.push(row),
            (Self::Delivered(transfers), StashWrite::Delivered { transfer }) => transfers.push(transfer),
            (Self::Coalesced(transfers), StashWrite::Coalesced { transfer }) => transfers.push(transfer),
            (
                Self::Failed(attempts, events),
                StashWrite::Failed { event_id, failure } | StashWrite::Dead { event_id, failure },
            ) => {
                if !events.insert((client, event_id)) {
                    return false;
                }
                let dead = matches!(write, StashWrite::Dead { .. });
                let state = if dead { RowState::Dead } else { RowState::Pending };
                attempts.push(Attempt { client, event: event_id, failure, state });
            }
            (Self::Replay(replays, documents), StashWrite::Replay { transfer }) => {
                if !documents.insert((client, transfer.document_hash)) {
                    return false;
                }
                replays.push(transfer);
            }
            _ => return false,
        }
        true
    }

    fn for_kind_of(write: &StashWrite) -> Self {
        match write {
            StashWrite::Insert(_) => Self::Insert(Vec::new()),
            StashWrite::Delivered { .. } => Self::Delivered(Vec::new()),
            StashWrite::Coalesced { .. } => Self::Coalesced(Vec::new()),
            StashWrite::Failed { .. } | StashWrite::Dead { .. } => Self::Failed(Vec::new(), HashSet::new()),
            StashWrite::Replay { .. } => Self::Replay(Vec::new(), HashSet::new()),
        }
    }
}

/// The steps of batches, in order.
pub(super) fn steps<'a>(batches: impl Iterator<Item = &'a StashBatch>) -> Vec<Step<'a>> {
    let mut steps: Vec<Step<'a>> = Vec::new();
    // The step of the client's last write: the next one is done there or later.
    let mut reached: HashMap<&ClientId, usize> = HashMap::new();
    for batch in batches {
        let at = reached.entry(&batch.client).or_default();
        for write in &batch.writes {
            while !steps.get_mut(*at).is_some_and(|step| step.takes(&batch.client, write)) {
                if *at >= steps.len() {
                    steps.push(Step::for_kind_of(write));
                } else {
                    *at += 1;
                }
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::delivery::FailureClass;
    use crate::domain::transfer::{DocumentHash, NewTransfer, Sequence, SourcePosition, TransferKind};
    use crate::ports::stash::Ownership;

    fn transfer(client: &str, offset: i64) -> Arc<Transfer> {
        let client = ClientId::new(client);
        let source = SourcePosition { topic: "t".into(), partition: 0, offset };
        let content = NewTransfer {
            document: "d".into(),
            document_hash: DocumentHash([0; 16]),
            event_id: EventId::derive(&source, 0, &client),
            client,
            kind: TransferKind::Live,
            source,
            traceparent: None,
            ts_ms: 0,
            body: bytes::Bytes::new(),
        };
        Arc::new(Transfer { sequence: Sequence { incarnation: 1, partition: 0, offset }, content })
    }

    /// `i`nsert, `d`elivered, `c`oalesced, `f`ailed, `x` dead, `r`eplay, each with its offset.
    fn batch(client: &str, writes: &str) -> StashBatch {
        let failure = || RowFailure {
            class: FailureClass::Payload,
            reason: "r".into(),
            status: None,
            next_attempt_at_ms: 0,
        };
        let write = |word: &str| {
            let transfer = transfer(client, word[1..].parse().unwrap());
            let event_id = transfer.event_id.clone();
            match &word[..1] {
                "i" => StashWrite::Insert(NewRow { transfer, failure: None, claim: None }),
                "d" => StashWrite::Delivered { transfer },
                "c" => StashWrite::Coalesced { transfer },
                "f" => StashWrite::Failed { event_id, failure: failure() },
                "r" => StashWrite::Replay { transfer },
                _ => StashWrite::Dead { event_id, failure: failure() },
            }
        };
        StashBatch {
            client: ClientId::new(client),
            ownership: Ownership { incarnation: 1, partition: 0, epoch: 1 },
            lease: None,
            writes: writes.split_whitespace().map(write).collect(),
        }
    }

    fn shape(batches: &[StashBatch]) -> Vec<String> {
        steps(batches.iter())
            .iter()
            .map(|step| match step {
                Step::Insert(rows) => format!("i{}", rows.len()),
                Step::Delivered(transfers) => format!("d{}", transfers.len()),
                Step::Coalesced(transfers) => format!("c{}", transfers.len()),
                Step::Failed(attempts, _) => format!("f{}", attempts.len()),
                Step::Replay(replays, _) => format!("r{}", replays.len()),
            })
            .collect()
    }

    #[test]
    fn writes_of_many_clients_are_few_steps() {
        assert_eq!(
            shape(&[batch("a", "i1 i2 f1"), batch("b", "i1 f1"), batch("c", "f7 i8")]),
            ["i3", "f3", "i1"]
        );
        assert_eq!(shape(&[batch("a", "d1 d2"), batch("b", "d1"), batch("a", "d3")]), ["d4"]);
    }

    #[test]
    fn the_order_of_a_client_stays() {
        assert_eq!(shape(&[batch("a", "i1 d1 i2"), batch("a", "f2")]), ["i1", "d1", "i1", "f1"]);
        assert_eq!(shape(&[batch("a", "i1 i2 c2 d2"), batch("b", "c2 d2")]), ["i2", "c2", "d2"]);
    }

    #[test]
    fn two_replays_of_one_document_are_two_steps() {
        assert_eq!(shape(&[batch("a", "r1 r2"), batch("b", "r1")]), ["r2", "r1"]);
    }

    #[test]
    fn two_failures_of_one_event_are_two_steps() {
        assert_eq!(shape(&[batch("a", "f1 f2 x1"), batch("b", "f1")]), ["f3", "f1"]);
    }
}
