//! The broker's side of a consumer group: who is a member, and who has which partition. Its time is the broker's.

use std::collections::{BTreeMap, BTreeSet};

/// A member that was not heard of for so long is none any more.
pub(crate) const SESSION_MS: i64 = 10_000;

/// A member that does not let go of a partition for so long is none any more.
const REBALANCE_MS: i64 = 120_000;

#[derive(Default)]
pub(crate) struct Group {
    next: u64,
    members: BTreeMap<u64, Member>,
    owners: Vec<Option<u64>>,
    /// Changes when somebody comes or goes: who gets what changes with it.
    rotation: u64,
}

struct Member {
    heard_ms: i64,
    /// What it was told to let go of, and when.
    revoked: BTreeMap<u32, i64>,
}

/// What a member says of itself.
#[derive(Default, Clone)]
pub(crate) struct Says {
    /// What it has.
    pub(crate) has: BTreeSet<u32>,
    /// What it is about to let go of.
    pub(crate) leaving: BTreeSet<u32>,
    /// What it let go of.
    pub(crate) released: BTreeSet<u32>,
}

/// What a member is told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) granted: BTreeSet<u32>,
    pub(crate) revoked: BTreeSet<u32>,
}

impl Group {
    pub(crate) fn new(partitions: u32) -> Self {
        Self { owners: vec![None; partitions as usize], ..Self::default() }
    }

    pub(crate) fn owner(&self, partition: u32) -> Option<u64> {
        self.owners[partition as usize]
    }

    pub(crate) fn join(&mut self, now_ms: i64) -> u64 {
        self.next += 1;
        let member = Member { heard_ms: now_ms, revoked: BTreeMap::new() };
        self.members.insert(self.next, member);
        self.rotation += 1;
        self.next
    }

    pub(crate) fn leave(&mut self, member: u64) {
        if self.members.remove(&member).is_some() {
            self.rotation += 1;
            self.owners.iter_mut().filter(|owner| **owner == Some(member)).for_each(|owner| *owner = None);
        }
    }

    /// A sign of life; false: it is no member.
    pub(crate) fn hear(&mut self, member: u64, now_ms: i64) -> bool {
        self.expire(now_ms);
        let Some(known) = self.members.get_mut(&member) else { return false };
        known.heard_ms = now_ms;
        true
    }

    /// A sign of life that says where the member stands; `None`: it is no member.
    pub(crate) fn heartbeat(&mut self, member: u64, says: &Says, now_ms: i64) -> Option<Told> {
        if !self.hear(member, now_ms) {
            return None;
        }
        let known = self.members.get_mut(&member)?;
        for partition in &says.released {
            if known.revoked.remove(partition).is_some() {
                self.owners[*partition as usize] = None;
            }
        }
        let mut told = Told::default();
        for partition in 0..self.owners.len() as u32 {
            let wanted = self.wanted(partition);
            let owner = &mut self.owners[partition as usize];
            *owner = owner.or(wanted);
            let Some(known) = self.members.get_mut(&member).filter(|_| *owner == Some(member)) else {
                continue;
            };
            if says.has.contains(&partition) {
                if wanted != Some(member) {
                    known.revoked.entry(partition).or_insert(now_ms);
                    told.revoked.insert(partition);
                }
            } else if !says.leaving.contains(&partition) && !known.revoked.contains_key(&partition) {
                told.granted.insert(partition);
            }
        }
        Some(told)
    }

    /// Who should have a partition.
    fn wanted(&self, partition: u32) -> Option<u64> {
        let count = self.members.len() as u64;
        let index = (u64::from(partition) + self.rotation) % count.max(1);
        self.members.keys().nth(index as usize).copied()
    }

    fn expire(&mut self, now_ms: i64) {
        let over = |member: &Member| {
            member.heard_ms + SESSION_MS <= now_ms
                || member.revoked.values().any(|since| since + REBALANCE_MS <= now_ms)
        };
        let over: Vec<_> =
            self.members.iter().filter(|(_, member)| over(member)).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|member| self.leave(member));
    }
}
