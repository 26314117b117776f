//! Looks at the brokers from outside: topics, what they are set to, and what is allowed. Changes nothing: topics that are missing
//! are only asked for.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::producer::{BaseProducer, Producer as _};
use rdkafka::{ClientConfig, ClientContext};

use super::errors::refused_transactions;
use super::options::{KafkaOptions, MAX_RECORD_BYTES, REQUEST_TIMEOUT, millis};
use super::sources::SourceTopics;
use super::watch::Watch;
use crate::ports::findings::Findings;

const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// It is a list.
const DEAD_PARTITIONS: u32 = 1;

/// They are few.
const EVENTS_PARTITIONS: u32 = 1;

/// Transfers that nobody reads for so long would be gone: an outage of a weekend is to be outlived.
const LEAST_RETENTION: Duration = Duration::from_secs(3 * 24 * 3600);

/// Looks whether the brokers can hold the log, and whether the members of these groups may join. Returns the partitions of the
/// transfer topic; `None`: it is not there, or was not seen.
pub async fn probe(options: &KafkaOptions, groups: &[&str], findings: &mut Findings) -> Option<u32> {
    let admin = match options.reader().create_with_context::<_, AdminClient<Watch>>(Watch::default()) {
        Ok(admin) => Arc::new(admin),
        Err(KafkaError::ClientConfig(_, _, name, _)) => {
            let advice = format!("correct or remove {name} in [kafka.options] and DISPATCHER_KAFKA__*");
            findings.fault("settings", format!("librdkafka does not take {name}"), advice);
            return None;
        }
        Err(err) => {
            findings.fault("settings", err.to_string(), "see [kafka.options]");
            return None;
        }
    };
    let metadata = match metadata(options, ANSWER_WITHIN).await {
        Ok(metadata) => metadata,
        Err(err) => {
            let advice = "start them, or set KAFKA_BROKERS; TLS and SASL are set by DISPATCHER_KAFKA__SECURITY_PROTOCOL and the like";
            findings.fault("connection", err, advice);
            return None;
        }
    };
    let brokers = metadata.brokers().len();
    findings.ok("connection", format!("answers, brokers: {brokers}"));
    sources(&metadata, &options.sources(), &options.source_prefix, findings);
    let ours = [
        ("transfer topic", &options.transfer_topic, options.partitions),
        ("dead topic", &options.dead_topic, DEAD_PARTITIONS),
    ];
    let there = |name: &str| {
        let mut topics = metadata.topics().iter();
        topics.find(|topic| topic.name() == name && !topic.partitions().is_empty())
    };
    for (check, name, partitions) in ours {
        match there(name) {
            Some(topic) => {
                let set = describe(&admin, topic.name()).await;
                judge(check, &Topic::read(topic, set.as_ref().ok(), brokers), findings);
                if let Err(err) = set {
                    findings.warning(
                        check,
                        format!("its settings cannot be seen: {err}"),
                        "allow DescribeConfigs",
                    );
                }
            }
            None => {
                if let Err(why) = creation(&admin, check, name, partitions, brokers, findings).await {
                    let advice = "allow Create on it, or make it by hand: docs/cluster.md has its settings";
                    findings.fault(check, format!("is missing, and would not be made: {why}"), advice);
                }
            }
        }
    }
    let events = "events topic";
    match there(&options.events_topic) {
        Some(topic) => findings.ok(events, format!("partitions: {}", topic.partitions().len())),
        None => {
            if let Err(why) =
                creation(&admin, events, &options.events_topic, EVENTS_PARTITIONS, brokers, findings).await
            {
                let advice = "allow Create on it, or name another: DISPATCHER_EVENTS_TOPIC. Operational events go nowhere else meanwhile";
                findings.warning(events, format!("is missing, and would not be made: {why}"), advice);
            }
        }
    }
    transactions(options, findings).await;
    if let Some(dead) =
        there(&options.dead_topic).filter(|dead| dead.partitions().len() != DEAD_PARTITIONS as usize)
    {
        let found = format!("partitions: {}, not {DEAD_PARTITIONS}", dead.partitions().len());
        findings.fault("dead topic", found, "name another topic: DISPATCHER_DEAD_TOPIC");
    }
    for group in groups {
        membership(&admin, group, findings).await;
    }
    there(&options.transfer_topic).and_then(|topic| u32::try_from(topic.partitions().len()).ok())
}

/// Whether the brokers let us in, within this time.
///
/// # Errors
/// Why not, in their words: `SASL authentication error: Authentication failed`.
pub(super) async fn reachable(options: &KafkaOptions) -> Result<(), String> {
    metadata(options, REQUEST_TIMEOUT).await.map(drop)
}

async fn metadata(options: &KafkaOptions, within: Duration) -> Result<Metadata, String> {
    let reader = options.reader();
    blocking(move || ask(&reader, within)).await
}

/// Keeps the first thing that a client says of its brokers: the cause. What follows says that none is left.
#[derive(Clone, Default)]
struct Heard(Arc<OnceLock<String>>);

impl ClientContext for Heard {
    /// What it logs comes as an error too.
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, _: KafkaError, reason: &str) {
        // The later ones are refused.
        let _ = self.0.set(reason.to_owned());
    }
}

impl ConsumerContext for Heard {}

/// Asks for all topics. Blocks. Only a consumer hears why it has no connection.
fn ask(config: &ClientConfig, within: Duration) -> Result<Metadata, String> {
    let heard = Heard::default();
    let consumer: BaseConsumer<Heard> =
        config.create_with_context(heard.clone()).map_err(|err| err.to_string())?;
    consumer.fetch_metadata(None, within).map_err(|err| {
        // An error is handed out by a poll.
        while heard.0.get().is_none() && consumer.poll(Duration::from_millis(100)).is_some() {}
        heard.0.get().cloned().unwrap_or_else(|| err.to_string())
    })
}

async fn blocking<T: Send + 'static>(
    ask: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(ask).await.map_err(|err| err.to_string())?
}

fn sources(metadata: &Metadata, sources: &SourceTopics, prefix: &str, findings: &mut Findings) {
    let topics = metadata.topics().iter().filter(|topic| sources.contains(topic.name()));
    let (mut count, mut partitions) = (0, 0);
    for topic in topics {
        match topic.error().map(Code::from) {
            None => (count, partitions) = (count + 1, partitions + topic.partitions().len()),
            Some(code) => findings.fault(
                "source topics",
                format!("{}: {code}", topic.name()),
                "allow Read and Describe on them",
            ),
        }
    }
    if count == 0 {
        findings.warning(
            "source topics",
            format!("none is named {prefix}.<database>.<collection>"),
            "start Debezium, or set DISPATCHER_SOURCE_PREFIX to its topic.prefix; topics of others need the permission Describe",
        );
    } else {
        findings.ok("source topics", format!("topics: {count}, partitions: {partitions}"));
    }
}

/// What matters of a topic of ours.
struct Topic {
    partitions: usize,
    replicas: usize,
    brokers: usize,
    policy: Option<String>,
    max_bytes: Option<usize>,
    retention_ms: Option<i64>,
    min_in_sync: Option<usize>,
    is_unclean: bool,
}

impl Topic {
    fn read(topic: &MetadataTopic, set: Option<&ConfigResource>, brokers: usize) -> Self {
        let value = |name: &str| set.and_then(|set| set.get(name)?.value.clone());
        let number = |name: &str| value(name).and_then(|value| value.parse().ok());
        Self {
            partitions: topic.partitions().len(),
            replicas: topic
                .partitions()
                .iter()
                .map(|partition| partition.replicas().len())
                .min()
                .unwrap_or(0),
            brokers,
            policy: value("cleanup.policy"),
            max_bytes: number("max.message.bytes"),
            retention_ms: value("retention.ms").and_then(|value| value.parse().ok()),
            min_in_sync: number("min.insync.replicas"),
            is_unclean: value("unclean.leader.election.enable").is_some_and(|value| value == "true"),
        }
    }
}

async fn describe(admin: &AdminClient<Watch>, topic: &str) -> Result<ConfigResource, String> {
    let options = AdminOptions::new().request_timeout(Some(ANSWER_WITHIN));
    let resource = [ResourceSpecifier::Topic(topic)];
    let answers = admin.describe_configs(&resource, &options).await.map_err(|err| err.to_string())?;
    let answer = answers.into_iter().next().ok_or("no answer")?;
    answer.map_err(|code| code.to_string())
}

fn judge(check: &'static str, topic: &Topic, findings: &mut Findings) {
    let Topic { partitions, replicas, brokers, .. } = *topic;
    findings.ok(check, format!("partitions: {partitions}, replicas: {replicas}"));
    let least_ms = i64::try_from(LEAST_RETENTION.as_millis()).unwrap_or(i64::MAX);
    if let Some(policy) = topic.policy.as_deref().filter(|policy| policy.contains("compact")) {
        let advice = "set cleanup.policy=delete: compaction takes away records that are not delivered";
        findings.fault(check, format!("cleanup.policy is {policy}"), advice);
    }
    if let Some(bytes) = topic.max_bytes.filter(|bytes| *bytes < MAX_RECORD_BYTES) {
        let advice = format!("set max.message.bytes={MAX_RECORD_BYTES}: larger changes become dead letters");
        findings.warning(check, format!("max.message.bytes is {bytes}"), advice);
    }
    if let Some(ms) = topic.retention_ms.filter(|ms| (0..least_ms).contains(ms)) {
        let advice = format!("set retention.ms={least_ms} or more: what nobody reads for so long is lost");
        findings.warning(check, format!("retention.ms is {ms}"), advice);
    }
    match topic.min_in_sync {
        Some(least) if least > replicas => {
            let advice = "lower min.insync.replicas, or add replicas: nothing can be written";
            findings.fault(check, format!("min.insync.replicas is {least}, replicas: {replicas}"), advice);
        }
        Some(least) if least < 2 && replicas >= 3 => {
            let advice = "set min.insync.replicas=2: one broker that fails may take records with it";
            findings.warning(check, format!("min.insync.replicas is {least}"), advice);
        }
        _ => {}
    }
    if replicas < brokers.min(3) {
        let advice = "give it 3 replicas: one broker that fails stops everything, or takes records with it";
        findings.warning(check, format!("replicas: {replicas}, brokers: {brokers}"), advice);
    }
    if topic.is_unclean {
        let advice = "set unclean.leader.election.enable=false: a broker that is behind may drop records";
        findings.warning(check, "unclean.leader.election.enable is true", advice);
    }
}

/// Asks the brokers whether they would create it, with all that is checked on a creation but the creation itself.
async fn creation(
    admin: &AdminClient<Watch>,
    check: &'static str,
    name: &str,
    partitions: u32,
    brokers: usize,
    findings: &mut Findings,
) -> Result<(), String> {
    let replicas = i32::try_from(brokers.clamp(1, 3)).unwrap_or(1);
    let topic =
        NewTopic::new(name, i32::try_from(partitions).unwrap_or(i32::MAX), TopicReplication::Fixed(replicas));
    let options = AdminOptions::new().request_timeout(Some(ANSWER_WITHIN)).validate_only(true);
    let asked = admin.create_topics([&topic], &options).await;
    match asked.as_deref() {
        Ok([Ok(_)]) => {
            findings.ok(check, format!("will be made, partitions: {partitions}, replicas: {replicas}"));
            Ok(())
        }
        Ok([Err((_, code))]) => Err(code.to_string()),
        Ok(_) => Err("no answer".to_owned()),
        Err(err) => Err(err.to_string()),
    }
}

/// Whether we may write transactions. Begins a producer whose name is the same each time, so that no more than one is left.
async fn transactions(options: &KafkaOptions, findings: &mut Findings) {
    let mut config = options.producer("check", MAX_RECORD_BYTES);
    config.set("transactional.id", "dispatcher-check");
    config.set("transaction.timeout.ms", millis(options.transaction_timeout()));
    let begun = blocking(move || {
        let producer: BaseProducer = config.create().map_err(|err| err.to_string())?;
        Ok(producer.init_transactions(REQUEST_TIMEOUT).map_err(|err| {
            let why = refused_transactions(&err);
            (err.to_string(), why.unwrap_or("see what holds up the coordinator of transactions"))
        }))
    });
    match begun.await {
        Ok(Ok(())) => findings.ok("transactions", "can be written"),
        Ok(Err((found, advice))) => findings.fault("transactions", found, advice),
        Err(err) => findings.fault("transactions", err, "see [kafka.options]"),
    }
}

async fn membership(admin: &Arc<AdminClient<Watch>>, group: &str, findings: &mut Findings) {
    let (asked, name) = (Arc::clone(admin), group.to_owned());
    let listed = blocking(move || {
        let list = asked.inner().fetch_group_list(Some(&name), ANSWER_WITHIN);
        let list = list.map_err(|err| err.to_string())?;
        let found = list.groups().iter().find(|found| found.name() == name && !found.state().is_empty());
        Ok(found.map(|found| (found.state().to_owned(), found.members().len())))
    });
    match listed.await {
        Ok(Some((state, members))) => findings.ok("group", format!("{group}: {state}, members: {members}")),
        Ok(None) => findings.ok("group", format!("{group}: not there yet")),
        Err(err) => {
            findings.fault("group", format!("{group}: {err}"), "allow Read and Describe on the group")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::findings::Outcome;

    const GOOD: Topic = Topic {
        partitions: 12,
        replicas: 3,
        brokers: 5,
        policy: None,
        max_bytes: Some(MAX_RECORD_BYTES),
        retention_ms: Some(7 * 24 * 3_600_000),
        min_in_sync: Some(2),
        is_unclean: false,
    };

    fn outcomes(topic: &Topic) -> Vec<Outcome> {
        let mut findings = Findings::of("kafka");
        judge("transfer topic", topic, &mut findings);
        findings.into_list().into_iter().skip(1).map(|finding| finding.outcome).collect()
    }

    #[test]
    fn a_topic_that_would_lose_records_is_told() {
        assert_eq!(outcomes(&GOOD), []);
        assert_eq!(outcomes(&Topic { retention_ms: Some(-1), ..GOOD }), []);
        for (topic, outcome) in [
            (Topic { policy: Some("compact,delete".to_owned()), ..GOOD }, Outcome::Fault),
            (Topic { min_in_sync: Some(4), ..GOOD }, Outcome::Fault),
            (Topic { min_in_sync: Some(1), ..GOOD }, Outcome::Warning),
            (Topic { max_bytes: Some(1_048_588), ..GOOD }, Outcome::Warning),
            (Topic { retention_ms: Some(3_600_000), ..GOOD }, Outcome::Warning),
            (Topic { replicas: 2, ..GOOD }, Outcome::Warning),
            (Topic { is_unclean: true, ..GOOD }, Outcome::Warning),
        ] {
            assert_eq!(outcomes(&topic), [outcome]);
        }
        let alone = Topic { replicas: 1, brokers: 1, min_in_sync: Some(1), ..GOOD };
        assert_eq!(outcomes(&alone), [], "one broker has one replica");
    }
}
