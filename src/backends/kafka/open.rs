//! Opens the log: topics and registry must agree on what the transfer log is.

use std::collections::BTreeMap;
use std::sync::Arc;

use rdkafka::admin::AdminClient;
use rdkafka::consumer::BaseConsumer;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::KafkaEventLog;
use super::append::Appender;
use super::ends::Ends;
use super::errors::{OpenError, open_error};
use super::gaps::{Gaps, TellOperator};
use super::ingest::{Destinations, Limits};
use super::member::Member;
use super::offsets::{self, Partition, Point};
use super::options::{KafkaOptions, MAX_RECORD_BYTES, REQUEST_TIMEOUT, owned_option};
use super::probe::reachable;
use super::producer::Transactions;
use super::topics::{Found, OurTopic, check, ensure};
use super::watch::Watch;
use super::worker::Worker;
use crate::metrics::Metrics;
use crate::ports::StoreResult;
use crate::ports::clock::Clock;
use crate::ports::log_registry::{KnownLog, LogRegistry};

impl KafkaEventLog {
    /// Opens the log; makes its topics when they are missing. The brokers are waited for some seconds. `tell` hears of records that are
    /// gone before they were read.
    ///
    /// # Errors
    ///
    /// [`OpenError::Unavailable`] when brokers or registry cannot be asked now; another when somebody must see to it.
    pub async fn open(
        options: KafkaOptions,
        registry: Arc<dyn LogRegistry>,
        clock: Arc<dyn Clock>,
        metrics: &Metrics,
        tell: TellOperator,
    ) -> Result<Self, OpenError> {
        check_names(&options)?;
        let watch = Watch::default();
        let admin: Arc<AdminClient<Watch>> =
            Arc::new(options.reader().create_with_context(watch.clone()).map_err(open_error)?);
        let worker = Arc::new(Worker::start("kafka-ask")?);
        if let Err(why) = reachable(&options).await {
            return Err(OpenError::Unavailable(why));
        }
        let known = registry.find(&options.transfer_topic).await?;
        let partitions = known.as_ref().map_or(options.partitions.max(1), |known| known.partitions);
        let topic = OurTopic {
            name: &options.transfer_topic,
            partitions: partitions as usize,
            retention: options.retention,
        };
        let found = ensure(&admin, &worker, &topic).await?;
        // At once: whoever comes after a crash finds the topic, and cannot know that it is a new one.
        let log = remembered(&options, &*registry, &worker, &watch, known, found).await?;
        let transfer_bytes = check(&admin, topic.name).await?;
        let topic = OurTopic::dead_letters(&options.dead_topic);
        let found = ensure(&admin, &worker, &topic).await?;
        check_partitions(topic.name, found.partitions, topic.partitions)?;
        let dead_bytes = check(&admin, topic.name).await?;
        let mut transactions = Transactions::new(
            options.producer("append", MAX_RECORD_BYTES),
            options.transaction_timeout(),
            watch.clone(),
        );
        let begun = move || Ok((transactions.begin(), transactions));
        let (begun, transactions) = worker.run(begun).await?;
        begun?;
        Ok(Self {
            destinations: Destinations {
                transfers: options.transfer_topic.as_str().into(),
                partitions: log.partitions,
                dead: options.dead_topic.as_str().into(),
                limits: Arc::new(Limits::new(transfer_bytes, dead_bytes)),
            },
            incarnation: log.incarnation,
            appender: Appender::new(Arc::clone(&admin), options.sources(), transactions)?,
            ends: Arc::new(Ends::new(options.reader(), watch.clone())?),
            options,
            registry,
            gaps: Gaps::new(metrics.gaps.clone(), tell, Arc::clone(&clock)),
            clock,
            admin,
            watch,
            worker,
            members: watch::Sender::new(()),
            stop: CancellationToken::new(),
        })
    }
}

fn check_names(options: &KafkaOptions) -> Result<(), OpenError> {
    if let Some(name) = options.options.keys().find(|name| owned_option(name)) {
        return Err(OpenError::Option(format!("{name}: the service sets it itself")));
    }
    for topic in [&options.transfer_topic, &options.dead_topic, &options.events_topic] {
        if options.sources().contains(topic) {
            let (topic, sources) = (topic.clone(), options.sources().to_string());
            return Err(OpenError::SourceTopic { topic, sources });
        }
    }
    Ok(())
}

fn check_partitions(topic: &str, found: usize, expected: usize) -> Result<(), OpenError> {
    if found == expected {
        return Ok(());
    }
    Err(OpenError::Partitions { topic: topic.to_owned(), found, expected })
}

/// What the registry knows of the transfer topic from now on: the log that it knew, or a new one.
async fn remembered(
    options: &KafkaOptions,
    registry: &dyn LogRegistry,
    worker: &Worker,
    watch: &Watch,
    known: Option<KnownLog>,
    found: Found,
) -> Result<KnownLog, OpenError> {
    let topic = &options.transfer_topic;
    let partitions = u32::try_from(found.partitions).unwrap_or(u32::MAX);
    let log = match known {
        None => registry.register(topic, partitions, None).await?,
        Some(known) => {
            check_partitions(topic, found.partitions, known.partitions as usize)?;
            let again = found.is_new || is_shorter(options, worker, watch, &known).await?;
            if again {
                log::error!(
                    "transfer topic was made again: what was in it is gone topic={topic} incarnation={}",
                    known.incarnation
                );
                registry.register(topic, partitions, Some(known.incarnation)).await?
            } else {
                known
            }
        }
    };
    check_partitions(topic, found.partitions, log.partitions as usize)?;
    if log.partitions != options.partitions {
        log::warn!(
            "transfer log keeps the partitions of its creation partitions={} configured={}",
            log.partitions,
            options.partitions
        );
    }
    Ok(log)
}

/// Whether a partition ends before the offset that was committed in it: it is not the topic that it was.
async fn is_shorter(
    options: &KafkaOptions,
    worker: &Worker,
    watch: &Watch,
    known: &KnownLog,
) -> StoreResult<bool> {
    let (config, watch) = (options.reader(), watch.clone());
    let topic: Arc<str> = options.transfer_topic.as_str().into();
    let committed: BTreeMap<Partition, i64> = known
        .committed
        .iter()
        .filter_map(|(partition, next)| Some(((Arc::clone(&topic), i32::try_from(*partition).ok()?), *next)))
        .collect();
    worker
        .run(move || {
            let reader = Member::new(watch);
            let consumer: BaseConsumer<Member> = config.create_with_context(reader)?;
            let partitions: Vec<Partition> = committed.keys().cloned().collect();
            let ends = offsets::find(&consumer, &partitions, Point::End, REQUEST_TIMEOUT)?;
            Ok(ends.iter().any(|(partition, end)| committed.get(partition).is_some_and(|next| next > end)))
        })
        .await
}
