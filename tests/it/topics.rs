//! What can be wrong, or new, with Kafka's topics while the service runs.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;
use serde_json::{Value, json};

use crate::kit::cluster::Cluster;
use crate::kit::events::Document;
use crate::kit::receiver::Receiver;
use crate::kit::turn::Turn;
use crate::kit::wait::{eventually, holds};

const WITHIN: Duration = Duration::from_secs(60);
/// How soon a new topic is read.
const NEW_TOPIC: Duration = Duration::from_secs(10);

fn admin(cluster: &Cluster) -> AdminClient<DefaultClientContext> {
    ClientConfig::new()
        .set("bootstrap.servers", format!("{}:{}", cluster.kafka.host(), cluster.kafka.port()))
        .create()
        .unwrap()
}

/// The record, as a change of another collection of the same database.
fn of_collection(mut record: Value, collection: &str) -> Value {
    record["topic"] = format!("mongo.wnx-identity.{collection}").into();
    record
}

#[actix_web::test]
async fn a_topic_that_is_made_while_it_runs_is_read_from_its_first_record() {
    let cluster = Cluster::shared("newtopic");
    let service = cluster.replica().start().await;
    let receiver = Receiver::healthy();
    service.api().put_client("acme", json!({ "webhook": receiver.hook("acme") })).await;
    cluster.produce(&[Document::new(1, &["acme"]).create()]).await;
    receiver.ledger().wait_for(1, WITHIN).await;

    let made = Instant::now();
    cluster.produce(&[of_collection(Document::new(2, &["acme"]).create(), "teams")]).await;

    receiver.ledger().wait_for(2, WITHIN).await;
    let took = made.elapsed();
    assert!(took < NEW_TOPIC, "read after {took:?}");
}

#[actix_web::test]
async fn a_record_of_twenty_megabytes_arrives_and_stops_nobody() {
    // A debug build reads it for seconds: on a busy machine that is too long for a thread.
    let turn = Turn::alone();
    let cluster = Cluster::shared("large");
    let service = cluster.replica_in(&turn).start().await;
    let receiver = Receiver::healthy();
    for client in ["acme", "other"] {
        service.api().put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    }
    admin(&cluster)
        .create_topics(
            &[NewTopic::new(&cluster.topic("wnx-identity.users"), 1, TopicReplication::Fixed(1))
                .set("max.message.bytes", "33554432")],
            &AdminOptions::new(),
        )
        .await
        .unwrap();
    let image = json!({ "_id": "big", "clients": ["acme"], "version": 1, "text": "x".repeat(20 << 20) });
    let source = json!({ "name": "mongo", "db": "wnx-identity", "collection": "users", "ts_ms": 1 });
    let value =
        json!({ "before": null, "after": image.to_string(), "source": source, "op": "c", "ts_ms": 2 });
    let key = json!({ "id": "\"big\"" });
    let large =
        json!({ "topic": "mongo.wnx-identity.users", "key": key.to_string(), "value": value.to_string() });

    cluster.produce(&[large, Document::new(1, &["other"]).create()]).await;

    receiver.ledger().wait_for(2, WITHIN).await;
    service.api().wait_until_idle(WITHIN).await;
    let of_acme = receiver.ledger().of("acme");
    assert!(of_acme[0].body.len() > 20 << 20, "{} bytes", of_acme[0].body.len());
}

#[actix_web::test]
async fn a_poisoned_partition_stops_alone_and_says_so() {
    let cluster = Cluster::shared("poison");
    let service = cluster.replica().start().await;
    let receiver = Receiver::healthy();
    let clients: Vec<String> = (0..40).map(|number| format!("client-{number}")).collect();
    for client in &clients {
        service.api().put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    }
    let topic = cluster.transfer_topic();
    let headers = OwnedHeaders::new().insert(Header { key: "format", value: Some("99") });
    let poison = FutureRecord::<str, str>::to(&topic).partition(3).key("x").payload("{}").headers(headers);
    cluster.producer().send(poison, WITHIN).await.unwrap();

    eventually("the log to name the record", WITHIN, async || {
        let log = service.log();
        let line = log.lines().find(|line| line.contains("ERROR") && line.contains(&topic));
        holds(line.is_some_and(|line| line.contains("partition=3") && line.contains("format")), || {
            "no such line".to_owned()
        })
    })
    .await;

    let mut documents: Vec<Document> =
        clients.iter().zip(0..).map(|(client, number)| Document::new(number, &[client])).collect();
    let records: Vec<Value> = documents.iter_mut().map(Document::create).collect();
    cluster.produce(&records).await;
    // Of 12 partitions one stands still: the clients of the others get theirs.
    receiver.ledger().wait_for(clients.len() * 2 / 3, WITHIN).await;
    assert_eq!(service.log().matches("partition=3").count(), 1, "it is said once");
}

#[actix_web::test]
async fn a_transfer_topic_with_other_partitions_than_it_was_made_with_is_refused() {
    let cluster = Cluster::shared("count");
    let mut service = cluster.replica().start().await;
    service.terminate();
    service.wait_for_exit(WITHIN).await;
    let topic = cluster.transfer_topic();
    admin(&cluster).create_partitions(&[NewPartitions::new(&topic, 13)], &AdminOptions::new()).await.unwrap();

    let status = service.start_and_end(WITHIN).await;

    assert!(!status.success());
    let log = service.log();
    let last = log.lines().last().unwrap_or_default();
    for part in [topic.as_str(), "13", "12"] {
        assert!(last.contains(part), "{part} is not in: {last}");
    }
}
