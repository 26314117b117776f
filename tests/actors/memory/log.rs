//! The transfer log and its one consumer group, beside the source from which it comes.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dispatcher::domain::transfer::{NewTransfer, Sequence, SourcePosition, Transfer, partition_of};
use dispatcher::ports::event_log::{
    BatchLimits, DeadLetter, EventLog, Lag, NewRecord, SendPermission, SourceConsumer, TransferConsumer,
    TransferEvent,
};
use dispatcher::ports::{BoxFuture, StoreError, StoreResult};
use tokio::sync::Notify;

use super::Medium;
use super::group::Group;
use super::member::Link;
use super::source::{IngestRules, Source, SourceReader};

pub(crate) const INCARNATION: u32 = 1;

pub(crate) struct LogData {
    partitions: Vec<Partition>,
    pub(crate) source: Source,
    /// The members that share the partitions, where several processes run.
    pub(crate) group: Group,
    /// What nobody could read, and what the stash refused.
    pub(crate) dead: Vec<DeadLetter>,
    /// Rises with each consumer: an older one commits nothing any more.
    generation: u64,
}

#[derive(Default, Clone)]
struct Partition {
    records: Vec<Arc<Transfer>>,
    next_offset: i64,
    committed: i64,
}

impl LogData {
    pub(crate) fn new(partitions: u32) -> Self {
        Self {
            partitions: vec![Partition::default(); partitions as usize],
            source: Source::new(),
            group: Group::new(partitions),
            dead: Vec::new(),
            generation: 0,
        }
    }

    /// Some records from this offset on.
    pub(crate) fn records(&self, partition: u32, from: i64, most: usize) -> Vec<Arc<Transfer>> {
        let records = &self.partitions[partition as usize].records;
        let first = records.partition_point(|record| record.sequence.offset < from);
        records[first..].iter().take(most).cloned().collect()
    }

    /// Everything in it, in order within each partition.
    pub(crate) fn transfers(&self) -> impl Iterator<Item = &Arc<Transfer>> {
        self.partitions.iter().flat_map(|partition| &partition.records)
    }

    /// An offset that holds no record.
    pub(super) fn skip_one(&mut self, partition: u32) {
        self.partitions[partition as usize].next_offset += 1;
    }

    pub(super) fn push(&mut self, content: NewTransfer, gap: i64) -> Sequence {
        let partition = partition_of(&content.client, self.partitions.len() as u32);
        let place = &mut self.partitions[partition as usize];
        let offset = place.next_offset + gap;
        let sequence = Sequence { incarnation: INCARNATION, partition, offset };
        place.next_offset = offset + 1;
        place.records.push(Arc::new(Transfer { sequence, content }));
        sequence
    }

    pub(crate) fn commit(&mut self, offsets: &BTreeMap<u32, i64>) {
        for (partition, next) in offsets {
            let place = &mut self.partitions[*partition as usize];
            assert!(*next <= place.next_offset, "commit beyond the end");
            place.committed = place.committed.max(*next);
        }
    }

    /// Whether every record is committed, of the source, too.
    pub(crate) fn is_committed(&self) -> bool {
        self.lag() == 0 && self.source.lag() == 0
    }

    pub(crate) fn lag(&self) -> u64 {
        let open = |partition: &Partition| {
            let records = partition.records.iter().rev();
            records.take_while(|record| record.sequence.offset >= partition.committed).count() as u64
        };
        self.partitions.iter().map(open).sum()
    }

    /// The committed offset of a partition.
    pub(crate) fn committed(&self, partition: u32) -> i64 {
        self.partitions[partition as usize].committed
    }
}

pub(crate) struct MemoryLog {
    pub(crate) medium: Arc<Medium<LogData>>,
    pub(crate) grown: Arc<Notify>,
    pub(crate) ingest_rules: IngestRules,
}

impl MemoryLog {
    pub(crate) fn new(medium: Arc<Medium<LogData>>, ingest_rules: IngestRules) -> Self {
        Self { medium, grown: Arc::default(), ingest_rules }
    }

    /// Appends a transfer; `gap` offsets before it are never used, as after a transaction.
    pub(crate) fn push(&self, content: NewTransfer, gap: i64) -> Sequence {
        let sequence = self.medium.data().push(content, gap);
        self.grown.notify_waiters();
        sequence
    }
}

pub(crate) fn nobody_asks<T>() -> StoreResult<T> {
    Err(StoreError::Refused("no actor asks this".to_owned()))
}

impl EventLog for MemoryLog {
    fn append(&self, _: Vec<NewRecord>) -> BoxFuture<'_, StoreResult<Vec<SourcePosition>>> {
        Box::pin(async { nobody_asks() })
    }

    fn partitions(&self) -> u32 {
        self.medium.data().partitions.len() as u32
    }

    fn incarnation(&self) -> u32 {
        INCARNATION
    }

    fn source(&self, _: &str, limits: BatchLimits) -> BoxFuture<'_, StoreResult<Arc<dyn SourceConsumer>>> {
        let reader: Arc<dyn SourceConsumer> =
            Arc::new(SourceReader::new(self, Arc::new(Link::default()), limits));
        Box::pin(async { Ok(reader) })
    }

    fn transfers(
        &self,
        _: &str,
        limits: BatchLimits,
    ) -> BoxFuture<'_, StoreResult<Arc<dyn TransferConsumer>>> {
        Box::pin(async move {
            let open = |log: &mut LogData| {
                log.generation += 1;
                let committed = log.partitions.iter().map(|partition| partition.committed).collect();
                (log.generation, committed)
            };
            let (generation, positions) = self.medium.write(open).await?;
            let places = Places { assigned: false, positions, paused: HashSet::new(), turn: 0 };
            let consumer: Arc<dyn TransferConsumer> = Arc::new(MemoryConsumer {
                medium: self.medium.clone(),
                grown: self.grown.clone(),
                generation,
                limits,
                places: Mutex::new(places),
            });
            Ok(consumer)
        })
    }

    fn append_transfers(&self, transfers: Vec<NewTransfer>) -> BoxFuture<'_, StoreResult<()>> {
        let grown = self.grown.clone();
        Box::pin(self.medium.write(move |log| {
            transfers.into_iter().for_each(|transfer| _ = log.push(transfer, 0));
            grown.notify_waiters();
        }))
    }

    fn keep_dead(&self, letters: Vec<DeadLetter>) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.medium.write(move |log| log.dead.extend(letters)))
    }

    fn dead_letters(&self, _: i64, _: usize) -> BoxFuture<'_, StoreResult<Vec<(i64, DeadLetter)>>> {
        Box::pin(async { nobody_asks() })
    }
}

struct MemoryConsumer {
    medium: Arc<Medium<LogData>>,
    grown: Arc<Notify>,
    generation: u64,
    limits: BatchLimits,
    places: Mutex<Places>,
}

struct Places {
    assigned: bool,
    positions: Vec<i64>,
    paused: HashSet<u32>,
    turn: usize,
}

impl Places {
    fn assign(&mut self) -> Option<BTreeMap<u32, i64>> {
        let first = !std::mem::replace(&mut self.assigned, true);
        first.then(|| (0..).zip(self.positions.iter().copied()).collect())
    }
}

impl MemoryConsumer {
    fn find(&self) -> Option<(u32, Vec<Arc<Transfer>>)> {
        let log = self.medium.data();
        let mut places = self.places.lock().unwrap();
        let count = places.positions.len();
        let most = self.medium.weather.lock().unwrap().rng.usize(1..=self.limits.records);
        for step in 0..count {
            let index = (places.turn + step) % count;
            let (partition, position) = (index as u32, places.positions[index]);
            let found = log.records(partition, position, most);
            if places.paused.contains(&partition) || found.is_empty() {
                continue;
            }
            places.positions[index] = found[found.len() - 1].sequence.offset + 1;
            places.turn = index + 1;
            return Some((partition, found));
        }
        None
    }
}

impl TransferConsumer for MemoryConsumer {
    fn next(&self) -> BoxFuture<'_, StoreResult<TransferEvent>> {
        Box::pin(async {
            loop {
                let mut grown = std::pin::pin!(self.grown.notified());
                grown.as_mut().enable();
                self.medium.read(|_| ()).await?;
                if let Some(committed) = self.places.lock().unwrap().assign() {
                    return Ok(TransferEvent::Assigned(committed));
                }
                if let Some((partition, transfers)) = self.find() {
                    return Ok(TransferEvent::Batch { partition, transfers });
                }
                let _ = tokio::time::timeout(Duration::from_secs(60), grown).await;
            }
        })
    }

    fn commit(&self, offsets: BTreeMap<u32, i64>) -> BoxFuture<'_, StoreResult<()>> {
        let generation = self.generation;
        Box::pin(async move {
            let commit = move |log: &mut LogData| {
                if log.generation != generation {
                    return Err(StoreError::Fenced("another consumer reads this log".to_owned()));
                }
                log.commit(&offsets);
                Ok(())
            };
            self.medium.write(commit).await?
        })
    }

    fn pause(&self, partition: u32) {
        self.places.lock().unwrap().paused.insert(partition);
    }

    fn resume(&self, partition: u32) {
        self.places.lock().unwrap().paused.remove(&partition);
        self.grown.notify_waiters();
    }

    fn permission(&self) -> SendPermission {
        SendPermission::always()
    }

    fn lag(&self) -> BoxFuture<'_, StoreResult<Lag>> {
        Box::pin(self.medium.read(|log| Lag { records: log.lag(), oldest_ms: None }))
    }
}
