//! The source stage: change events -> routing -> transfer log, in one transaction with the source offsets.

mod lookup;
mod portion;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use actix::prelude::*;
use futures_util::future::LocalBoxFuture;
use tokio_util::sync::CancellationToken;

use self::lookup::Lookup;
use self::portion::{Portion, Written};
use super::{LagProbe, Patience, Stage};
use crate::actors::config_cache::{ConfigCacheActor, ConfigTable, Refresh};
use crate::domain::change_event::{self, ChangeEvent, Op, SourceEvent, SourceNames, SourceRecord, Subject};
use crate::domain::config::ClientId;
use crate::domain::document::{Bodies, BodyShape};
use crate::domain::guard::WhenBlocked;
use crate::domain::intake::NewRecord;
use crate::domain::routing::{self, RoutingInput, RoutingSettings, SentAs, Verdict};
use crate::domain::transfer::{DocumentHash, EventId, NewTransfer, TransferKind};
use crate::metrics::Metrics;
use crate::ports::client_configs::{ClientConfigs, ConfigHint};
use crate::ports::clock::Clock;
use crate::ports::event_log::{BatchLimits, DeadLetter, EventLog, IngestWork, SourceConsumer};
use crate::ports::{StoreError, StoreResult};
use crate::runtime::Cell;

/// Bytes of transfers beyond which a batch is committed in parts.
const WORK_BYTES: usize = 32 << 20;

/// Bytes of a record of which reading takes long enough to matter: milliseconds.
const LARGE_RECORD: usize = 1 << 20;

/// Reads the source stream.
#[derive(Clone)]
pub struct SourceStage {
    /// The log.
    pub log: Arc<dyn EventLog>,
    /// The consumer group.
    pub group: String,
    /// How much is read at once.
    pub limits: BatchLimits,
    /// How topics and signal collections are named.
    pub names: SourceNames,
    /// The platform's prefix of db names.
    pub mongo_prefix: Arc<str>,
    /// Whether a client that lost access is told by a delete.
    pub revoke: bool,
    /// What becomes of changes for clients whose owner is blocked.
    pub blocked: WhenBlocked,
    /// Where changed configs are written.
    pub configs: Arc<dyn ClientConfigs>,
    /// The configs in memory.
    pub table: ConfigTable,
    /// Who keeps the table.
    pub config_cache: Addr<ConfigCacheActor>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Counters.
    pub metrics: Metrics,
    /// Where to ask how far it is behind.
    pub lag: LagProbe,
    /// Ends the stage, between two batches.
    pub stop: CancellationToken,
}

impl Stage for SourceStage {
    const KIND: &'static str = "ingest-source";

    fn run(self, cell: Cell) -> LocalBoxFuture<'static, ()> {
        Box::pin(async move {
            let mut patience = Patience::new("source stream");
            while !self.stop.is_cancelled() {
                match self.log.source(&self.group, self.limits).await {
                    Ok(consumer) => self.read_with(&cell, consumer, &mut patience).await,
                    Err(err) => patience.after(&err).await,
                }
            }
        })
    }
}

impl SourceStage {
    /// Reads until it is to stop, or this consumer has ended.
    async fn read_with(&self, cell: &Cell, consumer: Arc<dyn SourceConsumer>, patience: &mut Patience) {
        // Not held: a consumer that is not read any more must leave its group.
        let asked = Arc::downgrade(&consumer);
        self.lag.is(Box::new(move || {
            let consumer = asked.upgrade();
            Box::pin(async move {
                match consumer {
                    Some(consumer) => consumer.lag().await,
                    None => Err(StoreError::Unavailable("the log is not read".to_owned())),
                }
            })
        }));
        if let Err(why) = self.read_stream(cell, &*consumer, patience).await {
            patience.after(&why).await;
        }
    }

    /// # Errors
    /// The consumer has ended.
    async fn read_stream(
        &self,
        cell: &Cell,
        consumer: &dyn SourceConsumer,
        patience: &mut Patience,
    ) -> StoreResult<()> {
        let (mut lookup, mut portion) = (Lookup::default(), Portion::whole());
        loop {
            let batch = tokio::select! {
                () = self.stop.cancelled() => return Ok(()),
                batch = consumer.next() => batch,
            };
            cell.handling("batch");
            let done = match batch {
                Ok(records) => self.ingest(consumer, &mut lookup, &mut portion, &records).await,
                Err(err) => Err(err),
            };
            match done {
                Ok(()) => patience.over(),
                Err(err) => {
                    self.metrics.store_errors.with_label_values(&["log"]).inc();
                    patience.after(&err).await;
                    while let Err(err) = consumer.rewind().await {
                        if !err.is_transient() {
                            return Err(err);
                        }
                        patience.after(&err).await;
                    }
                }
            }
        }
    }

    /// Writes what becomes of a batch. A changed config is applied after what stands before it is written, and before what
    /// stands behind it is routed; and before its own offset is committed, or a crash between the two would lose it.
    async fn ingest(
        &self,
        consumer: &dyn SourceConsumer,
        lookup: &mut Lookup,
        portion: &mut Portion,
        records: &[SourceRecord],
    ) -> StoreResult<()> {
        let mut events = Vec::with_capacity(records.len());
        for record in records {
            events.push(self.read(record));
            give_way(record).await;
        }
        self.look_up(lookup, records, &events).await?;
        let mut work = Work::default();
        for (record, event) in records.iter().zip(events) {
            if let SourceEvent::Change(change) = &event
                && change.is_client_config(&self.mongo_prefix)
            {
                self.commit(consumer, portion, std::mem::take(&mut work)).await?;
                self.config_changed(config_hint(change)).await?;
            }
            self.add(record, event, portion.refusal(&record.position), &mut work);
            give_way(record).await;
            if work.bytes >= WORK_BYTES || portion.is_full(work.records) {
                self.commit(consumer, portion, std::mem::take(&mut work)).await?;
            }
        }
        self.commit(consumer, portion, work).await
    }

    async fn commit(
        &self,
        consumer: &dyn SourceConsumer,
        portion: &mut Portion,
        work: Work,
    ) -> StoreResult<()> {
        if work.commit.offsets.is_empty() {
            return Ok(());
        }
        let written = Written::of(&work.commit, work.records);
        match consumer.commit(work.commit).await {
            Ok(()) => portion.written(&written),
            Err(err) => {
                portion.failed(&written, &err);
                return Err(err);
            }
        }
        // Counted once it is durable: a batch that is read again counts once.
        work.counts.add_to(&self.metrics);
        for said in work.said {
            log::warn!("{said}");
        }
        Ok(())
    }

    async fn config_changed(&self, hint: ConfigHint) -> StoreResult<()> {
        let document = hint.document_id.clone();
        match self.configs.changed(hint).await {
            Ok(None) => Ok(()),
            Ok(Some(client)) => {
                self.refresh(client).await;
                Ok(())
            }
            Err(err) if err.is_transient() => Err(err),
            Err(err) => {
                log::warn!("config document was not taken over err={err} document={document:?}");
                Ok(())
            }
        }
    }

    /// Until it is done: asked again, the store would say that there is nothing newer.
    async fn refresh(&self, client: ClientId) {
        let mut patience = Patience::new("refresh of a client config");
        loop {
            let refreshed = self.config_cache.send(Refresh(client.clone())).await;
            match refreshed.unwrap_or_else(|err| Err(StoreError::Unavailable(format!("config cache: {err}"))))
            {
                Ok(()) => return patience.over(),
                Err(err) => patience.after(&err).await,
            }
        }
    }

    /// Reads one record. One that breaks the reader would break it at every restart, and stop the stream for good.
    fn read(&self, record: &SourceRecord) -> SourceEvent {
        let read = catch_unwind(AssertUnwindSafe(|| change_event::read(record, &self.names)));
        read.unwrap_or_else(|_| SourceEvent::Invalid(Subject::default(), "reading it panicked".to_owned()))
    }

    /// Adds what becomes of a record to `work`: a dead letter, when it was refused.
    fn add(&self, record: &SourceRecord, event: SourceEvent, refusal: Option<&str>, work: &mut Work) {
        let position = &record.position;
        work.commit.offsets.insert((position.topic.clone(), position.partition), position.offset + 1);
        work.records += 1;
        if let Some(why) = refusal {
            return self.add_invalid(record, &subject_of(event), format!("it cannot be written: {why}"), work);
        }
        match event {
            SourceEvent::Change(event) => {
                let before = (work.commit.transfers.len(), work.bytes);
                let routed = catch_unwind(AssertUnwindSafe(|| self.route(record, &event, work)));
                if routed.is_ok() {
                    work.counts.events[0] += 1;
                } else {
                    (_, work.bytes) = before;
                    work.commit.transfers.truncate(before.0);
                    let subject = subject_of(SourceEvent::Change(event));
                    self.add_invalid(record, &subject, "routing it panicked".to_owned(), work);
                }
            }
            SourceEvent::Tombstone(_) => work.counts.events[1] += 1,
            SourceEvent::Skip(_, reason) => {
                work.counts.events[2] += 1;
                work.counts.skip(reason.as_str());
            }
            SourceEvent::Invalid(subject, reason) => self.add_invalid(record, &subject, reason, work),
        }
    }

    fn add_invalid(&self, record: &SourceRecord, subject: &Subject, reason: String, work: &mut Work) {
        let position = &record.position;
        work.counts.events[3] += 1;
        work.said.push(format!(
            "record is kept as dead letter err={reason} topic={} partition={} offset={}",
            position.topic, position.partition, position.offset
        ));
        let timestamp_ms = record.timestamp_ms;
        let record = (!subject.may_hold_secrets(&self.mongo_prefix)).then(|| NewRecord {
            topic: position.topic.clone(),
            key: record.key.clone(),
            value: record.value.clone(),
            headers: record.headers.clone(),
        });
        work.commit.dead_letters.push(DeadLetter {
            position: position.clone(),
            timestamp_ms,
            reason,
            record,
        });
    }

    fn route(&self, record: &SourceRecord, event: &ChangeEvent, work: &mut Work) {
        let configs = self.table.snapshot();
        let input = RoutingInput::of(event, &self.mongo_prefix);
        let settings =
            RoutingSettings { revoke: self.revoke, mongo_prefix: &self.mongo_prefix, blocked: self.blocked };
        let decisions = match routing::route(&input, |client| configs.get(client), &settings) {
            Ok(decisions) => decisions,
            Err(reason) => return work.counts.skip(reason.as_str()),
        };
        let mut bodies = Bodies::new(event);
        let document: Arc<str> = format!("{}.{}:{}", event.db, event.collection, event.id).into();
        let document_hash = DocumentHash::of(&event.db, &event.collection, &event.id);
        let traceparent: Option<Arc<str>> = event.traceparent.as_deref().map(Arc::from);
        for decision in decisions {
            let (change, before, format) = match decision.verdict {
                Verdict::Send { change, include_before, format } => (change, include_before, format),
                Verdict::Skip(reason) => {
                    work.counts.skip(reason.as_str());
                    continue;
                }
            };
            let shape = BodyShape { format, before, revocation: change == SentAs::Revocation };
            let transfer = NewTransfer {
                event_id: EventId::derive(&record.position, record.timestamp_ms, &decision.client),
                client: decision.client,
                document: document.clone(),
                document_hash,
                kind: TransferKind::Live,
                source: record.position.clone(),
                traceparent: traceparent.clone(),
                ts_ms: event.ts_ms,
                body: bodies.body(shape),
            };
            work.counts.routed += 1;
            work.bytes += transfer.weight();
            work.commit.transfers.push(transfer);
        }
    }
}

/// After work on a large record, others on the thread have their turn: so it does not look as if it had stopped.
async fn give_way(record: &SourceRecord) {
    if record.value.as_ref().is_some_and(|value| value.len() >= LARGE_RECORD) {
        tokio::task::yield_now().await;
    }
}

fn subject_of(event: SourceEvent) -> Subject {
    match event {
        SourceEvent::Change(event) => {
            let ChangeEvent { db, collection, id, .. } = *event;
            Subject { db: Some(db), collection: Some(collection), id: Some(id) }
        }
        SourceEvent::Tombstone(subject)
        | SourceEvent::Skip(subject, _)
        | SourceEvent::Invalid(subject, _) => subject,
    }
}

fn config_hint(event: &ChangeEvent) -> ConfigHint {
    ConfigHint {
        document_id: event.id.clone(),
        document: event.after.as_ref().map(|image| image.text().to_owned()),
        removed: event.op == Op::Delete,
        ts_ms: event.ts_ms,
    }
}

/// What becomes of a stretch of records.
#[derive(Default)]
struct Work {
    commit: IngestWork,
    records: usize,
    bytes: usize,
    counts: Counts,
    /// What is logged when it is durable.
    said: Vec<String>,
}

#[derive(Default)]
struct Counts {
    /// By kind, as in [`KINDS`].
    events: [u64; 4],
    routed: u64,
    skipped: std::collections::HashMap<&'static str, u64>,
}

const KINDS: [&str; 4] = ["change", "tombstone", "skip", "invalid"];

impl Counts {
    fn skip(&mut self, reason: &'static str) {
        *self.skipped.entry(reason).or_default() += 1;
    }

    fn add_to(&self, metrics: &Metrics) {
        for (kind, count) in KINDS.iter().zip(self.events) {
            metrics.events.with_label_values(&[*kind]).inc_by(count);
        }
        metrics.routed.inc_by(self.routed);
        for (reason, count) in &self.skipped {
            metrics.skipped.with_label_values(&[*reason]).inc_by(*count);
        }
    }
}
