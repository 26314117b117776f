//! The unsettled transfers of one client, and what is known of its rows and its state. The fleet owns them, not the delivery
//! actor: an actor that was restarted takes its own back, oldest first.

mod fence;
mod suspects;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::fence::Fence;
use self::suspects::Suspects;
use super::windows::{Unsettled, Windows};
use crate::domain::client_state::ClientState;
use crate::domain::config::ClientId;
use crate::domain::transfer::{Sequence, Transfer};
use crate::ports::stash::Ownership;

/// What is known of a client without asking the stash. The owner of its partition read it once, after it took the partition, and
/// nobody else writes rows of its clients: so it stays complete.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Standing {
    /// What the stash holds for it.
    pub rows: Rows,
    /// Its state; `None`: as that of a new client.
    pub state: Option<ClientState>,
}

/// What the stash holds for a client, as far as it must be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rows {
    /// There may be pending rows.
    pub pending: bool,
    /// There may be dead rows.
    pub dead: bool,
}

impl Rows {
    /// Whether the stash need not be asked about this client's changes.
    pub fn are_none(self) -> bool {
        self == Self::default()
    }
}

/// The unsettled transfers of one client, in the order of the log, as long as its partition is ours by one right.
pub struct Inbox {
    client: ClientId,
    ownership: Ownership,
    windows: Arc<Windows>,
    standing: Mutex<Standing>,
    /// The token of the drain lease that its actor holds.
    lease: Mutex<Option<i64>>,
    state: Mutex<State>,
    suspects: Mutex<Suspects>,
    fence: Fence,
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
    /// An empty inbox. What is settled here is settled in `windows`, by the right of `ownership`.
    pub fn new(client: ClientId, ownership: Ownership, windows: Arc<Windows>, standing: Standing) -> Self {
        Self {
            client,
            ownership,
            windows,
            standing: Mutex::new(standing),
            lease: Mutex::default(),
            state: Mutex::default(),
            suspects: Mutex::default(),
            fence: Fence::default(),
            woken: AtomicBool::new(false),
            waits_for_commit: AtomicBool::new(false),
        }
    }

    /// What takes the place of this one, for the actor on another thread: all that is unsettled, free to be taken, and all that is known.
    /// From here on nothing counts that is done with this one.
    pub fn successor(&self) -> Self {
        self.fence.raise();
        let (standing, lease) = (self.standing(), self.lease());
        let mut suspects = lock(&self.suspects).clone();
        suspects.broke();
        let state = State { transfers: std::mem::take(&mut self.lock().transfers), taken_below: None };
        let successor = Self {
            lease: Mutex::new(lease),
            state: Mutex::new(state),
            suspects: Mutex::new(suspects),
            ..Self::new(self.client.clone(), self.ownership, self.windows.clone(), standing)
        };
        successor.give_back();
        successor
    }

    /// What separates the holder of this inbox from the next.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// The actor has this transfer in its hands: should it break now, that is to blame.
    pub fn takes_in_hand(&self, transfer: &Arc<Transfer>) {
        lock(&self.suspects).takes_in_hand(transfer);
    }

    /// Its hands are empty again.
    pub fn puts_down(&self) {
        lock(&self.suspects).puts_down();
    }

    /// The actor broke of this transfer.
    pub fn blame(&self, transfer: Arc<Transfer>) {
        lock(&self.suspects).blame(transfer);
    }

    /// Transfers that broke the actor more than once, oldest first.
    pub fn killers(&self) -> Vec<Arc<Transfer>> {
        lock(&self.suspects).killers()
    }

    /// Whose it is.
    pub fn client(&self) -> &ClientId {
        &self.client
    }

    /// By which right its partition is ours.
    pub fn ownership(&self) -> Ownership {
        self.ownership
    }

    /// What is known of the client now.
    pub fn standing(&self) -> Standing {
        lock(&self.standing).clone()
    }

    /// Notes what the stash holds from now on. Rows are noted before they are asked to be written, and forgotten after
    /// the stash said that there are none.
    pub fn note_rows(&self, rows: Rows) {
        lock(&self.standing).rows = rows;
    }

    /// Notes the client's state.
    pub fn note_state(&self, state: ClientState) {
        lock(&self.standing).state = Some(state);
    }

    /// Notes which drain lease is held.
    pub fn note_lease(&self, token: Option<i64>) {
        *lock(&self.lease) = token;
    }

    /// The token of the drain lease that is held.
    pub fn lease(&self) -> Option<i64> {
        *lock(&self.lease)
    }

    /// Puts a transfer in: the newest. (What is read again comes by another right, into another inbox.)
    pub fn put(&self, unsettled: Unsettled) {
        let sequence = unsettled.transfer.sequence;
        self.lock().transfers.insert(sequence, Slot { unsettled, taken: false });
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
        lock(&self.suspects).broke();
        let mut state = self.lock();
        state.taken_below = None;
        for slot in state.transfers.values_mut() {
            slot.taken = false;
        }
    }

    /// Forgets a transfer that was delivered, or is durable in the stash.
    pub fn settle(&self, sequence: Sequence) {
        lock(&self.suspects).forget(sequence);
        let slot = self.lock().transfers.remove(&sequence);
        if let Some(slot) = slot {
            self.windows.settle(self.ownership, slot.unsettled.transfer.sequence.offset);
        }
    }

    /// How many are unsettled.
    pub fn len(&self) -> usize {
        self.lock().transfers.len()
    }

    /// When the first of them happened, milliseconds since 1970.
    pub fn oldest_ts_ms(&self) -> Option<i64> {
        self.lock().transfers.values().next().map(|slot| slot.unsettled.transfer.ts_ms)
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
        lock(&self.state)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code under these locks can leave anything half-changed, so a panic elsewhere does not spoil it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::domain::transfer::{DocumentHash, EventId, NewTransfer, SourcePosition, TransferKind};
    use crate::metrics::Metrics;

    const OWNERSHIP: Ownership = Ownership { incarnation: 1, partition: 0, epoch: 1 };

    fn inbox() -> (Inbox, Arc<Windows>) {
        let windows = Windows::new(1 << 20, Metrics::new());
        windows.assign(OWNERSHIP);
        (Inbox::new(ClientId::new("a"), OWNERSHIP, windows.clone(), Standing::default()), windows)
    }

    async fn put(inbox: &Inbox, windows: &Windows, offset: i64) {
        let content = NewTransfer {
            client: ClientId::new("a"),
            document: "test.things:1".into(),
            document_hash: DocumentHash([1; 16]),
            event_id: EventId::from_stored("evt_a"),
            kind: TransferKind::Live,
            source: SourcePosition { topic: "t".into(), partition: 0, offset },
            traceparent: None,
            ts_ms: 0,
            body: Bytes::new(),
        };
        let sequence = Sequence { incarnation: 1, partition: 0, offset };
        let transfer = Arc::new(Transfer { sequence, content });
        windows.received(OWNERSHIP, offset);
        inbox.put(windows.reserve(transfer).await);
    }

    fn take(inbox: &Inbox, most: usize) -> Vec<i64> {
        inbox.take(most).iter().map(|transfer| transfer.sequence.offset).collect()
    }

    #[actix_rt::test]
    async fn each_is_taken_once_and_oldest_first() {
        let (inbox, windows) = inbox();
        for offset in [1, 2, 5] {
            put(&inbox, &windows, offset).await;
        }
        assert_eq!(take(&inbox, 2), [1, 2]);
        put(&inbox, &windows, 7).await;
        assert_eq!(take(&inbox, 9), [5, 7]);
        assert_eq!(take(&inbox, 9), [0; 0]);
    }

    #[actix_rt::test]
    async fn what_its_holder_did_not_settle_is_taken_again() {
        let (inbox, windows) = inbox();
        for offset in [1, 2, 3] {
            put(&inbox, &windows, offset).await;
        }
        assert_eq!(take(&inbox, 2), [1, 2]);
        inbox.settle(Sequence { incarnation: 1, partition: 0, offset: 1 });
        inbox.give_back();
        assert_eq!(take(&inbox, 9), [2, 3]);
        assert_eq!(inbox.len(), 2);
    }

    #[actix_rt::test]
    async fn what_is_settled_moves_its_partition_on() {
        let (inbox, windows) = inbox();
        put(&inbox, &windows, 1).await;
        put(&inbox, &windows, 2).await;
        let settle = |offset| inbox.settle(Sequence { incarnation: 1, partition: 0, offset });
        settle(2);
        assert!(windows.to_commit().is_empty());
        settle(1);
        settle(1);
        assert_eq!(windows.to_commit()[&0].1, 3);
        assert!(inbox.is_empty());
    }

    #[actix_rt::test]
    async fn a_successor_has_all_that_is_unsettled_and_what_the_old_one_does_counts_for_nothing() {
        let (old, windows) = inbox();
        for offset in [1, 2, 3] {
            put(&old, &windows, offset).await;
        }
        assert_eq!(take(&old, 2), [1, 2]);
        old.note_rows(Rows { pending: true, dead: false });
        old.note_lease(Some(7));
        let next = old.successor();
        assert!(old.fence().is_up() && !next.fence().is_up());
        assert!(next.standing().rows.pending);
        assert_eq!(next.lease(), Some(7));

        old.settle(Sequence { incarnation: 1, partition: 0, offset: 1 });
        old.note_rows(Rows::default());
        assert_eq!(take(&old, 9), [0; 0]);
        assert!(windows.to_commit().is_empty(), "the old one settled something");
        assert!(next.standing().rows.pending);
        assert_eq!(take(&next, 9), [1, 2, 3]);
        next.settle(Sequence { incarnation: 1, partition: 0, offset: 1 });
        assert_eq!(windows.to_commit()[&0].1, 2);
    }

    #[actix_rt::test]
    async fn what_is_in_hand_twice_as_its_actor_breaks_is_a_killer() {
        let (inbox, windows) = inbox();
        for offset in [1, 2] {
            put(&inbox, &windows, offset).await;
        }
        let killers = |inbox: &Inbox| {
            let killers = inbox.killers();
            killers.iter().map(|transfer| transfer.sequence.offset).collect::<Vec<_>>()
        };
        let taken = inbox.take(2);
        inbox.takes_in_hand(&taken[0]);
        inbox.puts_down();
        inbox.give_back();
        for _ in 0..2 {
            assert_eq!(killers(&inbox), [0; 0]);
            inbox.takes_in_hand(&taken[1]);
            inbox.give_back();
            inbox.give_back(); // another restart, with empty hands
        }
        assert_eq!(killers(&inbox), [2]);
        // A thread that is lost is a break, too.
        inbox.takes_in_hand(&taken[0]);
        let next = inbox.successor();
        next.takes_in_hand(&taken[0]);
        let next = next.successor();
        assert_eq!(killers(&next), [1, 2]);
        next.settle(taken[0].sequence);
        assert_eq!(killers(&next), [2]);
    }

    #[test]
    fn one_kick_at_a_time() {
        let (inbox, _) = inbox();
        assert!(inbox.ask_kick());
        assert!(!inbox.ask_kick());
        inbox.kicked();
        assert!(inbox.ask_kick());
    }
}
