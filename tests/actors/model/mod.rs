//! All histories of one small world: one document in three versions, two replicas, one partition. Every process may be slow at any
//! point for as long as it likes: that is what a SIGSTOP, or a link that is cut, looks like. A request is one step: what a receiver
//! does with one that is on its way is out of any sender's reach.
//!
//! What decides is the code itself: the window of a partition, the places of changes behind rows, and the stash with its epochs,
//! its drain leases and its order. Each rule that is left out alone breaks the order: the shortest history that shows it is found.

mod explore;
mod state;
mod steps;

use self::explore::{Found, explore};
use self::state::Trouble;
use crate::memory::stash::Rules;

/// What holds the order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Law {
    stash: Rules,
    /// A replica sends only while the group gives it the partition.
    permission: bool,
    /// A row is sent only under a lease that holds.
    lease: bool,
    /// Whoever takes a partition raises the epoch before it looks who has rows.
    epoch_first: bool,
}

const ALL: Law = Law {
    stash: Rules { fence: true, below_commit: true, log_order: true, rows_win: true, claims: true },
    permission: true,
    lease: true,
    epoch_first: true,
};

const TROUBLE: Trouble =
    Trouble { failures: 1, rebalances: 1, crashes: 0, expiries: 0, spills: true, insurance: false };

#[track_caller]
fn holds(law: Law, trouble: Trouble) {
    match explore(law, trouble) {
        Found::Nothing { states } => assert!(states > 1_000, "{states}"),
        Found::Wrong { what, story } => panic!("{what}: {story:#?}"),
    }
}

#[track_caller]
fn breaks(law: Law, trouble: Trouble, expected: &str) {
    match explore(law, trouble) {
        Found::Nothing { states } => panic!("it holds in {states} states without the rule"),
        Found::Wrong { what, story } => assert_eq!(what, expected, "{story:#?}"),
    }
}

#[test]
fn with_all_rules_nothing_is_lost_turned_round_or_stale() {
    holds(ALL, TROUBLE);
    holds(ALL, Trouble { failures: 2, rebalances: 0, crashes: 1, ..TROUBLE });
    holds(ALL, Trouble { spills: false, crashes: 1, ..TROUBLE });
}

#[test]
fn with_all_rules_slow_requests_may_have_rows() {
    holds(ALL, Trouble { spills: false, insurance: true, ..TROUBLE });
    holds(ALL, Trouble { spills: false, rebalances: 0, crashes: 1, insurance: true, ..TROUBLE });
}

#[test]
fn with_all_rules_leases_may_expire_while_their_holder_sleeps() {
    holds(ALL, Trouble { failures: 0, expiries: 1, ..TROUBLE });
}

#[test]
fn without_the_committed_offset_a_row_overtakes_memory() {
    let law = Law { stash: Rules { below_commit: false, ..ALL.stash }, ..ALL };
    breaks(law, Trouble { failures: 0, rebalances: 0, ..TROUBLE }, "turned round");
}

#[test]
fn without_the_order_of_the_log_rows_are_turned_round() {
    let law = Law { stash: Rules { log_order: false, ..ALL.stash }, ..ALL };
    breaks(law, Trouble { failures: 0, rebalances: 0, ..TROUBLE }, "turned round");
}

#[test]
fn without_the_epoch_a_former_owner_writes_a_row_that_nobody_knows_of() {
    let law = Law { stash: Rules { fence: false, ..ALL.stash }, ..ALL };
    breaks(law, Trouble { spills: false, ..TROUBLE }, "stale");
}

#[test]
fn whoever_looks_for_rows_before_the_epoch_is_raised_misses_one() {
    breaks(Law { epoch_first: false, ..ALL }, Trouble { spills: false, ..TROUBLE }, "stuck");
}

#[test]
fn without_permission_a_former_owner_sends_what_it_had_in_hand() {
    breaks(Law { permission: false, ..ALL }, Trouble { failures: 0, spills: false, ..TROUBLE }, "stale");
}

#[test]
fn without_asking_for_rows_a_change_overtakes_them() {
    let law = Law { stash: Rules { rows_win: false, ..ALL.stash }, ..ALL };
    breaks(law, Trouble { rebalances: 0, spills: false, ..TROUBLE }, "turned round");
}

#[test]
fn without_the_claim_the_row_of_a_slow_request_is_sent_too() {
    let law = Law { stash: Rules { claims: false, ..ALL.stash }, ..ALL };
    breaks(law, Trouble { failures: 0, rebalances: 0, spills: false, insurance: true, ..TROUBLE }, "stale");
}

/// The lease is the second lock on the same door: only the owner drains, and it sends only with permission.
#[test]
fn without_the_lease_a_former_owner_that_sends_without_permission_repeats_a_row() {
    let trouble = Trouble { failures: 1, ..TROUBLE };
    holds(Law { lease: false, ..ALL }, trouble);
    breaks(Law { lease: false, permission: false, ..ALL }, trouble, "stale");
}
