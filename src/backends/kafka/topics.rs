//! Our own topics: made when they are missing, checked when they are there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::Client;
use rdkafka::error::RDKafkaErrorCode as Code;

use super::errors::{OpenError, classed};
use super::offsets::Partition;
use super::options::{MAX_RECORD_BYTES, REQUEST_TIMEOUT};
use super::sources::SourceTopics;
use super::watch::Watch;
use super::worker::Worker;
use crate::ports::{StoreError, StoreResult};

/// Dead letters are kept as long as dead rows of the stash.
const DEAD_RETENTION: Duration = Duration::from_secs(100 * 24 * 3600);

/// Operational events are few, and small.
const EVENTS_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a topic has when nobody set it otherwise.
const DEFAULT_MAX_MESSAGE_BYTES: usize = 1_048_588;

/// The cluster as it was when it was asked.
pub(super) struct Cluster {
    /// Partitions by topic.
    topics: BTreeMap<String, usize>,
    brokers: usize,
}

impl Cluster {
    /// Asks the brokers; blocks. Of all topics: asking for one may create it.
    pub(super) fn ask(client: &Client<Watch>, timeout: Duration) -> StoreResult<Self> {
        let metadata = client.fetch_metadata(None, timeout)?;
        let topics = metadata.topics().iter().filter(|topic| topic.error().is_none());
        Ok(Self {
            topics: topics.map(|topic| (topic.name().to_owned(), topic.partitions().len())).collect(),
            brokers: metadata.brokers().len(),
        })
    }

    /// The partitions of a topic; `None`: there is no such topic.
    pub(super) fn partitions(&self, topic: &str) -> Option<usize> {
        self.topics.get(topic).copied().filter(|partitions| *partitions > 0)
    }

    /// The partitions of the source topics that exist.
    pub(super) fn partitions_of(&self, sources: &SourceTopics) -> Vec<Partition> {
        let ours = self.topics.iter().filter(|(topic, _)| sources.contains(topic));
        ours.flat_map(|(topic, partitions)| {
            let topic: Arc<str> = topic.as_str().into();
            (0..i32::try_from(*partitions).unwrap_or(0)).map(move |partition| (Arc::clone(&topic), partition))
        })
        .collect()
    }
}

/// A topic of ours.
pub(super) struct OurTopic<'a> {
    pub(super) name: &'a str,
    pub(super) partitions: usize,
    pub(super) retention: Duration,
}

impl<'a> OurTopic<'a> {
    pub(super) fn dead_letters(name: &'a str) -> Self {
        Self { name, partitions: 1, retention: DEAD_RETENTION }
    }

    pub(super) fn operational_events(name: &'a str) -> Self {
        Self { name, partitions: 1, retention: EVENTS_RETENTION }
    }
}

/// A topic of ours that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) partitions: usize,
    /// Whether it was not there a moment ago: we made it, or somebody who was quicker.
    pub(super) is_new: bool,
}

/// Makes the topic if it is missing.
pub(super) async fn ensure(
    admin: &Arc<AdminClient<Watch>>,
    worker: &Worker,
    topic: &OurTopic<'_>,
) -> StoreResult<Found> {
    let mut is_new = false;
    for _ in 0..ASKED {
        let client = Arc::clone(admin);
        let cluster = worker.run(move || Cluster::ask(client.inner(), REQUEST_TIMEOUT)).await?;
        match cluster.partitions(topic.name) {
            Some(partitions) => return Ok(Found { partitions, is_new }),
            None if is_new => tokio::time::sleep(Duration::from_millis(100)).await,
            None => create(admin, cluster.brokers, topic).await?,
        }
        is_new = true;
    }
    Err(StoreError::Unavailable(format!("topic {} was created and is not there", topic.name)))
}

/// A topic that was just made is asked for this often: the brokers tell each other.
const ASKED: usize = 50;

async fn create(admin: &AdminClient<Watch>, brokers: usize, topic: &OurTopic<'_>) -> StoreResult<()> {
    let replicas = brokers.clamp(1, 3);
    let (retention, bytes) = (topic.retention.as_millis().to_string(), MAX_RECORD_BYTES.to_string());
    let partitions = i32::try_from(topic.partitions).unwrap_or(i32::MAX);
    let mut new = NewTopic::new(topic.name, partitions, TopicReplication::Fixed(replicas as i32))
        .set("max.message.bytes", &bytes)
        .set("compression.type", "zstd")
        .set("retention.ms", &retention)
        .set("cleanup.policy", "delete");
    if replicas == 3 {
        new = new.set("min.insync.replicas", "2");
    }
    if create_topic(admin, &new).await? {
        log::info!("topic created topic={} partitions={partitions} replicas={replicas}", topic.name);
    }
    Ok(())
}

/// Makes a source topic that somebody posts to, as the brokers make topics. `false`: it is there.
pub(super) async fn create_source(admin: &AdminClient<Watch>, name: &str) -> StoreResult<bool> {
    let bytes = MAX_RECORD_BYTES.to_string();
    // -1: as the brokers are set.
    let new = NewTopic::new(name, -1, TopicReplication::Fixed(-1)).set("max.message.bytes", &bytes);
    create_topic(admin, &new).await
}

async fn create_topic(admin: &AdminClient<Watch>, topic: &NewTopic<'_>) -> StoreResult<bool> {
    let options = AdminOptions::new()
        .operation_timeout(Some(REQUEST_TIMEOUT))
        .request_timeout(Some(REQUEST_TIMEOUT + Duration::from_secs(2)));
    let results = admin.create_topics([topic], &options).await?;
    match results.into_iter().next() {
        Some(Ok(_)) => Ok(true),
        Some(Err((_, Code::TopicAlreadyExists))) => Ok(false),
        Some(Err((name, code))) => Err(classed(code, format!("topic {name} cannot be created: {code}"))),
        None => Err(StoreError::Unavailable("no answer to the creation of a topic".to_owned())),
    }
}

/// Looks at the settings of a topic. Returns the largest record that it takes.
pub(super) async fn check(admin: &AdminClient<Watch>, topic: &str) -> Result<usize, OpenError> {
    let Some(entries) = settings_of(admin, topic).await? else {
        log::warn!("settings of a topic may not be seen topic={topic}");
        return Ok(DEFAULT_MAX_MESSAGE_BYTES);
    };
    match value(&entries, "cleanup.policy") {
        Some(policy) if policy.contains("compact") => {
            let (topic, policy) = (topic.to_owned(), policy.to_owned());
            return Err(OpenError::CleanupPolicy { topic, policy });
        }
        _ => {}
    }
    let bytes = max_message_bytes(&entries);
    if bytes < MAX_RECORD_BYTES {
        log::warn!(
            "topic takes no large records: they become dead letters topic={topic} max.message.bytes={bytes}"
        );
    }
    Ok(bytes.min(MAX_RECORD_BYTES))
}

/// The largest record that a topic takes now. `None`: we are not allowed to see it.
pub(super) async fn largest_record(admin: &AdminClient<Watch>, topic: &str) -> StoreResult<Option<usize>> {
    let entries = settings_of(admin, topic).await?;
    Ok(entries.as_ref().map(|entries| max_message_bytes(entries).min(MAX_RECORD_BYTES)))
}

fn max_message_bytes(entries: &ConfigResource) -> usize {
    let bytes = value(entries, "max.message.bytes").and_then(|bytes| bytes.parse().ok());
    bytes.unwrap_or(DEFAULT_MAX_MESSAGE_BYTES)
}

fn value<'a>(entries: &'a ConfigResource, name: &str) -> Option<&'a str> {
    entries.get(name).and_then(|entry| entry.value.as_deref())
}

/// `None`: we are not allowed to see them.
async fn settings_of(admin: &AdminClient<Watch>, topic: &str) -> StoreResult<Option<ConfigResource>> {
    let options = AdminOptions::new().request_timeout(Some(REQUEST_TIMEOUT));
    let resource = [ResourceSpecifier::Topic(topic)];
    let answers = admin.describe_configs(&resource, &options).await?;
    match answers.into_iter().next() {
        Some(Ok(entries)) => Ok(Some(entries)),
        Some(Err(Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed)) => Ok(None),
        Some(Err(code)) => Err(StoreError::Unavailable(format!("topic {topic}: {code}"))),
        None => Err(StoreError::Unavailable(format!("no answer for topic {topic}"))),
    }
}
