//! The event log on Kafka.
//!
//! | topic | written by | read by |
//! |---|---|---|
//! | `<prefix>.<db>.<collection>` | Debezium; `append` (`POST /v1/events`) | `source` |
//! | the transfer topic | `ingest`, in one transaction with the source offsets (`producer`) | `transfers` |
//! | the dead topic | the same transaction, and `keep_dead` | `dead` |
//! | the events topic | `operational_events`, made with the first event | others |
//!
//! Everything of librdkafka that blocks runs on threads of ours, never on one of the async runtime.

mod append;
mod dead;
mod ends;
mod errors;
mod filling;
mod gaps;
mod ingest;
mod member;
#[cfg(test)]
mod mock;
mod offsets;
mod open;
mod operational_events;
mod options;
mod probe;
mod producer;
mod progress;
mod record;
mod source;
mod sources;
mod topics;
mod transfers;
mod watch;
mod worker;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::admin::AdminClient;
use tokio::sync::watch::{Receiver, Sender};
use tokio_util::sync::CancellationToken;

use self::append::Appender;
pub use self::errors::OpenError;
use self::ends::Ends;
use self::gaps::Gaps;
pub use self::gaps::TellOperator;
use self::ingest::Destinations;
use self::member::Member;
use self::operational_events::KafkaEventTopic;
pub use self::options::{KafkaOptions, Start, owned_option};
pub use self::probe::probe;
use self::producer::Transactions;
use self::progress::KafkaSourceProgress;
use self::topics::Cluster;
use self::watch::Watch;
use self::worker::Worker;
use crate::domain::transfer::{NewTransfer, SourcePosition};
use crate::ports::clock::Clock;
use crate::ports::event_log::{
    BatchLimits, DeadLetter, EventLog, NewRecord, SourceConsumer, StillHeld, TransferConsumer,
};
use crate::ports::log_registry::{GroupBegin, LogRegistry};
use crate::ports::operational_events::EventTopic;
use crate::ports::source_progress::SourceProgress;
use crate::ports::{BoxFuture, StoreError, StoreResult};

/// What librdkafka may fetch ahead for the source stream, and for all partitions of the transfer log together.
const PREFETCH_BYTES: usize = 16 * 1024 * 1024;

/// The brokers have this long to show that they are well.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(3);

/// Whoever begins a group has this long; others wait until then. He commits in the first half of it, so that he is not overtaken.
const BEGIN_WITHIN: Duration = Duration::from_secs(30);

/// The event log on Kafka.
pub struct KafkaEventLog {
    options: KafkaOptions,
    registry: Arc<dyn LogRegistry>,
    clock: Arc<dyn Clock>,
    admin: Arc<AdminClient<Watch>>,
    watch: Watch,
    gaps: Gaps,
    destinations: Destinations,
    incarnation: u32,
    appender: Appender,
    ends: Arc<Ends>,
    /// Asks what is asked seldom.
    worker: Arc<Worker>,
    /// Consumers hold the other end until they have left their group.
    members: Sender<()>,
    stop: CancellationToken,
}

impl KafkaEventLog {
    /// Whether the brokers answer and every partition of ours is read.
    ///
    /// # Errors
    ///
    /// What is wrong, for people.
    pub async fn health(&self) -> Result<(), String> {
        let admin = Arc::clone(&self.admin);
        let answered = self.worker.run(move || Cluster::ask(admin.inner(), HEALTH_TIMEOUT)).await;
        match answered {
            Ok(_) => self.watch.well(),
            Err(err) => return Err(self.watch.brokers().unwrap_or_else(|| err.to_string())),
        }
        self.watch.stuck().map_or(Ok(()), Err)
    }

    /// Ends all consumers, and waits until they have left their groups, so that others get the partitions at once; without
    /// brokers not longer than 15 s.
    pub async fn close(&self) {
        const LONGEST: Duration = Duration::from_secs(15);
        self.stop.cancel();
        if tokio::time::timeout(LONGEST, self.members.closed()).await.is_err() {
            log::warn!("kafka groups were not left in time");
        }
    }

    /// The topic of the operational events.
    ///
    /// # Errors
    ///
    /// The system gives no thread.
    pub fn operational_events(&self) -> StoreResult<Arc<dyn EventTopic>> {
        Ok(Arc::new(KafkaEventTopic::new(&self.options, self.admin.clone(), self.watch.clone())?))
    }

    /// How far this group has read the source stream.
    pub fn source_progress(&self, group: &str) -> Arc<dyn SourceProgress> {
        let (options, admin) = (self.options.clone(), Arc::clone(&self.admin));
        Arc::new(KafkaSourceProgress::new(options, group.to_owned(), admin, self.watch.clone()))
    }

    fn member(&self) -> Member {
        Member::new(self.watch.clone())
    }

    fn membership(&self) -> Receiver<()> {
        self.members.subscribe()
    }

    async fn open_source(&self, group: String, limits: BatchLimits) -> StoreResult<Arc<dyn SourceConsumer>> {
        self.begin_group(&group).await?;
        let batch_bytes = self.destinations.batch_bytes();
        let reader = source::Reader {
            config: self.options.member(&group, PREFETCH_BYTES),
            subscription: self.options.sources().subscription(),
            member: self.member(),
            limits,
            destinations: self.destinations.clone(),
            admin: Arc::clone(&self.admin),
            ends: Arc::clone(&self.ends),
            transactions: Transactions::new(
                self.options.producer("ingest", batch_bytes),
                self.options.transaction_timeout(),
                self.watch.clone(),
            ),
            gaps: self.gaps.clone(),
            stop: self.stop.clone(),
            left: Box::new(self.membership()),
        };
        Ok(Arc::new(reader.start()?))
    }

    /// Sees to it that a group that was never seen before begins where it should, before it has a member.
    async fn begin_group(&self, group: &str) -> StoreResult<()> {
        let admin = Arc::clone(&self.admin);
        let asked = move || Cluster::ask(admin.inner(), options::REQUEST_TIMEOUT);
        let partitions = self.worker.run(asked).await?.partitions_of(&self.options.sources());
        let (config, member) = (self.options.member(group, PREFETCH_BYTES), self.member());
        let until = Instant::now() + BEGIN_WITHIN / 2;
        match self.registry.begin_group(group, BEGIN_WITHIN).await? {
            GroupBegin::Known => {
                let look = move || source::start::look_for_beginning(&config, member, &partitions);
                Worker::once("kafka-start", look).await
            }
            GroupBegin::Ours => {
                let start = self.options.start;
                let begin = move || source::start::begin_group(&config, member, &partitions, start, until);
                Worker::once("kafka-start", begin).await?;
                // Not before it is committed: whoever comes after a crash between the two begins it again.
                self.registry.group_begun(group).await
            }
            GroupBegin::Others => {
                Err(StoreError::Unavailable(format!("another replica is about to begin group {group}")))
            }
        }
    }

    fn open_transfers(&self, group: &str, limits: BatchLimits) -> StoreResult<Arc<dyn TransferConsumer>> {
        let each = PREFETCH_BYTES * 2 / self.destinations.partitions.max(1) as usize;
        let reader = transfers::Reader {
            config: self.options.member(group, each.max(1 << 20)),
            topic: Arc::clone(&self.destinations.transfers),
            incarnation: self.incarnation,
            member: self.member(),
            limits,
            session_timeout: self.options.session_timeout,
            clock: Arc::clone(&self.clock),
            ends: Arc::clone(&self.ends),
            gaps: self.gaps.clone(),
            watch: self.watch.clone(),
            stop: self.stop.clone(),
            left: Box::new(self.membership()),
        };
        Ok(Arc::new(reader.start()?))
    }
}

impl EventLog for KafkaEventLog {
    fn append(&self, records: Vec<NewRecord>) -> BoxFuture<'_, StoreResult<Vec<SourcePosition>>> {
        Box::pin(self.appender.append(records))
    }

    fn partitions(&self) -> u32 {
        self.destinations.partitions
    }

    fn incarnation(&self) -> u32 {
        self.incarnation
    }

    fn source(
        &self,
        group: &str,
        limits: BatchLimits,
    ) -> BoxFuture<'_, StoreResult<Arc<dyn SourceConsumer>>> {
        Box::pin(self.open_source(group.to_owned(), limits))
    }

    fn transfers(
        &self,
        group: &str,
        limits: BatchLimits,
    ) -> BoxFuture<'_, StoreResult<Arc<dyn TransferConsumer>>> {
        let opened = self.open_transfers(group, limits);
        Box::pin(async move { opened })
    }

    fn append_transfers(&self, transfers: Vec<NewTransfer>) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async move { self.appender.write(self.destinations.transfers(&transfers)?).await })
    }

    fn append_transfers_while(
        &self,
        transfers: Vec<NewTransfer>,
        held: StillHeld,
    ) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async move {
            self.appender.write_while(self.destinations.transfers(&transfers)?, held).await
        })
    }

    fn keep_dead(&self, letters: Vec<DeadLetter>) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async move {
            let records = letters.iter().map(|letter| self.destinations.letter(letter));
            self.appender.write(records.collect::<StoreResult<_>>()?).await
        })
    }

    fn dead_letters(&self, after: i64, limit: usize) -> BoxFuture<'_, StoreResult<Vec<(i64, DeadLetter)>>> {
        let (config, watch) = (self.options.reader(), self.watch.clone());
        let topic = Arc::clone(&self.destinations.dead);
        Box::pin(Worker::once("kafka-dead", move || dead::page(config, watch, &topic, after, limit)))
    }
}
