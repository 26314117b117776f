//! The ports, in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};

use crate::domain::attempt::Attempt;
use crate::domain::audit::{AuditEntry, NewAction};
use crate::domain::client_state::ClientState;
use crate::domain::config::{ClientConfig, ClientId, Status, read_value};
use crate::domain::dead_row::{ByAge, DeadRow, DeadRowQuery, GivenUp, OwnRow};
use crate::domain::decision::{Decision, DecisionKind, Subject};
use crate::domain::operational_event::{NumberedEvent, OperationalEvent};
use crate::domain::stash::{Backlog, Claim, RowState, StashCheck, StashPage};
use crate::domain::stash_view::{RowQuery, RowView};
use crate::domain::transfer::{DocumentHash, EventId, NewTransfer, Sequence, SourcePosition};
use crate::ports::attempts::Attempts;
use crate::ports::audit::{AuditLog, AuditPage};
use crate::ports::client_configs::{ClientConfigs, ConfigHint, Put, StoredConfig};
use crate::ports::client_states::ClientStates;
use crate::ports::clock::Clock;
use crate::ports::decisions::Decisions;
use crate::ports::event_log::{
    BatchLimits, DeadLetter, EventLog, NewRecord, SourceConsumer, TransferConsumer,
};
use crate::ports::operational_events::{EventPage, OperationalEvents};
use crate::ports::stash::{DrainLease, Ownership, Stash, StashBatch};
use crate::ports::stash_rows::StashRows;
use crate::ports::{StoreError, StoreResult};

fn done<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, StoreResult<T>> {
    ready(Ok(value)).boxed()
}

/// The HTTP side has no business with this.
fn refuse<'a, T: Send + 'a>() -> BoxFuture<'a, StoreResult<T>> {
    ready(Err(StoreError::Refused("not for the http side".into()))).boxed()
}

#[derive(Default)]
pub(super) struct FakeLog {
    pub(super) records: Mutex<Vec<NewRecord>>,
    pub(super) letters: Mutex<Vec<(i64, DeadLetter)>>,
    pub(super) transfers: Mutex<Vec<NewTransfer>>,
    pub(super) failure: Mutex<Option<StoreError>>,
}

impl EventLog for FakeLog {
    fn append(&self, records: Vec<NewRecord>) -> BoxFuture<'_, StoreResult<Vec<SourcePosition>>> {
        if let Some(err) = self.failure.lock().unwrap().clone() {
            return ready(Err(err)).boxed();
        }
        let mut log = self.records.lock().unwrap();
        let positions = records
            .iter()
            .zip(log.len() as i64..)
            .map(|(record, offset)| SourcePosition { topic: record.topic.clone(), partition: 0, offset })
            .collect();
        log.extend(records);
        done(positions)
    }

    fn partitions(&self) -> u32 {
        12
    }

    fn incarnation(&self) -> u32 {
        1
    }

    fn source(&self, _: &str, _: BatchLimits) -> BoxFuture<'_, StoreResult<Arc<dyn SourceConsumer>>> {
        refuse()
    }

    fn transfers(&self, _: &str, _: BatchLimits) -> BoxFuture<'_, StoreResult<Arc<dyn TransferConsumer>>> {
        refuse()
    }

    fn append_transfers(&self, transfers: Vec<NewTransfer>) -> BoxFuture<'_, StoreResult<()>> {
        self.transfers.lock().unwrap().extend(transfers);
        done(())
    }

    fn keep_dead(&self, _: Vec<DeadLetter>) -> BoxFuture<'_, StoreResult<()>> {
        refuse()
    }

    fn dead_letters(&self, after: i64, limit: usize) -> BoxFuture<'_, StoreResult<Vec<(i64, DeadLetter)>>> {
        let letters = self.letters.lock().unwrap();
        done(letters.iter().filter(|(id, _)| *id > after).take(limit).cloned().collect())
    }
}

#[derive(Default)]
pub(super) struct FakeConfigs(pub(super) Mutex<BTreeMap<ClientId, StoredConfig>>);

impl ClientConfigs for FakeConfigs {
    fn load(&self) -> BoxFuture<'_, StoreResult<Vec<StoredConfig>>> {
        done(self.0.lock().unwrap().values().cloned().collect())
    }

    fn get<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<StoredConfig>>> {
        done(self.0.lock().unwrap().get(client).cloned())
    }

    fn put<'a>(
        &'a self,
        client: &'a ClientId,
        status: Status,
        value: String,
        now_ms: i64,
    ) -> BoxFuture<'a, StoreResult<Put>> {
        let mut configs = self.0.lock().unwrap();
        let old = configs.get(client);
        let version = old.map_or(1, |old| old.config.version + 1);
        let put = if old.is_some_and(|old| !old.config.deleted) { Put::Replaced } else { Put::Created };
        let config = Arc::new(read_value(client, status, false, version, now_ms, None, &value));
        configs.insert(client.clone(), StoredConfig { config, value });
        done(put)
    }

    fn delete<'a>(&'a self, client: &'a ClientId, now_ms: i64) -> BoxFuture<'a, StoreResult<bool>> {
        let mut configs = self.0.lock().unwrap();
        let Some(stored) = configs.get_mut(client).filter(|stored| !stored.config.deleted) else {
            return done(false);
        };
        let mut config = (*stored.config).clone();
        config.deleted = true;
        config.updated_at_ms = now_ms;
        stored.config = Arc::new(config);
        done(true)
    }

    fn deactivate<'a>(&'a self, _: &'a ClientConfig, _: i64) -> BoxFuture<'a, StoreResult<bool>> {
        refuse()
    }

    fn changed(&self, _: ConfigHint) -> BoxFuture<'_, StoreResult<Option<ClientId>>> {
        refuse()
    }
}

/// A row that was given up, or waits: then it is shown to nobody.
#[derive(Clone)]
pub(super) struct FakeRow {
    pub(super) row: DeadRow,
    pub(super) payload: NewTransfer,
    pub(super) waits: bool,
    pub(super) newer_waits: bool,
}

impl FakeRow {
    fn view(&self) -> RowView {
        let row = &self.row;
        RowView {
            event_id: row.event_id.clone(),
            document: row.document.clone(),
            state: if self.waits { RowState::Pending } else { row.kind.state() },
            kind: self.payload.kind,
            sequence: row.sequence,
            source: row.source.clone(),
            ts_ms: row.ts_ms,
            bytes: row.bytes,
            stashed_at_ms: row.first_failed_at_ms,
            attempts: row.attempts,
            payload_failures: row.payload_failures,
            next_attempt_at_ms: 0,
            first_failed_at_ms: Some(row.first_failed_at_ms),
            last_failed_at_ms: row.last_failed_at_ms,
            reason: row.reason.clone(),
            status: row.status,
        }
    }
}

#[derive(Default)]
pub(super) struct FakeStash(pub(super) Mutex<BTreeMap<ClientId, Backlog>>, pub(super) Mutex<Vec<FakeRow>>);

impl FakeStash {
    fn find(&self, client: &ClientId, event: &EventId) -> Option<FakeRow> {
        let rows = self.1.lock().unwrap();
        rows.iter().find(|fake| fake.row.client == *client && fake.row.event_id == *event).cloned()
    }

    fn given_up(&self, client: &ClientId, event: &EventId) -> Option<FakeRow> {
        self.find(client, event).filter(|fake| !fake.waits)
    }
}

impl Stash for FakeStash {
    fn take_ownership(&self, _: u32, _: u32, _: i64) -> BoxFuture<'_, StoreResult<Ownership>> {
        refuse()
    }

    fn committed(&self, _: Ownership, _: i64) -> BoxFuture<'_, StoreResult<()>> {
        refuse()
    }

    fn apply(&self, _: Vec<StashBatch>) -> BoxFuture<'_, StoreResult<Vec<StoreResult<()>>>> {
        refuse()
    }

    fn check<'a>(
        &'a self,
        client: &'a ClientId,
        _: Vec<DocumentHash>,
        events: Vec<EventId>,
    ) -> BoxFuture<'a, StoreResult<StashCheck>> {
        let own = |event: EventId| {
            let fake = self.find(client, &event)?;
            let state = if fake.waits { RowState::Pending } else { fake.row.kind.state() };
            Some((event, OwnRow { state, newer_waits: fake.newer_waits }))
        };
        done(StashCheck { stashed: events.into_iter().filter_map(own).collect(), ..StashCheck::default() })
    }

    fn lease_drain<'a>(
        &'a self,
        _: &'a ClientId,
        _: Ownership,
        _: Option<i64>,
        _: i64,
    ) -> BoxFuture<'a, StoreResult<DrainLease>> {
        refuse()
    }

    fn release_drain<'a>(&'a self, _: &'a ClientId, _: i64) -> BoxFuture<'a, StoreResult<()>> {
        refuse()
    }

    fn drainable<'a>(
        &'a self,
        _: &'a ClientId,
        _: Option<Sequence>,
        _: (i64, Claim),
        _: usize,
        _: usize,
    ) -> BoxFuture<'a, StoreResult<StashPage>> {
        refuse()
    }

    fn backlog<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Backlog>> {
        done(self.0.lock().unwrap().get(client).copied().unwrap_or_default())
    }

    fn backlogs(&self) -> BoxFuture<'_, StoreResult<Vec<(ClientId, Backlog)>>> {
        done(self.0.lock().unwrap().iter().map(|(client, backlog)| (client.clone(), *backlog)).collect())
    }

    fn bury<'a>(&'a self, _: &'a ClientId, _: Ownership, _: &'a str) -> BoxFuture<'a, StoreResult<u64>> {
        refuse()
    }

    fn purge(&self, _: Duration, _: usize) -> BoxFuture<'_, StoreResult<u64>> {
        refuse()
    }

    fn dead_rows(&self, query: DeadRowQuery) -> BoxFuture<'_, StoreResult<Vec<DeadRow>>> {
        let (from, until) = query.between();
        let rows = self.1.lock().unwrap();
        let asked = |row: &DeadRow| {
            query.client.as_ref().is_none_or(|client| row.client == *client)
                && row.kind == query.kind
                && from < row.place()
                && row.place() < until
        };
        let mut found: Vec<_> = rows.iter().filter(|fake| !fake.waits).map(|fake| fake.row.clone()).collect();
        found.retain(asked);
        found.sort_by_key(DeadRow::place);
        if query.order == ByAge::NewestFirst {
            found.reverse();
        }
        found.truncate(query.limit);
        done(found)
    }

    fn dead_row<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<DeadRow>>> {
        done(self.given_up(client, event).map(|fake| fake.row))
    }

    fn dead_payload<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<NewTransfer>>> {
        done(self.given_up(client, event).map(|fake| fake.payload))
    }

    fn delete_dead<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<bool>> {
        let found = self.given_up(client, event);
        self.1.lock().unwrap().retain(|fake| found.as_ref().is_none_or(|found| fake.row != found.row));
        done(found.is_some())
    }
}

impl StashRows for FakeStash {
    fn rows(&self, query: RowQuery) -> BoxFuture<'_, StoreResult<Vec<RowView>>> {
        let fakes = self.1.lock().unwrap();
        let mut rows: Vec<_> = fakes
            .iter()
            .filter(|fake| fake.row.client == query.client)
            .filter(|fake| query.document.is_none_or(|hash| fake.payload.document_hash == hash))
            .map(FakeRow::view)
            .filter(|row| query.state.is_none_or(|state| row.state == state))
            .filter(|row| query.after.is_none_or(|after| row.sequence > after))
            .collect();
        rows.sort_by_key(|row| row.sequence);
        rows.truncate(query.limit);
        done(rows)
    }

    fn row<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<RowView>>> {
        done(self.find(client, event).as_ref().map(FakeRow::view))
    }

    fn body<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<Bytes>>> {
        done(self.find(client, event).map(|fake| fake.payload.body))
    }

    fn purge_given_up<'a>(
        &'a self,
        client: &'a ClientId,
        kind: GivenUp,
        until_ms: i64,
        limit: usize,
    ) -> BoxFuture<'a, StoreResult<u64>> {
        let mut fakes = self.1.lock().unwrap();
        let before = fakes.len();
        let mut left = limit;
        fakes.retain(|fake| {
            let goes = fake.row.client == *client
                && !fake.waits
                && fake.row.kind == kind
                && fake.row.first_failed_at_ms < until_ms
                && left > 0;
            left -= usize::from(goes);
            !goes
        });
        done((before - fakes.len()) as u64)
    }
}

/// Actions as they were written down, newest last; and whether it is away.
#[derive(Default)]
pub(super) struct FakeAudit(pub(super) Mutex<Vec<AuditEntry>>, pub(super) AtomicBool);

impl AuditLog for FakeAudit {
    fn begin(&self, action: NewAction) -> BoxFuture<'_, StoreResult<i64>> {
        if self.1.load(Ordering::Relaxed) {
            return ready(Err(StoreError::Unavailable("the store is away".into()))).boxed();
        }
        let mut entries = self.0.lock().unwrap();
        let id = entries.len() as i64 + 1;
        entries.push(AuditEntry {
            id,
            at_ms: 1_000 + id,
            by: action.by.name.to_string(),
            role: action.by.role,
            action: action.action.to_string(),
            subject: action.subject,
            status: None,
        });
        done(id)
    }

    fn end(&self, id: i64, status: u16) -> BoxFuture<'_, StoreResult<()>> {
        self.0.lock().unwrap()[id as usize - 1].status = Some(status);
        done(())
    }

    fn list(&self, page: AuditPage) -> BoxFuture<'_, StoreResult<Vec<AuditEntry>>> {
        let entries = self.0.lock().unwrap();
        let asked = entries
            .iter()
            .rev()
            .filter(|entry| page.before.is_none_or(|before| entry.id < before))
            .filter(|entry| page.by.as_ref().is_none_or(|by| entry.by == *by))
            .filter(|entry| page.action.as_ref().is_none_or(|action| entry.action == *action))
            .filter(|entry| page.subject.as_ref().is_none_or(|subject| entry.subject == *subject));
        done(asked.take(page.limit).cloned().collect())
    }

    fn purge(&self, _: Duration, _: usize) -> BoxFuture<'_, StoreResult<u64>> {
        refuse()
    }
}

#[derive(Default)]
pub(super) struct FakeStates(pub(super) Mutex<BTreeMap<ClientId, ClientState>>);

impl ClientStates for FakeStates {
    fn get<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<ClientState>>> {
        done(self.0.lock().unwrap().get(client).cloned())
    }

    fn list(&self) -> BoxFuture<'_, StoreResult<Vec<(ClientId, ClientState)>>> {
        done(self.0.lock().unwrap().iter().map(|(client, state)| (client.clone(), state.clone())).collect())
    }

    fn failing_for<'a>(&'a self, _: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<Duration>>> {
        done(None)
    }

    fn resynced<'a>(&'a self, _: &'a ClientId, _: u64) -> BoxFuture<'a, StoreResult<()>> {
        refuse()
    }

    fn put<'a>(&'a self, _: &'a ClientId, _: ClientState) -> BoxFuture<'a, StoreResult<()>> {
        refuse()
    }
}

#[derive(Default)]
pub(super) struct FakeDecisions {
    made: Mutex<BTreeMap<(&'static str, Subject), Decision>>,
    away: Mutex<bool>,
}

impl FakeDecisions {
    pub(super) fn go_away(&self) {
        *self.away.lock().unwrap() = true;
    }

    /// All of a kind, as of now.
    pub(super) fn now(&self, kind: DecisionKind) -> Vec<Decision> {
        let made = self.made.lock().unwrap();
        made.iter().filter(|((is, _), _)| *is == kind.as_str()).map(|(_, made)| made.clone()).collect()
    }

    fn ask<'a, T: Send + 'a>(&self, answer: impl FnOnce() -> T) -> BoxFuture<'a, StoreResult<T>> {
        if *self.away.lock().unwrap() {
            return ready(Err(StoreError::Unavailable("the store is away".into()))).boxed();
        }
        done(answer())
    }
}

impl Decisions for FakeDecisions {
    fn list(&self, kind: DecisionKind) -> BoxFuture<'_, StoreResult<Vec<Decision>>> {
        self.ask(|| self.now(kind))
    }

    fn put(&self, kind: DecisionKind, decision: Decision) -> BoxFuture<'_, StoreResult<Decision>> {
        self.ask(|| {
            let key = (kind.as_str(), decision.subject().clone());
            self.made.lock().unwrap().insert(key, decision.clone());
            decision
        })
    }

    fn remove<'a>(&'a self, kind: DecisionKind, subject: &'a Subject) -> BoxFuture<'a, StoreResult<bool>> {
        self.ask(|| self.made.lock().unwrap().remove(&(kind.as_str(), subject.clone())).is_some())
    }
}

/// What was asked for, and what is answered whatever is asked.
#[derive(Default)]
pub(super) struct FakeEvents {
    pub(super) asked: Mutex<Vec<EventPage>>,
    pub(super) answer: Mutex<Vec<NumberedEvent>>,
}

impl OperationalEvents for FakeEvents {
    fn append(&self, _: Vec<OperationalEvent>) -> BoxFuture<'_, StoreResult<()>> {
        refuse()
    }

    fn list(&self, page: EventPage) -> BoxFuture<'_, StoreResult<Vec<NumberedEvent>>> {
        self.asked.lock().unwrap().push(page);
        done(self.answer.lock().unwrap().clone())
    }

    fn purge(&self, _: i64, _: u64) -> BoxFuture<'_, StoreResult<u64>> {
        refuse()
    }

    fn reader<'a>(&'a self, _: &'a str) -> BoxFuture<'a, StoreResult<i64>> {
        refuse()
    }

    fn has_read<'a>(&'a self, _: &'a str, _: i64) -> BoxFuture<'a, StoreResult<()>> {
        refuse()
    }
}

/// Attempts by number, the newest first.
#[derive(Default)]
pub(super) struct FakeAttempts(pub(super) Mutex<Vec<(i64, Attempt)>>);

impl FakeAttempts {
    /// Deliveries are recent, for this purpose.
    pub(super) fn recent(&self, client: &ClientId) -> Vec<Attempt> {
        let attempts = self.0.lock().unwrap();
        let recent = attempts.iter().filter(|(_, attempt)| attempt.delivered && attempt.client == *client);
        recent.map(|(_, attempt)| attempt.clone()).collect()
    }
}

impl Attempts for FakeAttempts {
    fn append(&self, _: Vec<Attempt>, _: u32) -> BoxFuture<'_, StoreResult<()>> {
        refuse()
    }

    fn list<'a>(
        &'a self,
        client: &'a ClientId,
        before: Option<i64>,
        limit: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<(i64, Attempt)>>> {
        let attempts = self.0.lock().unwrap();
        let below = |id: i64| before.is_none_or(|before| id < before);
        let found = attempts.iter().filter(|(id, attempt)| below(*id) && attempt.client == *client);
        done(found.take(limit).cloned().collect())
    }

    fn purge(&self, _: i64) -> BoxFuture<'_, StoreResult<u64>> {
        refuse()
    }
}

pub(super) struct FixedClock;

impl Clock for FixedClock {
    fn now_ms(&self) -> i64 {
        1_764_435_600_000
    }

    fn boot_ms(&self) -> i64 {
        self.now_ms()
    }
}
