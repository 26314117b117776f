//! The unsettled transfers of one client. The fleet owns them, not the delivery actor: an actor that was
//! restarted takes its own back, oldest first.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::windows::{Unsettled, Windows};
use crate::domain::config::ClientId;
use crate::domain::transfer::{Sequence, Transfer};

/// The unsettled transfers of one client, in the order of the log.
pub struct Inbox {
    client: ClientId,
    windows: Arc<Windows>,
    state: Mutex<State>,
    woken: AtomicBool,
    waits_for_commit: AtomicBool,
}

#[derive(Default)]
struct State {
    transfers: BTreeMap<Sequence, Slot>,
    /// Everything below is taken: where the next `take` begins.
    taken_below: Option<Sequence>,
}

struct Slot {
    unsettled: Unsettled,
    taken: bool,
}

impl Inbox {
    /// An empty inbox. What is settled here is settled in `windows`.
    pub fn new(client: ClientId, windows: Arc<Windows>) -> Self {
        Self {
            client,
            windows,
            state: Mutex::default(),
            woken: AtomicBool::new(false),
            waits_for_commit: AtomicBool::new(false),
        }
    }

    /// Whose it is.
    pub fn client(&self) -> &ClientId {
        &self.client
    }

    /// Puts a transfer in. One that is here already (the log was read again) stays as it is.
    /// Returns whether it is new.
    pub fn put(&self, unsettled: Unsettled) -> bool {
        let mut state = self.lock();
        let sequence = unsettled.transfer.sequence;
        if state.transfers.contains_key(&sequence) {
            return false;
        }
        // A re-read record can stand below what was taken: the next `take` must look there again.
        if state.taken_below.is_some_and(|below| sequence <= below) {
            state.taken_below = None;
        }
        state.transfers.insert(sequence, Slot { unsettled, taken: false });
        true
    }

    /// Takes up to `most` transfers that nobody holds, oldest first.
    pub fn take(&self, most: usize) -> Vec<Arc<Transfer>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let mut state = self.lock();
        let State { transfers, taken_below } = &mut *state;
        let from = taken_below.map_or(Unbounded, Excluded);
        let mut taken = Vec::new();
        for (sequence, slot) in transfers.range_mut((from, Unbounded)) {
            if taken.len() == most {
                break;
            }
            *taken_below = Some(*sequence);
            if !slot.taken {
                slot.taken = true;
                taken.push(slot.unsettled.transfer.clone());
            }
        }
        taken
    }

    /// Makes everything unsettled free to be taken again: its holder died.
    pub fn give_back(&self) {
        let mut state = self.lock();
        state.taken_below = None;
        for slot in state.transfers.values_mut() {
            slot.taken = false;
        }
    }

    /// Forgets a transfer that was delivered, or is durable in the stash.
    pub fn settle(&self, sequence: Sequence) {
        let slot = self.lock().transfers.remove(&sequence);
        if let Some(slot) = slot {
            self.windows.settle(&slot.unsettled.transfer);
        }
    }

    /// How many are unsettled.
    pub fn len(&self) -> usize {
        self.lock().transfers.len()
    }

    /// Whether nothing is unsettled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Asks for a kick. `true`: none is on its way, so the caller sends one. At most one kick of a client is
    /// ever in its mailbox.
    pub fn ask_kick(&self) -> bool {
        !self.woken.swap(true, Ordering::AcqRel)
    }

    /// The kick has arrived: what is put in from now on asks for another.
    pub fn kicked(&self) {
        self.woken.store(false, Ordering::Release);
    }

    /// Says whether rows of this client wait until its partition is committed further: then a commit kicks it.
    pub fn wait_for_commit(&self, waits: bool) {
        self.waits_for_commit.store(waits, Ordering::Release);
    }

    /// Whether a commit of its partition concerns this client.
    pub fn waits_for_commit(&self) -> bool {
        self.waits_for_commit.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under this lock can leave it half-changed, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
