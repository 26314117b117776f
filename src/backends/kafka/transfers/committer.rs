//! The thread that commits: what is asked, and unchanged offsets every two seconds, so that the permission to send goes on.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::topic_partition_list::Offset;
use tokio::sync::oneshot;

use super::super::member::{Member, ended};
use super::super::offsets::{Partition, list_of};
use super::{Closing, Shared};
use crate::ports::clock::Clock;
use crate::ports::{StoreError, StoreResult};

/// Without a commit for this long the unchanged offsets are committed.
const IDLE_COMMIT: Duration = Duration::from_secs(2);

/// After a commit that gave no permission.
const COMMIT_AGAIN: Duration = Duration::from_millis(500);

/// A deadline for requests ends this long before the group may give the partitions to another.
const MARGIN: Duration = Duration::from_secs(1);

/// What the committer is asked.
enum Ask {
    Commit(BTreeMap<u32, i64>, oneshot::Sender<StoreResult<()>>),
    /// There are new partitions: the permission to send waits for a commit.
    Now,
}

/// Asks the thread. It ends when the last of these is dropped.
#[derive(Clone)]
pub(super) struct Committer(mpsc::Sender<Ask>);

impl Committer {
    /// Starts the thread.
    pub(super) fn start(
        shared: Arc<Shared>,
        consumer: Weak<BaseConsumer<Member>>,
        topic: Arc<str>,
        clock: Arc<dyn Clock>,
        session_timeout: Duration,
    ) -> StoreResult<Self> {
        let (asks, asked) = mpsc::channel();
        // A consumer that cannot commit is of no use: whoever reads opens another.
        let closing = Closing(Arc::clone(&shared));
        let proof = session_timeout.saturating_sub(MARGIN).as_millis();
        let committing = Committing {
            shared,
            consumer,
            topic,
            clock,
            proof_ms: i64::try_from(proof).unwrap_or(i64::MAX),
            due: Instant::now() + IDLE_COMMIT,
        };
        thread::Builder::new()
            .name("kafka-commit".to_owned())
            .spawn(move || {
                let _closing = closing;
                committing.run(&asked);
            })
            .map_err(|err| StoreError::Unavailable(format!("no thread: {err}")))?;
        Ok(Self(asks))
    }

    pub(super) async fn commit(&self, offsets: BTreeMap<u32, i64>) -> StoreResult<()> {
        self.ask(|answer| Ask::Commit(offsets, answer)).await
    }

    /// Commits all offsets now.
    pub(super) fn prove(&self) {
        // Nobody is left to send anything when the thread has ended.
        let _ = self.0.send(Ask::Now);
    }

    async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<StoreResult<T>>) -> Ask) -> StoreResult<T> {
        let (answer, answered) = oneshot::channel();
        self.0.send(ask(answer)).map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }
}

struct Committing {
    shared: Arc<Shared>,
    /// The reader's: it leaves the group when the reader ends.
    consumer: Weak<BaseConsumer<Member>>,
    topic: Arc<str>,
    clock: Arc<dyn Clock>,
    /// How long a commit proves that the partitions are ours, from the time on at which it was sent.
    proof_ms: i64,
    due: Instant,
}

impl Committing {
    fn run(mut self, asked: &mpsc::Receiver<Ask>) {
        loop {
            match asked.recv_timeout(self.due.saturating_duration_since(Instant::now())) {
                Ok(Ask::Commit(offsets, answer)) => drop(answer.send(self.commit(&offsets))),
                Ok(Ask::Now) => self.prove(),
                Err(RecvTimeoutError::Timeout) => self.prove(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn commit(&mut self, offsets: &BTreeMap<u32, i64>) -> StoreResult<()> {
        if offsets.is_empty() {
            return Ok(());
        }
        let Some(consumer) = self.consumer.upgrade() else { return Err(ended()) };
        let shared = Arc::clone(&self.shared);
        let _committing = shared.committing();
        let offsets = self.shared.lock().places.check(offsets)?;
        let partitions: BTreeMap<Partition, i64> =
            offsets.iter().map(|(partition, next)| (self.partition(*partition), *next)).collect();
        let list = list_of(partitions.iter().map(|(partition, next)| (partition, Offset::Offset(*next))))?;
        let sent_ms = self.clock.boot_ms();
        consumer.commit(&list, CommitMode::Sync)?;
        self.shared.permission.extend(sent_ms.saturating_add(self.proof_ms));
        self.shared.lock().places.committed(&offsets);
        self.due = Instant::now() + IDLE_COMMIT;
        Ok(())
    }

    /// Commits what is committed: the answer proves that the partitions are ours.
    fn prove(&mut self) {
        let all = self.shared.lock().places.all();
        self.due = Instant::now() + IDLE_COMMIT;
        if let Err(err) = self.commit(&all) {
            log::debug!("unchanged offsets were not committed err={err}");
            self.due = Instant::now() + COMMIT_AGAIN;
        } else if !all.is_empty() && !self.shared.permission.allows(self.clock.boot_ms()) {
            // It was withdrawn, and is given back when everybody knows what was lost.
            self.due = Instant::now() + COMMIT_AGAIN;
        }
    }

    fn partition(&self, partition: u32) -> Partition {
        (Arc::clone(&self.topic), i32::try_from(partition).unwrap_or(i32::MAX))
    }
}
