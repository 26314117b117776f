//! The log: change events in, transfers out. The transfer log is the order of everything that is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{BoxFuture, StoreError, StoreResult};
use crate::domain::change_event::SourceRecord;
pub use crate::domain::intake::NewRecord;
use crate::domain::transfer::{NewTransfer, SourcePosition, Transfer};

/// A source record that could not be read, or a transfer that can never be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Where it stands.
    pub position: SourcePosition,
    /// The record's timestamp, milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Why.
    pub reason: String,
    /// The record itself; `None` where it may hold secrets (client configs).
    pub record: Option<NewRecord>,
}

/// The reason of a letter whose record is a webhook's body that the stash never takes: no source record.
pub const STASH_REFUSED: &str = "stash_refused";

/// What ingest made of a stretch of the source stream. Written whole or not at all.
#[derive(Debug, Clone, Default)]
pub struct IngestWork {
    /// In the order in which they are to stand in the log.
    pub transfers: Vec<NewTransfer>,
    /// Records that could not be read.
    pub dead_letters: Vec<DeadLetter>,
    /// The next offset to read, by source topic and partition.
    pub offsets: BTreeMap<(Arc<str>, i32), i64>,
}

/// How large a batch may be.
#[derive(Debug, Clone, Copy)]
pub struct BatchLimits {
    /// Records.
    pub records: usize,
    /// Bytes; a single larger record is a batch of its own.
    pub bytes: usize,
}

/// How far a consumer is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lag {
    /// Records not committed.
    pub records: u64,
    /// The timestamp of the oldest of them, milliseconds since 1970.
    pub oldest_ms: Option<i64>,
}

/// Until when requests may be started for the partitions of a consumer, by [`Clock::boot_ms`]. A member of a group that is cut off
/// knows by this that its partitions may be another's by now.
///
/// [`Clock::boot_ms`]: super::clock::Clock::boot_ms
#[derive(Debug, Clone)]
pub struct SendPermission(Arc<Mutex<Permission>>);

#[derive(Debug, Clone, Copy)]
struct Permission {
    until_boot_ms: i64,
    /// Everything was lost, and whoever reads the events may not know it yet.
    withdrawn: bool,
}

impl SendPermission {
    /// Nothing may be started until [`SendPermission::extend`].
    pub fn none() -> Self {
        Self::until(i64::MIN)
    }

    /// For a log that has one process: whoever reads it may send.
    pub fn always() -> Self {
        Self::until(i64::MAX)
    }

    fn until(until_boot_ms: i64) -> Self {
        Self(Arc::new(Mutex::new(Permission { until_boot_ms, withdrawn: false })))
    }

    /// The log proved at `deadline_boot_ms` minus the session time-out that the partitions are ours. Never shortens, and counts
    /// for nothing while the permission is withdrawn.
    pub fn extend(&self, deadline_boot_ms: i64) {
        let mut permission = self.lock();
        if !permission.withdrawn {
            permission.until_boot_ms = permission.until_boot_ms.max(deadline_boot_ms);
        }
    }

    /// The log said that nothing is ours any more. A new membership may prove something else at once; but what the events did not
    /// take away yet is still in somebody's hands, so no proof counts before [`SendPermission::restore`].
    pub fn withdraw(&self) {
        *self.lock() = Permission { until_boot_ms: i64::MIN, withdrawn: true };
    }

    /// Whoever reads the events has dropped what was lost: from the next proof on requests may be started again.
    pub fn restore(&self) {
        self.lock().withdrawn = false;
    }

    /// Whether a request may be started now.
    pub fn allows(&self, now_boot_ms: i64) -> bool {
        now_boot_ms < self.lock().until_boot_ms
    }

    fn lock(&self) -> MutexGuard<'_, Permission> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a lease is held still, by the boot clock.
pub type StillHeld = Arc<dyn Fn() -> bool + Send + Sync>;

/// The answer to whoever holds his lease no more.
pub fn lease_is_over() -> StoreError {
    StoreError::Fenced("the lease is over".to_owned())
}

/// The log as a whole.
pub trait EventLog: Send + Sync {
    /// Appends source records: all of them, durable when the future is ready, or none.
    /// Returns their positions, in order.
    fn append(&self, records: Vec<NewRecord>) -> BoxFuture<'_, StoreResult<Vec<SourcePosition>>>;

    /// The number of partitions of the transfer log: fixed when it is created.
    fn partitions(&self) -> u32;

    /// Which creation of the transfer log this is.
    fn incarnation(&self) -> u32;

    /// Opens a group's place in the source stream.
    fn source(&self, group: &str, limits: BatchLimits)
    -> BoxFuture<'_, StoreResult<Arc<dyn SourceConsumer>>>;

    /// Opens a group's place in the transfer log.
    fn transfers(
        &self,
        group: &str,
        limits: BatchLimits,
    ) -> BoxFuture<'_, StoreResult<Arc<dyn TransferConsumer>>>;

    /// Appends transfers that are no part of ingest, each to the partition of its client, in order: all of them, durable when the
    /// future is ready, or none. `Refused` when the log will never take one of them.
    fn append_transfers(&self, transfers: Vec<NewTransfer>) -> BoxFuture<'_, StoreResult<()>>;

    /// The same for whoever does it under a lease: nothing is written when he holds it no more, which is asked as late as the log can. `Fenced`
    /// then.
    fn append_transfers_while(
        &self,
        transfers: Vec<NewTransfer>,
        held: StillHeld,
    ) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async move {
            match held() {
                true => self.append_transfers(transfers).await,
                false => Err(lease_is_over()),
            }
        })
    }

    /// Keeps dead letters that are no part of a batch: of transfers that the stash will never take.
    fn keep_dead(&self, letters: Vec<DeadLetter>) -> BoxFuture<'_, StoreResult<()>>;

    /// Dead letters with an id above `after`, oldest first, at most `limit`.
    fn dead_letters(&self, after: i64, limit: usize) -> BoxFuture<'_, StoreResult<Vec<(i64, DeadLetter)>>>;
}

/// A group's place in the source stream.
pub trait SourceConsumer: Send + Sync {
    /// The next records in order, at least one: waits for them. Cancel-safe: a batch that was not
    /// received is handed out again. `Unavailable` may be asked again. `Fenced`: this consumer has ended, open another.
    fn next(&self) -> BoxFuture<'_, StoreResult<Vec<SourceRecord>>>;

    /// Writes what was made of the records together with their offsets: one transaction.
    /// An error wrote nothing; `rewind` before the next `next`.
    fn commit(&self, work: IngestWork) -> BoxFuture<'_, StoreResult<()>>;

    /// Goes back to the committed offsets.
    fn rewind(&self) -> BoxFuture<'_, StoreResult<()>>;

    /// How far this group is behind.
    fn lag(&self) -> BoxFuture<'_, StoreResult<Lag>>;
}

/// Says that a revoked partition is left: nothing of it is sent any more, and what is settled is committed. Dropping it says so too.
pub struct Left(#[expect(dead_code, reason = "its drop is what tells")] Box<dyn Send>);

impl Left {
    /// Dropping this drops `guard`, which somebody waits for.
    pub fn new(guard: impl Send + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl std::fmt::Debug for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Left")
    }
}

/// What happens to a consumer of the transfer log.
#[derive(Debug)]
pub enum TransferEvent {
    /// These partitions are ours now, each from its committed offset on. Comes before their first batch. What was ours of them
    /// before begins anew.
    Assigned(BTreeMap<u32, i64>),
    /// These partitions go to another member of the group: stop sending, wait for what is on the wire, commit what is settled, then
    /// drop `left`. The other gets them then, or after a time that the log bounds.
    Revoked {
        /// Which.
        partitions: BTreeSet<u32>,
        /// Held as long as they are still used.
        left: Left,
    },
    /// These partitions are another's already: drop what is in hand, commit nothing.
    Lost(BTreeSet<u32>),
    /// Records of one partition, in order.
    Batch {
        /// Of which partition.
        partition: u32,
        /// At least one.
        transfers: Vec<Arc<Transfer>>,
    },
}

/// A group's place in the transfer log.
pub trait TransferConsumer: Send + Sync {
    /// What happens next. Cancel-safe. `Unavailable` may be asked again. `Fenced`: this consumer has ended, open another.
    fn next(&self) -> BoxFuture<'_, StoreResult<TransferEvent>>;

    /// Commits the next offsets to read, by partition. What was lost since, also if it came again, is not committed by it: an offset
    /// counts by the assignment that was handed out last when this was called.
    fn commit(&self, offsets: BTreeMap<u32, i64>) -> BoxFuture<'_, StoreResult<()>>;

    /// No batches of this partition until it is resumed.
    fn pause(&self, partition: u32);

    /// Goes on with a paused partition.
    fn resume(&self, partition: u32);

    /// Until when requests may be started for its partitions.
    fn permission(&self) -> SendPermission;

    /// How far this group is behind.
    fn lag(&self) -> BoxFuture<'_, StoreResult<Lag>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_counts_again_when_the_loss_is_known() {
        let permission = SendPermission::none();
        assert!(!permission.allows(i64::MIN));
        permission.extend(10);
        permission.extend(5);
        assert!(permission.allows(9) && !permission.allows(10));
        permission.withdraw();
        permission.extend(20);
        assert!(!permission.allows(9), "somebody may still hold what was lost");
        permission.restore();
        assert!(!permission.allows(9));
        permission.extend(20);
        assert!(permission.allows(19));
        assert!(SendPermission::always().allows(i64::MAX - 1));
    }
}
