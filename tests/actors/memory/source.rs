//! The source topics, and the group that reads them. What ingest made of records is written with their offsets, or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use dispatcher::domain::change_event::SourceRecord;
use dispatcher::domain::transfer::SourcePosition;
use dispatcher::ports::event_log::{BatchLimits, IngestWork, Lag, SourceConsumer};
use dispatcher::ports::{BoxFuture, StoreError, StoreResult};
use tokio::time::Instant;

use super::Medium;
use super::group::{Group, Says};
use super::log::{LogData, MemoryLog};
use super::member::Link;

/// The collections whose changes come in, each with the partitions of its topic, and last that of the configs.
pub(crate) const TOPICS: [(&str, &str, i32); 3] =
    [("wnx-test", "things", 2), ("wnx-test", "others", 1), ("wnx-context", "configs", 1)];

/// A reader says at most this often that it lives.
const HEARTBEAT: Duration = Duration::from_millis(900);

/// The rules of ingest. A world without one of them shows what it is good for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IngestRules {
    /// Who has no right to a partition any more writes nothing.
    pub(crate) fence: bool,
    /// Transfers and offsets are written together.
    pub(crate) atomic: bool,
}

impl Default for IngestRules {
    fn default() -> Self {
        Self { fence: true, atomic: true }
    }
}

pub(crate) struct Source {
    places: Vec<Place>,
    group: Group,
}

struct Place {
    topic: Arc<str>,
    partition: i32,
    records: Vec<SourceRecord>,
    committed: usize,
    /// When each was committed.
    committed_ms: Vec<i64>,
}

impl Source {
    pub(crate) fn new() -> Self {
        let place = |(db, collection, partition)| Place {
            topic: format!("mongo.{db}.{collection}").into(),
            partition,
            records: Vec::new(),
            committed: 0,
            committed_ms: Vec::new(),
        };
        let places =
            TOPICS.iter().flat_map(|(db, collection, count)| (0..*count).map(|at| (*db, *collection, at)));
        let places: Vec<_> = places.map(place).collect();
        Self { group: Group::new(places.len() as u32), places }
    }

    fn find(&self, topic: &str, partition: i32) -> usize {
        let found =
            self.places.iter().position(|place| &*place.topic == topic && place.partition == partition);
        found.unwrap()
    }

    /// Appends a record.
    pub(crate) fn push(
        &mut self,
        topic: &str,
        partition: i32,
        timestamp_ms: i64,
        key: Option<Bytes>,
        value: Option<Bytes>,
    ) -> SourcePosition {
        let index = self.find(topic, partition);
        let place = &mut self.places[index];
        let offset = place.records.len() as i64;
        let position = SourcePosition { topic: place.topic.clone(), partition, offset };
        let headers = Vec::new();
        place.records.push(SourceRecord { position: position.clone(), timestamp_ms, key, value, headers });
        position
    }

    pub(crate) fn lag(&self) -> usize {
        self.places.iter().map(|place| place.records.len() - place.committed).sum()
    }

    /// When what was made of a record was written.
    pub(crate) fn committed_ms(&self, position: &SourcePosition) -> Option<i64> {
        let place = &self.places[self.find(&position.topic, position.partition)];
        place.committed_ms.get(position.offset as usize).copied()
    }

    /// For people: places and who reads them.
    pub(crate) fn describe(&self) -> String {
        let place = |(index, place): (usize, &Place)| {
            let owner = self.group.owner(index as u32);
            format!(
                "{}/{} {} of {} member {owner:?}",
                place.topic,
                place.partition,
                place.committed,
                place.records.len()
            )
        };
        self.places.iter().enumerate().map(place).collect::<Vec<_>>().join(", ")
    }
}

impl LogData {
    /// One transaction: everything in it, or nothing.
    fn ingest(&mut self, member: u64, work: &IngestWork, rules: IngestRules, now_ms: i64) -> StoreResult<()> {
        self.commit_source(member, work, rules, now_ms)?;
        self.take_in(work);
        Ok(())
    }

    fn commit_source(
        &mut self,
        member: u64,
        work: &IngestWork,
        rules: IngestRules,
        now_ms: i64,
    ) -> StoreResult<()> {
        let source = &mut self.source;
        let places = work.offsets.iter();
        let places: Vec<_> = places
            .map(|((topic, partition), next)| (source.find(topic, *partition), *next as usize))
            .collect();
        let is_known = source.group.hear(member, now_ms);
        let owns = |index: usize| source.group.owner(index as u32) == Some(member);
        if rules.fence && !(is_known && places.iter().all(|(index, _)| owns(*index))) {
            return Err(StoreError::Fenced("a place of the source is another's".to_owned()));
        }
        for (index, next) in places {
            let place = &mut source.places[index];
            place.committed = next;
            if place.committed_ms.len() < next {
                place.committed_ms.resize(next, now_ms);
            }
        }
        Ok(())
    }

    fn take_in(&mut self, work: &IngestWork) {
        let mut touched = BTreeSet::new();
        for transfer in &work.transfers {
            touched.insert(self.push(transfer.clone(), 0).partition);
        }
        // The end of a transaction has an offset of its own.
        touched.into_iter().for_each(|partition| self.skip_one(partition));
        self.dead.extend(work.dead_letters.iter().cloned());
    }
}

/// A member of the group that reads the source.
pub(crate) struct SourceReader {
    medium: Arc<Medium<LogData>>,
    grown: Arc<tokio::sync::Notify>,
    link: Arc<Link>,
    rules: IngestRules,
    limits: BatchLimits,
    local: Mutex<Local>,
}

#[derive(Default)]
struct Local {
    member: Option<u64>,
    /// The next to hand out, by place.
    positions: BTreeMap<u32, usize>,
    released: BTreeSet<u32>,
    heard: Option<Instant>,
}

impl SourceReader {
    pub(crate) fn new(log: &MemoryLog, link: Arc<Link>, limits: BatchLimits) -> Self {
        Self {
            medium: log.medium.clone(),
            grown: log.grown.clone(),
            link,
            rules: log.ingest_rules,
            limits,
            local: Mutex::default(),
        }
    }

    fn away() -> StoreError {
        StoreError::Unavailable("the coordinator is away".to_owned())
    }

    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LogData, i64) -> T + Send + 'static,
    ) -> StoreResult<T> {
        let medium = self.medium.clone();
        if self.link.is_cut() {
            tokio::time::sleep(Duration::from_millis(500)).await;
            return Err(Self::away());
        }
        let done = self.medium.write(move |log| work(log, medium.now_ms())).await?;
        // Of a call whose answer is lost nobody knows whether it was made.
        if self.link.is_cut() { Err(Self::away()) } else { Ok(done) }
    }

    /// Joins the group, or says that it lives.
    async fn be_heard(&self) -> StoreResult<()> {
        let (member, says) = {
            let mut local = self.local.lock().unwrap();
            if local.heard.is_some_and(|heard| heard.elapsed() < HEARTBEAT) {
                return Ok(());
            }
            let has = local.positions.keys().copied().collect();
            let says = Says { has, leaving: BTreeSet::new(), released: std::mem::take(&mut local.released) };
            (local.member, says)
        };
        let released = says.released.clone();
        let beat = move |log: &mut LogData, now_ms| {
            let group = &mut log.source.group;
            let member = member.unwrap_or_else(|| group.join(now_ms));
            let told = group.heartbeat(member, &says, now_ms)?;
            let committed = |place: &u32| (*place, log.source.places[*place as usize].committed);
            Some((member, told.granted.iter().map(committed).collect::<Vec<_>>(), told.revoked))
        };
        let told = self.call(beat).await;
        let mut local = self.local.lock().unwrap();
        match told {
            Err(err) => {
                local.released.extend(released);
                return Err(err);
            }
            Ok(None) => *local = Local::default(),
            Ok(Some((member, granted, revoked))) => {
                local.member = Some(member);
                local.heard = Some(Instant::now()).filter(|_| revoked.is_empty());
                local.positions.retain(|place, _| !revoked.contains(place));
                local.released.extend(revoked);
                local.positions.extend(granted);
            }
        }
        Ok(())
    }

    /// Some records of some places, each place in its order.
    fn find(&self) -> Vec<SourceRecord> {
        let mut local = self.local.lock().unwrap();
        let log = self.medium.data();
        let rng = &mut self.medium.weather.lock().unwrap().rng;
        let mut left = rng.usize(1..=self.limits.records);
        let mut batch = Vec::new();
        loop {
            let records = |place: u32| &log.source.places[place as usize].records;
            let ready = local.positions.iter().filter(|(place, at)| **at < records(**place).len());
            let ready: Vec<_> = ready.map(|(place, at)| (*place, *at)).collect();
            if ready.is_empty() || left == 0 {
                return batch;
            }
            let (place, at) = ready[rng.usize(0..ready.len())];
            let some = &records(place)[at..];
            let count = rng.usize(1..=some.len().min(left));
            batch.extend_from_slice(&some[..count]);
            local.positions.insert(place, at + count);
            left -= count;
        }
    }
}

impl SourceConsumer for SourceReader {
    fn next(&self) -> BoxFuture<'_, StoreResult<Vec<SourceRecord>>> {
        Box::pin(async {
            loop {
                let mut grown = std::pin::pin!(self.grown.notified());
                grown.as_mut().enable();
                self.be_heard().await?;
                self.medium.read(|_| ()).await?;
                let batch = self.find();
                if !batch.is_empty() {
                    return Ok(batch);
                }
                let _ = tokio::time::timeout(HEARTBEAT, grown).await;
            }
        })
    }

    fn commit(&self, work: IngestWork) -> BoxFuture<'_, StoreResult<()>> {
        let (rules, grown) = (self.rules, self.grown.clone());
        let member = self.local.lock().unwrap().member;
        Box::pin(async move {
            let member = member.ok_or_else(|| StoreError::Fenced("it is no member".to_owned()))?;
            if rules.atomic {
                self.call(move |log, now_ms| log.ingest(member, &work, rules, now_ms)).await??;
            } else {
                let offsets = IngestWork { offsets: work.offsets.clone(), ..IngestWork::default() };
                self.call(move |log, now_ms| log.commit_source(member, &offsets, rules, now_ms)).await??;
                self.call(move |log, _| log.take_in(&work)).await?;
            }
            grown.notify_waiters();
            Ok(())
        })
    }

    fn rewind(&self) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async {
            let committed = self
                .medium
                .read(|log| log.source.places.iter().map(|place| place.committed).collect::<Vec<_>>());
            let committed = committed.await?;
            for (place, at) in &mut self.local.lock().unwrap().positions {
                *at = committed[*place as usize];
            }
            Ok(())
        })
    }

    fn lag(&self) -> BoxFuture<'_, StoreResult<Lag>> {
        Box::pin(self.medium.read(|log| Lag { records: log.source.lag() as u64, oldest_ms: None }))
    }
}

impl Drop for SourceReader {
    fn drop(&mut self) {
        let silent = self.link.crashed.load(Ordering::Relaxed) || self.link.is_cut();
        if let Some(member) = self.local.lock().unwrap().member.filter(|_| !silent) {
            self.medium.data().source.group.leave(member);
        }
    }
}
