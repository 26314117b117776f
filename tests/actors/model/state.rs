//! The state of the small world.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use dispatcher::domain::commit_window::CommitWindow;
use dispatcher::domain::config::ClientId;
use dispatcher::domain::stash::{Claim, NewRow, Place, StashWrite};
use dispatcher::domain::transfer::{
    DocumentHash, EventId, NewTransfer, Sequence, SourcePosition, Transfer, TransferKind,
};
use dispatcher::ports::stash::{Ownership, StashBatch};

use super::Law;
use crate::memory::log::INCARNATION;
use crate::memory::stash::StashData;

/// Versions of the document.
pub(super) const VERSIONS: usize = 3;

/// What may still go wrong, and what may be done at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Trouble {
    pub(super) failures: u8,
    pub(super) rebalances: u8,
    pub(super) crashes: u8,
    pub(super) expiries: u8,
    pub(super) spills: bool,
    pub(super) insurance: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) trouble: Trouble,
    pub(super) committed: u8,
    /// To whom the group gives the partition.
    pub(super) owner: u8,
    pub(super) epoch: u8,
    /// In the order in which they were written.
    pub(super) rows: [Option<Row>; VERSIONS],
    pub(super) lease: Option<Lease>,
    pub(super) replicas: [Replica; 2],
    /// Which versions the receiver got, and the last.
    pub(super) got: u8,
    pub(super) last: Option<u8>,
    pub(super) turned_round: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Row {
    pub(super) version: u8,
    /// The epoch of whom it is in flight with.
    pub(super) claim: Option<u8>,
}

/// The drain lease beside the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    pub(super) holder: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Replica {
    pub(super) hold: Hold,
    pub(super) epoch: u8,
    /// Whether there may be rows: the stash is asked then.
    pub(super) rows: bool,
    pub(super) records: [Record; VERSIONS],
    /// It thinks that it holds the drain lease.
    pub(super) drains: bool,
    pub(super) drain: Drain,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) enum Hold {
    #[default]
    None,
    /// It was given the partition, and did nothing yet.
    Given,
    /// It did the first of the two: raise the epoch, and look who has rows.
    Half,
    Ours,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) enum Record {
    #[default]
    Unread,
    Queued,
    /// To be sent.
    Cleared,
    /// To be written to the stash.
    ToStash,
    /// On the wire, and it has a row.
    Insured,
    /// Its row is to be deleted.
    InsuredDelivered,
    /// Its row is to be let go of.
    InsuredFailed,
    Settled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) enum Drain {
    #[default]
    Idle,
    Picked(u8),
    Sent(u8),
}

pub(super) static CLIENT: LazyLock<ClientId> = LazyLock::new(|| ClientId::new("a"));

static TRANSFERS: LazyLock<Vec<Arc<Transfer>>> = LazyLock::new(|| {
    let transfer = |offset: i64| {
        let content = NewTransfer {
            client: CLIENT.clone(),
            document: "test.things:1".into(),
            document_hash: DocumentHash([1; 16]),
            event_id: EventId::from_stored(&format!("evt_{offset}")),
            kind: TransferKind::Live,
            source: SourcePosition { topic: "t".into(), partition: 0, offset },
            traceparent: None,
            ts_ms: 0,
            body: Bytes::new(),
        };
        Arc::new(Transfer { sequence: Sequence { incarnation: INCARNATION, partition: 0, offset }, content })
    };
    (0..VERSIONS as i64).map(transfer).collect()
});

pub(super) fn transfer(version: u8) -> Arc<Transfer> {
    TRANSFERS[usize::from(version)].clone()
}

fn ownership(epoch: u8) -> Ownership {
    Ownership { incarnation: INCARNATION, partition: 0, epoch: i64::from(epoch) }
}

/// The lives of different owners have different claims.
fn claim(epoch: u8) -> Claim {
    Claim(u64::from(epoch))
}

/// Tokens of holders: one each is enough, for nobody takes the lease twice in between.
fn token(replica: u8) -> i64 {
    i64::from(replica) + 1
}

impl State {
    pub(super) fn new(trouble: Trouble) -> Self {
        let first = Replica { hold: Hold::Given, ..Replica::default() };
        Self {
            trouble,
            committed: 0,
            owner: 0,
            epoch: 0,
            rows: [None; VERSIONS],
            lease: None,
            replicas: [first, Replica::default()],
            got: 0,
            last: None,
            turned_round: false,
        }
    }

    pub(super) fn has_rows(&self) -> bool {
        self.rows[0].is_some()
    }

    /// The receiver gets a version.
    pub(super) fn arrive(&mut self, version: u8) {
        let bit = 1 << version;
        self.turned_round |= self.got & bit == 0 && self.got >> (version + 1) != 0;
        self.got |= bit;
        self.last = Some(version);
    }

    /// Everything is settled, and nothing is under way.
    pub(super) fn is_at_rest(&self) -> bool {
        let idle = |(index, replica): (usize, &Replica)| {
            let settled = replica.records.iter().all(|record| *record == Record::Settled);
            let gone = replica.hold == Hold::None;
            replica.drain == Drain::Idle && (gone || (index == usize::from(self.owner) && settled))
        };
        self.committed as usize == VERSIONS && !self.has_rows() && self.replicas.iter().enumerate().all(idle)
    }

    /// The stash as it stands: the code that the simulation runs with.
    fn stash(&self, law: &Law) -> StashData {
        let mut stash = StashData::with(law.stash);
        let here = (INCARNATION, 0);
        // The rows are there already: whoever wrote them had the right to.
        stash.partitions.insert(here, (0, i64::from(self.committed)));
        let writes = self.rows.iter().flatten().map(|row| {
            let claim = row.claim.map(claim);
            StashWrite::Insert(NewRow { transfer: transfer(row.version), failure: None, claim })
        });
        let batch = StashBatch {
            client: CLIENT.clone(),
            ownership: ownership(0),
            lease: None,
            writes: writes.collect(),
        };
        stash.apply(&batch).unwrap();
        stash.partitions.insert(here, (i64::from(self.epoch), i64::from(self.committed)));
        if let Some(lease) = self.lease {
            stash.leases.insert(CLIENT.clone(), token(lease.holder));
        }
        stash
    }

    /// Takes the rows from the stash back.
    fn keep(&mut self, stash: &StashData) {
        let mut rows: Vec<_> = stash.rows().collect();
        rows.sort_by_key(|row| row.number);
        self.rows = [None; VERSIONS];
        for (place, row) in self.rows.iter_mut().zip(rows) {
            let claim = row.claim.map(|Claim(epoch)| epoch as u8);
            *place = Some(Row { version: row.transfer.sequence.offset as u8, claim });
        }
    }

    /// A replica writes to the stash; false: it is refused.
    pub(super) fn write(&mut self, law: &Law, replica: usize, write: StashWrite, of_drain: bool) -> bool {
        let mut stash = self.stash(law);
        let lease = Some(token(replica as u8)).filter(|_| of_drain);
        let epoch = self.replicas[replica].epoch;
        let batch =
            StashBatch { client: CLIENT.clone(), ownership: ownership(epoch), lease, writes: vec![write] };
        let written = stash.apply(&batch).is_ok();
        if written {
            self.keep(&stash);
        }
        written
    }

    /// A row for a change, claimed by the replica's life or not.
    pub(super) fn insert(&mut self, law: &Law, replica: usize, version: u8, claimed: bool) -> bool {
        let epoch = self.replicas[replica].epoch;
        let claim = claimed.then(|| claim(epoch));
        let row = NewRow { transfer: transfer(version), failure: None, claim };
        self.write(law, replica, StashWrite::Insert(row), false)
    }

    /// Where a change belongs.
    pub(super) fn place(&self, law: &Law, version: u8) -> Place {
        let transfer = transfer(version);
        let (document, event) = (transfer.document_hash, transfer.event_id.clone());
        let check = self.stash(law).check(&CLIENT, &[document], std::slice::from_ref(&event));
        check.place(&document, &event)
    }

    /// The row that the drain of a replica takes next.
    pub(super) fn next_row(&self, law: &Law, replica: usize) -> Option<u8> {
        let claim = claim(self.replicas[replica].epoch);
        let rows = self.stash(law).drainable(&CLIENT, None, (1, claim), 10, 1_000).rows;
        rows.first().map(|row| row.transfer.sequence.offset as u8)
    }

    /// Whether a replica gets the drain lease.
    pub(super) fn gets_lease(&self, law: &Law, replica: usize) -> bool {
        let epoch = self.replicas[replica].epoch;
        self.stash(law).lease(&CLIENT, ownership(epoch), None).is_ok()
    }

    /// Up to where a replica would commit.
    pub(super) fn settled(&self, replica: usize) -> u8 {
        let mut window = CommitWindow::default();
        let records = &self.replicas[replica].records;
        for (version, record) in records.iter().enumerate().skip(usize::from(self.committed)) {
            if *record == Record::Unread {
                break;
            }
            window.received(version as i64);
            if matches!(
                record,
                Record::Settled | Record::Insured | Record::InsuredDelivered | Record::InsuredFailed
            ) {
                window.settle(version as i64);
            }
        }
        window.advance().map_or(self.committed, |next| next as u8)
    }
}
