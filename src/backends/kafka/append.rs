//! Records that come in over the API: written to the source topics as Connect would write them, a request whole or not at all.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::admin::AdminClient;
use rdkafka::message::{Header, OwnedHeaders};
use tokio::sync::oneshot;

use super::options::REQUEST_TIMEOUT;
use super::producer::{Outgoing, Transactions};
use super::sources::SourceTopics;
use super::topics::{self, Cluster};
use super::watch::Watch;
use super::worker::Worker;
use crate::domain::transfer::SourcePosition;
use crate::ports::event_log::{NewRecord, StillHeld};
use crate::ports::{StoreError, StoreResult};

/// Requests that wait go into one transaction up to this size.
const TOGETHER_BYTES: usize = 16 * 1024 * 1024;

type Positions = StoreResult<Vec<SourcePosition>>;

/// A request that waits.
struct Request {
    records: Vec<NewRecord>,
    answer: oneshot::Sender<Positions>,
}

/// Appends records, many requests in one transaction when they come together.
pub(super) struct Appender {
    admin: Arc<AdminClient<Watch>>,
    sources: SourceTopics,
    worker: Worker,
    /// Topics that were seen.
    known: Mutex<HashSet<Arc<str>>>,
    writing: Arc<Writing>,
}

struct Writing {
    waiting: Mutex<VecDeque<Request>>,
    transactions: Mutex<Transactions>,
}

impl Appender {
    pub(super) fn new(
        admin: Arc<AdminClient<Watch>>,
        sources: SourceTopics,
        transactions: Transactions,
    ) -> StoreResult<Self> {
        let writing = Writing { waiting: Mutex::default(), transactions: Mutex::new(transactions) };
        Ok(Self {
            admin,
            sources,
            worker: Worker::start("kafka-append")?,
            known: Mutex::default(),
            writing: Arc::new(writing),
        })
    }

    /// Writes all records; topics that are missing are made.
    pub(super) async fn append(&self, records: Vec<NewRecord>) -> Positions {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let topics: HashSet<Arc<str>> = records.iter().map(|record| Arc::clone(&record.topic)).collect();
        if let Some(other) = topics.iter().find(|topic| !self.sources.contains(topic)) {
            let problem = format!("topic {other} is not read: it is none of {}", self.sources);
            return Err(StoreError::Refused(problem));
        }
        self.make(topics.clone()).await?;
        let (answer, answered) = oneshot::channel();
        lock(&self.writing.waiting).push_back(Request { records, answer });
        let writing = Arc::clone(&self.writing);
        self.worker
            .run(move || {
                writing.write_waiting();
                Ok(())
            })
            .await?;
        let positions = answered
            .await
            .unwrap_or_else(|_| Err(StoreError::Unavailable("the request was dropped".to_owned())));
        if positions.is_err() {
            // One of them may have been deleted.
            lock(&self.known).retain(|topic| !topics.contains(topic));
        }
        positions
    }

    /// Writes records of any kind in a transaction of their own.
    pub(super) async fn write(&self, records: Vec<Outgoing>) -> StoreResult<()> {
        self.write_while(records, Arc::new(|| true)).await
    }

    /// Writes them if this holds when all is there but the commit.
    pub(super) async fn write_while(&self, records: Vec<Outgoing>, held: StillHeld) -> StoreResult<()> {
        let writing = Arc::clone(&self.writing);
        let write = move || lock(&writing.transactions).write_while(records, None, &*held).map(drop);
        self.worker.run(write).await
    }

    async fn make(&self, mut topics: HashSet<Arc<str>>) -> StoreResult<()> {
        topics.retain(|topic| !lock(&self.known).contains(topic));
        if topics.is_empty() {
            return Ok(());
        }
        let admin = Arc::clone(&self.admin);
        let cluster = self.worker.run(move || Cluster::ask(admin.inner(), REQUEST_TIMEOUT)).await?;
        for topic in &topics {
            if cluster.partitions(topic).is_none() && topics::create_source(&self.admin, topic).await? {
                log::info!("source topic created topic={topic}");
            }
        }
        lock(&self.known).extend(topics);
        Ok(())
    }
}

impl Writing {
    /// Writes what waits by now. A request that the brokers refuse is not to spoil the others.
    fn write_waiting(&self) {
        let mut together = self.take_waiting();
        if together.is_empty() {
            return;
        }
        let mut transactions = lock(&self.transactions);
        match write(&mut transactions, &together) {
            Ok(positions) => {
                for (request, positions) in together.into_iter().zip(positions) {
                    drop(request.answer.send(Ok(positions)));
                }
            }
            Err(err) if err.is_transient() || together.len() == 1 => {
                for request in together {
                    drop(request.answer.send(Err(err.clone())));
                }
            }
            Err(_) => {
                while let Some(request) = together.pop() {
                    let alone = write(&mut transactions, std::slice::from_ref(&request));
                    drop(request.answer.send(alone.map(|mut positions| positions.pop().unwrap_or_default())));
                }
            }
        }
    }

    fn take_waiting(&self) -> Vec<Request> {
        let (mut together, mut bytes) = (Vec::new(), 0);
        let mut waiting = lock(&self.waiting);
        // Nobody learns what becomes of the others.
        waiting.retain(|request| !request.answer.is_closed());
        while let Some(request) = waiting.front() {
            let size: usize = request.records.iter().map(size).sum();
            if !together.is_empty() && bytes + size > TOGETHER_BYTES {
                break;
            }
            bytes += size;
            together.extend(waiting.pop_front());
        }
        together
    }
}

fn write(transactions: &mut Transactions, requests: &[Request]) -> StoreResult<Vec<Vec<SourcePosition>>> {
    let records = requests.iter().flat_map(|request| &request.records).map(outgoing).collect();
    let mut places = transactions.write(records, None)?.into_iter();
    let positions = |request: &Request| {
        let placed = request.records.iter().zip(places.by_ref());
        placed
            .map(|(record, (partition, offset))| SourcePosition {
                topic: record.topic.clone(),
                partition,
                offset,
            })
            .collect()
    };
    Ok(requests.iter().map(positions).collect())
}

fn outgoing(record: &NewRecord) -> Outgoing {
    let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
    for (name, value) in &record.headers {
        headers = headers.insert(Header { key: name, value: Some(&value[..]) });
    }
    Outgoing {
        topic: Arc::clone(&record.topic),
        partition: None,
        key: record.key.clone(),
        value: record.value.clone(),
        headers,
    }
}

fn size(record: &NewRecord) -> usize {
    let headers: usize = record.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    headers
        + record.key.as_ref().map_or(0, |key| key.len())
        + record.value.as_ref().map_or(0, |value| value.len())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
