//! Which transfer an actor has in its hands, and how often it broke with it there: what broke it twice will break it again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::transfer::{Sequence, Transfer};

/// With the second time it is no chance.
const TIMES: u32 = 2;

/// The suspects of one client.
#[derive(Clone, Default)]
pub(super) struct Suspects {
    in_hand: Option<Arc<Transfer>>,
    /// Few: each has cost a life of the actor.
    suspects: BTreeMap<Sequence, (Arc<Transfer>, u32)>,
}

impl Suspects {
    /// The actor has this one in its hands from now on.
    pub(super) fn takes_in_hand(&mut self, transfer: &Arc<Transfer>) {
        self.in_hand = Some(transfer.clone());
    }

    /// Its hands are empty again.
    pub(super) fn puts_down(&mut self) {
        self.in_hand = None;
    }

    /// The actor broke: whatever it had in its hands is to blame.
    pub(super) fn broke(&mut self) {
        if let Some(transfer) = self.in_hand.take() {
            self.blame(transfer);
        }
    }

    /// The actor broke of this one.
    pub(super) fn blame(&mut self, transfer: Arc<Transfer>) {
        self.suspects.entry(transfer.sequence).or_insert((transfer, 0)).1 += 1;
    }

    /// Those that broke it too often, oldest first.
    pub(super) fn killers(&self) -> Vec<Arc<Transfer>> {
        let killers = self.suspects.values().filter(|(_, times)| *times >= TIMES);
        killers.map(|(transfer, _)| transfer.clone()).collect()
    }

    /// It will not be handled again.
    pub(super) fn forget(&mut self, sequence: Sequence) {
        self.suspects.remove(&sequence);
    }
}
