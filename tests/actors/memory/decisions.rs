//! What operators decided.

use std::sync::Arc;

use dispatcher::domain::decision::{Decision, DecisionKind, Subject};
use dispatcher::ports::decisions::Decisions;
use dispatcher::ports::{BoxFuture, StoreResult};
use tokio::sync::Notify;

use super::Medium;

pub(crate) type Made = Vec<(DecisionKind, Decision)>;

/// The decisions as one process sees them.
pub(crate) struct MemoryDecisions {
    medium: Arc<Medium<Made>>,
    /// It is told that they are others.
    told: Arc<Notify>,
}

impl MemoryDecisions {
    pub(crate) fn new(medium: Arc<Medium<Made>>, told: Arc<Notify>) -> Self {
        Self { medium, told }
    }
}

/// Blocks an owner, or lets him go.
pub(crate) fn block(made: &mut Made, owner: &str, blocked: bool) {
    made.retain(|(kind, decision)| {
        *kind != DecisionKind::BlockedOwner || decision.subject().as_str() != owner
    });
    if blocked {
        let decision = Decision::new(Subject::parse(owner).unwrap(), "ops", "unpaid", 1).unwrap();
        made.push((DecisionKind::BlockedOwner, decision));
    }
}

/// Pauses a client, or lets it go on.
pub(crate) fn pause(made: &mut Made, client: &str, paused: bool) {
    made.retain(|(kind, decision)| {
        *kind != DecisionKind::PausedClient || decision.subject().as_str() != client
    });
    if paused {
        let decision = Decision::new(Subject::parse(client).unwrap(), "ops", "", 1).unwrap();
        made.push((DecisionKind::PausedClient, decision));
    }
}

impl Decisions for MemoryDecisions {
    fn list(&self, kind: DecisionKind) -> BoxFuture<'_, StoreResult<Vec<Decision>>> {
        Box::pin(self.medium.read(move |made| {
            let of_kind = made.iter().filter(|(is, _)| *is == kind);
            of_kind.map(|(_, decision)| decision.clone()).collect()
        }))
    }

    fn put(&self, _: DecisionKind, _: Decision) -> BoxFuture<'_, StoreResult<Decision>> {
        panic!("no actor decides")
    }

    fn remove<'a>(&'a self, _: DecisionKind, _: &'a Subject) -> BoxFuture<'a, StoreResult<bool>> {
        panic!("no actor decides")
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.told.notified())
    }
}
