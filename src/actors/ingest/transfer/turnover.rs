//! Partitions come and go. Whoever is assigned one raises its epoch first, then reads who has rows, then delivers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use super::places::Assignment;
use super::{Patience, REFUSED_WAIT, Run, SEND_AGAIN};
use crate::actors::delivery_fleet::{Assigned, Leave};
use crate::actors::inbox::{Rows, Standing};
use crate::domain::config::ClientId;
use crate::domain::transfer::partition_of;
use crate::ports::StoreResult;
use crate::ports::event_log::Left;
use crate::ports::stash::Ownership;

/// How long a revoked partition is kept for the sake of what is on the wire: as long as a request may take.
const LEAVE_LIMIT: Duration = Duration::from_secs(60);

/// How long it is kept after that for its last commit.
const LAST_COMMIT_LIMIT: Duration = Duration::from_secs(5);

/// How often it is looked whether the last commit is made.
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl Run {
    /// Takes partitions over. What was ours of them before begins anew.
    pub(super) fn assigned(self: &Rc<Self>, committed: BTreeMap<u32, i64>) {
        let partitions = committed.keys().copied().collect();
        self.stage.windows.forget(&partitions);
        self.consumer.permission().restore();
        let assignment = self.places.borrow_mut().assigned(&partitions);
        let run = self.clone();
        self.chore(async move { run.take_over(assignment, committed).await });
    }

    /// Raises the epoch of each partition before anything of it is delivered. Whoever delivers by an earlier right has ended by then:
    /// what it holds is read again.
    async fn take_over(&self, assignment: Assignment, committed: BTreeMap<u32, i64>) {
        self.stage.sweep().await;
        let mut patience = Patience::new("partition ownership");
        let mut ownerships = Vec::new();
        for (partition, next) in committed {
            let Some(ownership) = self.take(assignment, partition, next, &mut patience).await else {
                continue;
            };
            ownerships.push(ownership);
        }
        let standings = loop {
            match self.standings(&ownerships).await {
                Ok(standings) => break standings,
                Err(err) => patience.after(&err).await,
            }
        };
        patience.over();
        let taken: BTreeSet<u32> = ownerships.iter().map(|ownership| ownership.partition).collect();
        log::info!("partitions assigned partitions={taken:?}");
        let assigned = Assigned { ownerships: ownerships.clone(), standings };
        while self.stage.fleet.send(assigned.clone()).await.is_err() {
            log::error!("delivery fleet is gone err=mailbox closed");
            tokio::time::sleep(SEND_AGAIN).await;
        }
        for ownership in ownerships {
            self.places.borrow_mut().open(assignment, ownership);
        }
        self.fed.notify_one();
    }

    /// Takes a partition; `None`: it was lost meanwhile.
    async fn take(
        &self,
        assignment: Assignment,
        partition: u32,
        next: i64,
        patience: &mut Patience,
    ) -> Option<Ownership> {
        while self.places.borrow().is_assigned(partition, assignment) {
            match self.stage.stash.take_ownership(self.stage.log.incarnation(), partition, next).await {
                Ok(ownership) if self.places.borrow().is_assigned(partition, assignment) => {
                    self.stage.windows.assign(ownership);
                    return Some(ownership);
                }
                Ok(_) => {}
                Err(err) => patience.after(&err).await,
            }
        }
        None
    }

    /// Who of these partitions' clients has rows, and in which state each is.
    async fn standings(&self, ownerships: &[Ownership]) -> StoreResult<Vec<(ClientId, Standing)>> {
        let ours: HashSet<u32> = ownerships.iter().map(|ownership| ownership.partition).collect();
        if ours.is_empty() {
            return Ok(Vec::new());
        }
        let mut standings: HashMap<ClientId, Standing> = HashMap::new();
        for (client, backlog) in self.stage.stash.backlogs().await? {
            let rows = Rows { pending: backlog.pending > 0, dead: backlog.dead > 0 };
            standings.entry(client).or_default().rows = rows;
        }
        for (client, state) in self.stage.states.list().await? {
            standings.entry(client).or_default().state = Some(state);
        }
        let count = self.stage.log.partitions();
        standings.retain(|client, _| ours.contains(&partition_of(client, count)));
        Ok(standings.into_iter().collect())
    }

    /// Drops what is in hand of these partitions: they are another's.
    pub(super) fn lost(self: &Rc<Self>, partitions: &BTreeSet<u32>) {
        log::warn!("partitions are lost partitions={partitions:?}");
        self.places.borrow_mut().remove(partitions);
        self.stage.windows.forget(partitions);
        self.consumer.permission().restore();
        let run = self.clone();
        self.chore(async move { run.stage.sweep().await });
    }

    /// Lets partitions go: what is on the wire ends, and is committed. The others go on meanwhile.
    pub(super) fn revoked(self: &Rc<Self>, partitions: BTreeSet<u32>, left: Left) {
        self.places.borrow_mut().remove(&partitions);
        let rights = self.stage.windows.leave(&partitions);
        let run = self.clone();
        self.chore(async move {
            run.let_go(&rights).await;
            log::info!("partitions are left partitions={partitions:?}");
            drop(left);
        });
    }

    async fn let_go(&self, rights: &[Ownership]) {
        let quiet = async {
            while self.stage.fleet.send(Leave(rights.to_vec())).await.is_err() {
                tokio::time::sleep(SEND_AGAIN).await;
            }
        };
        if tokio::time::timeout(LEAVE_LIMIT, quiet).await.is_err() {
            log::warn!("requests of revoked partitions are given up seconds={}", LEAVE_LIMIT.as_secs());
        }
        let committed = async {
            while rights.iter().any(|right| !self.stage.windows.is_committed(*right)) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        if tokio::time::timeout(LAST_COMMIT_LIMIT, committed).await.is_err() {
            log::warn!("revoked partitions are left without their last commit");
        }
        for right in rights {
            self.stage.windows.give_up(*right);
        }
        self.stage.sweep().await;
    }

    /// When the store refuses a right, somebody raised the epoch since. Mostly the log is about to say that the partition is
    /// another's; if it does not, everything begins anew, as a new member of the group: it is the group that decides who has it.
    pub(super) async fn begin_anew_when_refused(&self) {
        loop {
            self.stage.windows.refused().await;
            self.stage.sweep().await;
            tokio::time::sleep(REFUSED_WAIT).await;
            if self.stage.windows.has_refused() {
                self.stage.windows.end();
                self.stage.sweep().await;
                self.cell.restart("a partition is another's");
                std::future::pending::<()>().await;
            }
        }
    }

    fn chore(&self, chore: impl Future<Output = ()> + 'static) {
        // It is received as long as this runs.
        let _ = self.chores.send(Box::pin(chore));
    }
}
