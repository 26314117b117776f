//! The stash.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use dispatcher::domain::config::ClientId;
use dispatcher::domain::dead_row::{DeadRow, DeadRowQuery};
use dispatcher::domain::delivery::FailureClass;
use dispatcher::domain::stash::{
    Backlog, Claim, NewRow, RowFailure, RowState, StashCheck, StashPage, StashRow, StashWrite,
};
use dispatcher::domain::transfer::{DocumentHash, EventId, NewTransfer, Sequence, Transfer};
use dispatcher::ports::stash::{DrainLease, Ownership, Stash, StashBatch};
use dispatcher::ports::{BoxFuture, StoreError, StoreResult};

use super::Medium;
use super::log::INCARNATION;

/// How many rows a page leaves out: few, so that the drain of every scenario meets pages that bring nothing.
const LEFT_OUT: usize = 16;

/// How many rows are buried at once: few, so that much may happen meanwhile.
const BURIED_AT_ONCE: u64 = 3;

/// The rules of the stash. A world without one of them shows what it is good for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Writes by an epoch that has ended are refused.
    pub(crate) fence: bool,
    /// Rows are drained only below the committed offset.
    pub(crate) below_commit: bool,
    /// Rows come in the order of the log; otherwise in that in which they were written.
    pub(crate) log_order: bool,
    /// Who asks is told which documents have rows.
    pub(crate) rows_win: bool,
    /// Rows that are on the wire are not drained.
    pub(crate) claims: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { fence: true, below_commit: true, log_order: true, rows_win: true, claims: true }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Which write it was.
    pub(crate) number: u64,
    pub(crate) transfer: Arc<Transfer>,
    pub(crate) state: RowState,
    pub(crate) attempts: u32,
    pub(crate) payload_failures: u32,
    pub(crate) next_attempt_at_ms: i64,
    pub(crate) claim: Option<Claim>,
    pub(crate) reason: Option<String>,
}

#[derive(Default)]
pub(crate) struct StashData {
    pub(crate) rules: Rules,
    /// Epoch and committed offset.
    pub(crate) partitions: HashMap<(u32, u32), (i64, i64)>,
    pub(crate) rows: BTreeMap<(ClientId, Sequence), Row>,
    places: HashMap<(ClientId, EventId), Sequence>,
    /// The token of each.
    pub(crate) leases: HashMap<ClientId, i64>,
    /// Clients that nobody may drain.
    pub(crate) held_back: HashSet<ClientId>,
    /// Every row that ever was.
    pub(crate) inserted: HashSet<EventId>,
    written: u64,
    /// Every row that was given up at some time.
    pub(crate) given_up: HashSet<EventId>,
    /// Those that a newer one stood for.
    pub(crate) coalesced: HashSet<EventId>,
    /// Documents whose payloads it will never take.
    pub(crate) refuses: HashSet<DocumentHash>,
}

fn fenced<T>(why: &str) -> StoreResult<T> {
    Err(StoreError::Fenced(why.to_owned()))
}

impl StashData {
    /// An empty stash that keeps these rules.
    pub(crate) fn with(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// For people: ownership and leases.
    pub(crate) fn describe(&self) -> String {
        format!("partitions {:?} leases {:?}", self.partitions, self.leases)
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// The rows of a client, oldest first.
    pub(crate) fn rows_of<'a>(&'a self, client: &'a ClientId) -> impl Iterator<Item = &'a Row> {
        self.rows.values().filter(move |row| row.transfer.client == *client)
    }

    pub(crate) fn row(&self, event: &EventId) -> Option<&Row> {
        self.rows.values().find(|row| row.transfer.event_id == *event)
    }

    pub(crate) fn pending(&self) -> usize {
        self.rows.values().filter(|row| row.state == RowState::Pending).count()
    }

    fn owned(&self, ownership: Ownership) -> StoreResult<()> {
        if !self.rules.fence {
            return Ok(());
        }
        match self.partitions.get(&(ownership.incarnation, ownership.partition)) {
            Some((epoch, _)) if *epoch == ownership.epoch => Ok(()),
            _ => fenced("the partition is another's"),
        }
    }

    /// What can refuse a batch is looked at before anything is written.
    pub(crate) fn apply(&mut self, batch: &StashBatch) -> StoreResult<()> {
        self.owned(batch.ownership)?;
        if let Some(token) = batch.lease
            && self.leases.get(&batch.client).is_none_or(|held| *held != token)
        {
            return fenced("the drain is another's");
        }
        let refused = |write: &StashWrite| matches!(write, StashWrite::Insert(row) if self.refuses.contains(&row.transfer.document_hash));
        if batch.writes.iter().any(refused) {
            return Err(StoreError::Refused("it has a character that cannot be stored".to_owned()));
        }
        for write in &batch.writes {
            match write {
                StashWrite::Insert(row) => self.insert(row),
                StashWrite::Delivered { transfer } => self.delivered(transfer),
                StashWrite::Coalesced { transfer } => self.coalesced(transfer),
                StashWrite::Failed { event_id, failure } => {
                    self.failed(&batch.client, event_id, failure, RowState::Pending);
                }
                StashWrite::Dead { event_id, failure } => {
                    self.failed(&batch.client, event_id, failure, RowState::Dead);
                }
                StashWrite::Replay { transfer } => self.replay(transfer),
            }
        }
        Ok(())
    }

    fn find(&mut self, client: &ClientId, event: &EventId) -> Option<&mut Row> {
        let sequence = self.places.get(&(client.clone(), event.clone()))?;
        self.rows.get_mut(&(client.clone(), *sequence))
    }

    fn insert(&mut self, new: &NewRow) {
        let client = &new.transfer.client;
        if self.find(client, &new.transfer.event_id).is_some() {
            return;
        }
        self.inserted.insert(new.transfer.event_id.clone());
        self.written += 1;
        let payload = |failure: &RowFailure| u32::from(failure.class == FailureClass::Payload);
        let row = Row {
            number: self.written,
            transfer: new.transfer.clone(),
            state: RowState::Pending,
            attempts: u32::from(new.failure.is_some()),
            payload_failures: new.failure.as_ref().map_or(0, payload),
            next_attempt_at_ms: new.failure.as_ref().map_or(0, |failure| failure.next_attempt_at_ms),
            claim: new.claim,
            reason: new.failure.as_ref().map(|failure| failure.reason.clone()),
        };
        self.put(row);
    }

    /// Puts a row in.
    pub(super) fn put(&mut self, row: Row) {
        let (client, event) = (row.transfer.client.clone(), row.transfer.event_id.clone());
        self.places.insert((client.clone(), event), row.transfer.sequence);
        self.rows.insert((client, row.transfer.sequence), row);
    }

    /// Takes a row out, if there is one.
    pub(super) fn remove(&mut self, client: &ClientId, event: &EventId) {
        if let Some(sequence) = self.places.remove(&(client.clone(), event.clone())) {
            self.rows.remove(&(client.clone(), sequence));
        }
    }

    fn delivered(&mut self, transfer: &Transfer) {
        let client = &transfer.client;
        self.remove(client, &transfer.event_id);
        for row in self.rows.values_mut().filter(|row| row.transfer.client == *client) {
            if row.transfer.document_hash == transfer.document_hash
                && row.state == RowState::Dead
                && row.transfer.sequence < transfer.sequence
            {
                row.state = RowState::Superseded;
            }
        }
    }

    fn coalesced(&mut self, newest: &Transfer) {
        let older = |row: &Row| {
            row.transfer.client == newest.client
                && row.transfer.document_hash == newest.document_hash
                && row.state == RowState::Pending
                && row.transfer.sequence < newest.sequence
        };
        let gone: Vec<_> =
            self.rows.values().filter(|row| older(row)).map(|row| row.transfer.clone()).collect();
        for transfer in gone {
            self.places.remove(&(transfer.client.clone(), transfer.event_id.clone()));
            self.rows.remove(&(transfer.client.clone(), transfer.sequence));
            self.coalesced.insert(transfer.event_id.clone());
        }
    }

    fn failed(&mut self, client: &ClientId, event: &EventId, failure: &RowFailure, state: RowState) {
        let Some(row) = self.find(client, event) else { return };
        if row.state != RowState::Pending {
            return;
        }
        row.state = state;
        row.claim = None;
        row.attempts += 1;
        row.payload_failures += u32::from(failure.class == FailureClass::Payload);
        row.next_attempt_at_ms = failure.next_attempt_at_ms;
        row.reason = Some(failure.reason.clone());
        if state == RowState::Dead {
            self.given_up.insert(event.clone());
        }
    }

    pub(crate) fn drainable(
        &self,
        client: &ClientId,
        after: Option<Sequence>,
        (now_ms, claim): (i64, Claim),
        limit: usize,
        bytes: usize,
    ) -> StashPage {
        let mut pending: Vec<_> = self.rows_of(client).filter(|row| row.state == RowState::Pending).collect();
        if !self.rules.log_order {
            pending.sort_by_key(|row| row.number);
        }
        let claim = Some(claim).filter(|_| self.rules.claims);
        let held: HashSet<DocumentHash> = pending
            .iter()
            .filter(|row| {
                claim.is_some_and(|claim| row.claim == Some(claim)) || row.next_attempt_at_ms > now_ms
            })
            .map(|row| row.transfer.document_hash)
            .collect();
        let committed = |at: Sequence| {
            !self.rules.below_commit
                || at.incarnation < INCARNATION
                || self
                    .partitions
                    .get(&(at.incarnation, at.partition))
                    .is_some_and(|(_, next)| at.offset < *next)
        };
        let mut left = bytes;
        let mut page = StashPage::default();
        let mut left_out = 0;
        for row in pending {
            let at = row.transfer.sequence;
            if after.is_some_and(|after| at <= after) {
                continue;
            }
            // What is not committed yet may be a moment later: nothing behind it is looked at.
            if page.rows.len() == limit || left_out == LEFT_OUT || !committed(at) {
                break;
            }
            if !held.contains(&row.transfer.document_hash) {
                let weight = row.transfer.weight();
                if weight > left && !page.rows.is_empty() {
                    break;
                }
                left = left.saturating_sub(weight);
                page.rows.push(StashRow {
                    transfer: row.transfer.clone(),
                    attempts: row.attempts,
                    payload_failures: row.payload_failures,
                    next_attempt_at_ms: row.next_attempt_at_ms,
                    claim: row.claim,
                });
            } else {
                left_out += 1;
            }
            page.end = Some(at);
        }
        page
    }

    pub(crate) fn check(
        &self,
        client: &ClientId,
        documents: &[DocumentHash],
        events: &[EventId],
    ) -> StashCheck {
        let mut check = StashCheck::default();
        for row in self.rows_of(client).filter(|_| self.rules.rows_win) {
            let document = row.transfer.document_hash;
            if documents.contains(&document) {
                match row.state {
                    RowState::Pending => check.waiting.insert(document),
                    RowState::Dead => check.dead.insert(document),
                    RowState::Superseded => false,
                };
            }
            if events.contains(&row.transfer.event_id) {
                check.stashed.insert(row.transfer.event_id.clone(), self.own_row(row));
            }
        }
        check
    }

    fn backlog(&self, client: &ClientId) -> Backlog {
        let mut backlog = Backlog::default();
        for row in self.rows_of(client) {
            match row.state {
                RowState::Dead => backlog.dead += 1,
                RowState::Superseded => {}
                RowState::Pending => {
                    backlog.pending += 1;
                    backlog.pending_bytes += row.transfer.weight() as u64;
                    backlog.oldest_ts_ms.get_or_insert(row.transfer.ts_ms);
                    let at = Some(row.next_attempt_at_ms).filter(|at| *at > 0);
                    backlog.next_attempt_at_ms = backlog.next_attempt_at_ms.into_iter().chain(at).min();
                }
            }
        }
        backlog
    }

    /// All owners are by one log: each takes over from those before it.
    pub(crate) fn lease(
        &mut self,
        client: &ClientId,
        ownership: Ownership,
        held: Option<i64>,
    ) -> StoreResult<DrainLease> {
        self.owned(ownership)?;
        if self.held_back.contains(client) {
            return fenced("nobody may drain it");
        }
        let token = match (held, self.leases.get(client)) {
            (Some(held), Some(token)) if held == *token => held,
            (None, found) => found.map_or(1, |token| token + 1),
            _ => return fenced("the drain is another's"),
        };
        self.leases.insert(client.clone(), token);
        Ok(DrainLease { token })
    }
}

pub(crate) struct MemoryStash(pub(crate) Arc<Medium<StashData>>);

impl Stash for MemoryStash {
    fn take_ownership(
        &self,
        incarnation: u32,
        partition: u32,
        next_offset: i64,
    ) -> BoxFuture<'_, StoreResult<Ownership>> {
        Box::pin(self.0.write(move |stash| {
            let (epoch, committed) = stash.partitions.entry((incarnation, partition)).or_default();
            *epoch += 1;
            *committed = next_offset;
            Ownership { incarnation, partition, epoch: *epoch }
        }))
    }

    fn committed(&self, ownership: Ownership, next_offset: i64) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async move {
            let copy = move |stash: &mut StashData| {
                stash.owned(ownership)?;
                let key = (ownership.incarnation, ownership.partition);
                let (_, committed) = stash.partitions.entry(key).or_default();
                *committed = (*committed).max(next_offset);
                Ok(())
            };
            self.0.write(copy).await?
        })
    }

    fn apply(&self, batches: Vec<StashBatch>) -> BoxFuture<'_, StoreResult<Vec<StoreResult<()>>>> {
        Box::pin(self.0.write(move |stash| batches.iter().map(|batch| stash.apply(batch)).collect()))
    }

    fn check<'a>(
        &'a self,
        client: &'a ClientId,
        documents: Vec<DocumentHash>,
        events: Vec<EventId>,
    ) -> BoxFuture<'a, StoreResult<StashCheck>> {
        let client = client.clone();
        Box::pin(self.0.read(move |stash| stash.check(&client, &documents, &events)))
    }

    fn lease_drain<'a>(
        &'a self,
        client: &'a ClientId,
        ownership: Ownership,
        held: Option<i64>,
        _: i64,
    ) -> BoxFuture<'a, StoreResult<DrainLease>> {
        let client = client.clone();
        Box::pin(async move { self.0.write(move |stash| stash.lease(&client, ownership, held)).await? })
    }

    fn release_drain<'a>(&'a self, client: &'a ClientId, token: i64) -> BoxFuture<'a, StoreResult<()>> {
        let client = client.clone();
        Box::pin(self.0.write(move |stash| {
            if let Some(held) = stash.leases.get_mut(&client).filter(|held| **held == token) {
                *held += 1;
            }
        }))
    }

    fn drainable<'a>(
        &'a self,
        client: &'a ClientId,
        after: Option<Sequence>,
        held: (i64, Claim),
        limit: usize,
        bytes: usize,
    ) -> BoxFuture<'a, StoreResult<StashPage>> {
        let client = client.clone();
        Box::pin(self.0.read(move |stash| stash.drainable(&client, after, held, limit, bytes)))
    }

    fn backlog<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Backlog>> {
        let client = client.clone();
        Box::pin(self.0.read(move |stash| stash.backlog(&client)))
    }

    fn backlogs(&self) -> BoxFuture<'_, StoreResult<Vec<(ClientId, Backlog)>>> {
        Box::pin(self.0.read(|stash| {
            let clients: HashSet<_> = stash.rows.keys().map(|(client, _)| client.clone()).collect();
            clients.into_iter().map(|client| (client.clone(), stash.backlog(&client))).collect()
        }))
    }

    fn bury<'a>(
        &'a self,
        client: &'a ClientId,
        ownership: Ownership,
        reason: &'a str,
    ) -> BoxFuture<'a, StoreResult<u64>> {
        let (client, reason) = (client.clone(), reason.to_owned());
        Box::pin(async move {
            let bury = move |stash: &mut StashData| {
                stash.owned(ownership)?;
                let mut count = 0;
                for row in stash.rows.values_mut() {
                    if count < BURIED_AT_ONCE
                        && row.transfer.client == client
                        && row.state == RowState::Pending
                    {
                        row.state = RowState::Dead;
                        stash.given_up.insert(row.transfer.event_id.clone());
                        row.claim = None;
                        row.reason = Some(reason.clone());
                        count += 1;
                    }
                }
                Ok(count)
            };
            self.0.write(bury).await?
        })
    }

    /// No scenario is long enough for a row to be old.
    fn purge(&self, _: Duration, _: usize) -> BoxFuture<'_, StoreResult<u64>> {
        Box::pin(async { Ok(0) })
    }

    fn dead_rows(&self, _: DeadRowQuery) -> BoxFuture<'_, StoreResult<Vec<DeadRow>>> {
        panic!("no actor asks this")
    }

    fn dead_row<'a>(
        &'a self,
        _: &'a ClientId,
        _: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<DeadRow>>> {
        panic!("no actor asks this")
    }

    fn dead_payload<'a>(
        &'a self,
        _: &'a ClientId,
        _: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<NewTransfer>>> {
        panic!("no actor asks this")
    }

    fn delete_dead<'a>(&'a self, _: &'a ClientId, _: &'a EventId) -> BoxFuture<'a, StoreResult<bool>> {
        panic!("no actor asks this")
    }
}
