//! What may happen next.

use dispatcher::domain::delivery::FailureClass;
use dispatcher::domain::stash::{Place, RowFailure, StashWrite};

use super::Law;
use super::state::{Drain, Hold, Lease, Record, Replica, State, VERSIONS, transfer};

const NAMES: [&str; 2] = ["A", "B"];

/// All states that may follow, each with what leads to it.
pub(super) fn steps(state: &State, law: &Law) -> Vec<(String, State)> {
    let mut steps = Steps { state, law, found: Vec::new() };
    for replica in 0..2 {
        steps.take_over(replica);
        if state.replicas[replica].hold == Hold::Ours {
            steps.records(replica);
        }
        steps.drain(replica);
        steps.faults(replica);
    }
    if state.trouble.expiries > 0 && state.lease.is_some() {
        steps.add("the lease expires while its holder sleeps".to_owned(), |next| {
            next.trouble.expiries -= 1;
            next.lease = None;
        });
    }
    steps.found
}

struct Steps<'a> {
    state: &'a State,
    law: &'a Law,
    found: Vec<(String, State)>,
}

/// Everything in hand is dropped.
fn drop_all(replica: &mut Replica) {
    *replica = Replica { drains: replica.drains, drain: replica.drain, ..Replica::default() };
}

impl Steps<'_> {
    fn add(&mut self, what: String, change: impl FnOnce(&mut State)) {
        let mut next = *self.state;
        change(&mut next);
        self.found.push((what, next));
    }

    fn is_owner(&self, replica: usize) -> bool {
        usize::from(self.state.owner) == replica
    }

    /// Whether a request may start.
    fn may_send(&self, replica: usize) -> bool {
        !self.law.permission || self.is_owner(replica)
    }

    /// A partition is taken over in two steps.
    fn take_over(&mut self, replica: usize) {
        let (name, hold) = (NAMES[replica], self.state.replicas[replica].hold);
        let (half, raise) = match hold {
            Hold::Given => (Hold::Half, self.law.epoch_first),
            Hold::Half => (Hold::Ours, !self.law.epoch_first),
            Hold::None | Hold::Ours => return,
        };
        if raise {
            self.add(format!("{name} raises the epoch"), |next| {
                next.epoch += 1;
                next.replicas[replica].epoch = next.epoch;
                next.replicas[replica].hold = half;
            });
        } else {
            let rows = self.state.has_rows();
            self.add(format!("{name} looks who has rows: {rows}"), |next| {
                next.replicas[replica].rows = rows;
                next.replicas[replica].hold = half;
            });
        }
    }

    fn records(&mut self, replica: usize) {
        let (name, mine) = (NAMES[replica], self.state.replicas[replica]);
        let next_unread = mine.records.iter().position(|record| *record == Record::Unread);
        if let Some(version) = next_unread.filter(|_| self.is_owner(replica)) {
            self.add(format!("{name} reads v{version}"), |next| {
                next.replicas[replica].records[version] = Record::Queued;
            });
        }
        for version in 0..VERSIONS {
            let is_head = mine.records[..version].iter().all(|record| *record == Record::Settled);
            self.record(replica, version as u8, is_head);
        }
        let refused = self.law.stash.fence && mine.epoch != self.state.epoch;
        if self.is_owner(replica) && refused && self.state.has_rows() {
            self.add(format!("{name} is refused the lease, and takes the partition again"), |next| {
                give(next, replica);
            });
        }
        let settled = self.state.settled(replica);
        if self.is_owner(replica) && settled > self.state.committed {
            self.add(format!("{name} commits {settled}"), |next| next.committed = settled);
        }
        if !self.is_owner(replica) {
            self.add(format!("{name} learns that it lost the partition"), |next| {
                drop_all(&mut next.replicas[replica]);
            });
        }
    }

    fn record(&mut self, replica: usize, version: u8, is_head: bool) {
        let (name, law, at) = (NAMES[replica], *self.law, usize::from(version));
        let mine = self.state.replicas[replica];
        let is = |next: &mut State, record| next.replicas[replica].records[at] = record;
        match mine.records[at] {
            Record::Queued if is_head => {
                // Without rows the stash is not asked.
                let place = match mine.rows {
                    true => self.state.place(&law, version),
                    false => Place::Free { supersedes: false },
                };
                let becomes = match place {
                    Place::HasRow => Record::Settled,
                    Place::Behind => Record::ToStash,
                    Place::Free { .. } => Record::Cleared,
                };
                self.add(format!("{name} asks where v{version} belongs: {place:?}"), |next| {
                    is(next, becomes)
                });
            }
            Record::Queued if self.state.trouble.spills => {
                self.add(format!("{name} has no room: spills v{version}"), |next| is(next, Record::ToStash));
            }
            Record::ToStash => self.stash(replica, version, false),
            Record::Cleared => {
                if self.state.trouble.insurance {
                    self.stash(replica, version, true);
                }
                self.post(replica, version, Record::Settled, Record::ToStash);
            }
            Record::Insured => {
                self.post(replica, version, Record::InsuredDelivered, Record::InsuredFailed);
            }
            Record::InsuredDelivered => {
                self.add(format!("{name} deletes the row of v{version}"), |next| {
                    let write = StashWrite::Delivered { transfer: transfer(version) };
                    next.write(&law, replica, write, false);
                    is(next, Record::Settled);
                });
            }
            Record::InsuredFailed => {
                self.add(format!("{name} lets go of the row of v{version}"), |next| {
                    next.write(&law, replica, failed(version), false);
                    is(next, Record::Settled);
                });
            }
            Record::Unread | Record::Queued | Record::Settled => {}
        }
    }

    /// A change gets a row. Whose write is refused drops all; if the group goes on giving it the partition, it takes it again.
    fn stash(&mut self, replica: usize, version: u8, insured: bool) {
        let (name, law) = (NAMES[replica], *self.law);
        let mut next = *self.state;
        next.replicas[replica].rows = true;
        let written = next.insert(&law, replica, version, insured);
        if written {
            let record = if insured { Record::Insured } else { Record::Settled };
            next.replicas[replica].records[usize::from(version)] = record;
        } else if self.is_owner(replica) {
            give(&mut next, replica);
        } else {
            drop_all(&mut next.replicas[replica]);
        }
        self.found.push((format!("{name} writes a row of v{version}, insured {insured}: {written}"), next));
    }

    fn post(&mut self, replica: usize, version: u8, delivered: Record, failed: Record) {
        let (name, at) = (NAMES[replica], usize::from(version));
        if !self.may_send(replica) {
            self.add(format!("{name} may not send v{version}, drops all"), |next| {
                drop_all(&mut next.replicas[replica]);
            });
            return;
        }
        self.add(format!("{name} sends v{version}: 200"), |next| {
            next.arrive(version);
            next.replicas[replica].records[at] = delivered;
        });
        if self.state.trouble.failures > 0 {
            self.add(format!("{name} sends v{version}: 500"), |next| {
                next.trouble.failures -= 1;
                next.replicas[replica].records[at] = failed;
            });
        }
    }

    /// Whether the lease of a replica still holds.
    fn holds_lease(&self, replica: usize) -> bool {
        self.state.lease.is_some_and(|lease| usize::from(lease.holder) == replica)
    }

    fn drain(&mut self, replica: usize) {
        let (name, law, mine) = (NAMES[replica], *self.law, self.state.replicas[replica]);
        let may = self.may_send(replica) && (!law.lease || self.holds_lease(replica));
        let stops = |next: &mut State| {
            next.replicas[replica].drains = false;
            next.replicas[replica].drain = Drain::Idle;
        };
        if !mine.drains {
            let wants = mine.hold == Hold::Ours && mine.rows && self.state.has_rows();
            if wants && (!law.lease || self.state.gets_lease(&law, replica)) {
                self.add(format!("{name} takes the drain lease"), |next| {
                    next.lease = Some(Lease { holder: replica as u8 });
                    next.replicas[replica].drains = true;
                });
            }
            return;
        }
        match mine.drain {
            Drain::Idle if mine.hold != Hold::Ours || !self.state.has_rows() || !may => {
                let holds = self.holds_lease(replica);
                self.add(format!("{name} ends its drain"), |next| {
                    if holds {
                        next.lease = None;
                    }
                    stops(next);
                });
            }
            Drain::Idle => {
                if let Some(version) = self.state.next_row(&law, replica) {
                    self.add(format!("{name} takes the row of v{version}"), |next| {
                        next.replicas[replica].drain = Drain::Picked(version);
                    });
                }
            }
            Drain::Picked(_) if !may => {
                self.add(format!("{name} may not send its row"), |next| {
                    next.replicas[replica].drain = Drain::Idle;
                });
            }
            Drain::Picked(version) => {
                self.add(format!("{name} sends the row of v{version}: 200"), |next| {
                    next.arrive(version);
                    next.replicas[replica].drain = Drain::Sent(version);
                });
                if self.state.trouble.failures > 0 {
                    self.add(format!("{name} sends the row of v{version}: 500"), |next| {
                        next.trouble.failures -= 1;
                        next.replicas[replica].drain = Drain::Idle;
                    });
                }
            }
            Drain::Sent(version) => {
                self.add(format!("{name} deletes the row of v{version}"), |next| {
                    let write = StashWrite::Delivered { transfer: transfer(version) };
                    next.write(&law, replica, write, law.lease);
                    next.replicas[replica].drain = Drain::Idle;
                });
            }
        }
    }

    fn faults(&mut self, replica: usize) {
        let name = NAMES[replica];
        if self.state.trouble.rebalances > 0 && !self.is_owner(replica) {
            self.add(format!("the partition goes to {name}; the other does not know"), |next| {
                next.trouble.rebalances -= 1;
                give(next, replica);
            });
        }
        if self.state.trouble.crashes == 0 {
            return;
        }
        let was_owner = self.is_owner(replica);
        for (heir, heir_name) in NAMES.iter().enumerate() {
            if !was_owner && heir != usize::from(self.state.owner) {
                continue;
            }
            self.add(format!("{name} crashes; the partition is {heir_name}'s"), |next| {
                next.trouble.crashes -= 1;
                next.replicas[replica] = Replica::default();
                // What it held expires in time.
                next.lease = next.lease.filter(|lease| usize::from(lease.holder) != replica);
                if was_owner {
                    give(next, heir);
                }
            });
        }
    }
}

/// The group gives the partition to a replica, from the committed offset on.
fn give(next: &mut State, replica: usize) {
    next.owner = replica as u8;
    let committed = usize::from(next.committed);
    let mine = &mut next.replicas[replica];
    drop_all(mine);
    mine.hold = Hold::Given;
    mine.records[..committed].fill(Record::Settled);
}

fn failed(version: u8) -> StashWrite {
    let failure = RowFailure {
        class: FailureClass::Endpoint,
        reason: "status_500".to_owned(),
        status: Some(500),
        next_attempt_at_ms: 1,
    };
    StashWrite::Failed { event_id: transfer(version).event_id.clone(), failure }
}
