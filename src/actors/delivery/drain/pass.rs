//! What the drain is doing: its lease, and the pass from the oldest row to the newest.

use std::collections::HashSet;

use tokio::time::Instant;

use super::{RECHECK, VAIN_PAGES};
use crate::actors::delivery::lanes::LaneKey;
use crate::actors::delivery::permission::HeldLease;
use crate::domain::transfer::Sequence;

/// What the drain is doing.
pub(in crate::actors::delivery) struct Drain {
    pub(super) lease: Option<HeldLease>,
    pub(super) pass: Pass,
    /// A question to the store is under way.
    pub(super) asking: bool,
    /// Rises when a pass is given up: an answer for an earlier one is nobody's.
    pub(super) generation: u64,
    /// Rows were written since the pass began.
    pub(super) appended: bool,
    /// No pass begins before: the one before read very much in vain.
    pub(super) rest_until: Instant,
    /// The memory for rows was given out to others: one row at a time until there is some.
    pub(super) starved: bool,
    /// The store did not answer the last question: said once.
    pub(super) store_is_away: bool,
    /// The next pass sends what may not be attempted yet, too.
    pub(super) all_at_once: bool,
    /// Passes since the last success that found nothing but documents that had had their turn, and were given up.
    pub(super) vain_passes: u32,
}

/// How many lanes a pass may leave out. A webhook that refuses everything has as many as it has documents.
const BLOCKED: usize = 10_000;

pub(super) enum Pass {
    /// The next one begins then.
    Due(Instant),
    Running {
        /// When it began, milliseconds since 1970, or the end of time. What may not be attempted yet then stays out of the whole pass: its older
        /// rows were passed over.
        as_of_ms: i64,
        /// The last row that was read.
        after: Option<Sequence>,
        /// Lanes of which a row failed, or came into the stash's hands again, in this pass: their next rows wait for the next one.
        blocked: HashSet<LaneKey>,
        /// Something was sent.
        sent: bool,
        /// Pages that held nothing but rows of documents that had had their turn.
        vain_pages: u32,
        /// All rows were read.
        exhausted: bool,
    },
}

impl Pass {
    /// A pass that begins now.
    pub(super) fn begin(as_of_ms: i64) -> Self {
        let blocked = HashSet::new();
        Self::Running { as_of_ms, after: None, blocked, sent: false, vain_pages: 0, exhausted: false }
    }

    /// Whether it remembers so many lanes that it is better to begin anew: each holds memory. What failed has a later time by then, and is
    /// left out of the next pass.
    pub(super) fn remembers_too_much(&self) -> bool {
        matches!(self, Self::Running { blocked, .. } if blocked.len() >= BLOCKED)
    }
}

/// Whether the drain lease still lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::actors::delivery) enum Lease {
    Held,
    Expired,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            lease: None,
            pass: Pass::Due(Instant::now()),
            asking: false,
            generation: 0,
            appended: false,
            rest_until: Instant::now(),
            starved: false,
            store_is_away: false,
            all_at_once: false,
            vain_passes: 0,
        }
    }
}

impl Drain {
    /// When the next pass begins; `None`: one runs.
    pub(super) fn next_pass(&self) -> Option<Instant> {
        match self.pass {
            Pass::Due(at) => Some(at.max(self.rest_until)),
            Pass::Running { .. } => None,
        }
    }

    /// Gives the pass up: the next one reads from the oldest row again.
    pub(in crate::actors::delivery) fn begin_anew(&mut self) {
        self.generation += 1;
        self.pass = Pass::Due(Instant::now());
    }

    /// The webhook is another, or somebody asks: what was refused before need not wait until its time has come.
    pub(in crate::actors::delivery) fn all_at_once(&mut self) {
        self.all_at_once = true;
        self.rest_until = Instant::now();
        if let Pass::Due(at) = &mut self.pass {
            *at = (*at).min(Instant::now());
        }
    }

    /// The webhook is another, or lives.
    pub(in crate::actors::delivery) fn webhook_is_news(&mut self) {
        self.vain_passes = 0;
    }

    /// How many pages in vain a pass may read: each that was given up lets the next go twice as far, up to a bound, for it may be one document
    /// alone that fails, with very many changes.
    pub(super) fn may_read_in_vain(&self) -> u32 {
        const DOUBLED: u32 = 6;
        VAIN_PAGES << self.vain_passes.min(DOUBLED)
    }

    /// The webhook was tried, and fails: what waits keeps to its time.
    pub(in crate::actors::delivery) fn each_in_its_time(&mut self) {
        self.all_at_once = false;
    }

    /// Rows were written, or have another time.
    pub(in crate::actors::delivery) fn appended(&mut self) {
        self.appended = true;
        if let Pass::Due(at) = &mut self.pass {
            *at = (*at).min(Instant::now() + RECHECK);
        }
    }

    /// A row failed, or is in nobody's hands any more: the rest of its lane waits for the next pass, which reads it from the
    /// oldest row on.
    pub(in crate::actors::delivery) fn block(&mut self, lane: LaneKey) {
        if let Pass::Running { blocked, .. } = &mut self.pass {
            blocked.insert(lane);
        }
    }

    /// Whether a question to the store is under way, which may bring a lease.
    pub(in crate::actors::delivery) fn is_asking(&self) -> bool {
        self.asking
    }

    /// The token that writes about rows name.
    pub(in crate::actors::delivery) fn lease_token(&self) -> Option<i64> {
        self.lease.map(|held| held.lease.token)
    }

    /// The lease under which rows are sent.
    pub(in crate::actors::delivery) fn held_lease(&self) -> Option<HeldLease> {
        self.lease
    }

    /// Whether a row may be sent now.
    pub(in crate::actors::delivery) fn lease(&self, now_boot_ms: i64) -> Lease {
        match self.lease {
            Some(held) if now_boot_ms < held.until_boot_ms => Lease::Held,
            _ => Lease::Expired,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::transfer::DocumentHash;

    #[test]
    fn a_pass_that_leaves_very_much_out_is_given_up() {
        let mut drain = Drain { pass: Pass::begin(0), ..Drain::default() };
        let block = |drain: &mut Drain, number: u128| {
            drain.block(LaneKey::Document(DocumentHash(number.to_be_bytes())));
        };
        (1..BLOCKED as u128).for_each(|number| block(&mut drain, number));
        block(&mut drain, 1);
        assert!(!drain.pass.remembers_too_much());
        block(&mut drain, 0);
        assert!(drain.pass.remembers_too_much());
        drain.begin_anew();
        assert!(!drain.pass.remembers_too_much() && drain.next_pass() <= Some(Instant::now()));
    }

    #[test]
    fn each_pass_in_vain_lets_the_next_go_further_up_to_a_bound() {
        let mut drain = Drain::default();
        let mut pages = Vec::new();
        for _ in 0..10 {
            pages.push(drain.may_read_in_vain());
            drain.vain_passes += 1;
        }
        assert_eq!(pages[..4], [20, 40, 80, 160]);
        assert_eq!(pages[9], 1_280);
        drain.webhook_is_news();
        assert_eq!(drain.may_read_in_vain(), 20);
    }
}
