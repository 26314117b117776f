//! A wrong password of one store: the service says which, shows no secret, waits for it to be put right, and goes on with the rest.

use std::time::Duration;

use serde_json::json;

use crate::kit::cluster::Cluster;
use crate::kit::events::Document;
use crate::kit::health::{healthy_again, status_names};
use crate::kit::receiver::Receiver;
use crate::kit::service::Service;
use crate::kit::wait::{eventually, holds};
use crate::services::{Kind, PASSWORD, USER};

const WITHIN: Duration = Duration::from_secs(60);
const WRONG: &str = "hunter2";

/// Warnings and errors of a service that name this store.
fn complaints(service: &Service, store: &str) -> Vec<String> {
    let log = service.log();
    let said = |line: &&str| (line.contains(" WARN ") || line.contains(" ERROR ")) && line.contains(store);
    log.lines().filter(said).map(str::to_owned).collect()
}

/// The service says in its log that this store does not let it in, and shows no password there and on `/status`.
async fn says(service: &mut Service, store: &str, words: &str) {
    status_names(service, &[store], WITHIN).await;
    let line = eventually(&format!("a line about {store}"), WITHIN, async || {
        let complaints = complaints(service, store);
        let line = complaints.iter().find(|line| line.to_lowercase().contains(words)).cloned();
        line.ok_or_else(|| format!("none says {words:?}: {complaints:#?}"))
    })
    .await;
    eprintln!("{line}");
    eventually("the reason on /status", WITHIN, async || {
        let status = service.api().get("/status").await?.text();
        holds(status.to_lowercase().contains(words), || status)
    })
    .await;
    let status = service.api().get("/status").await.unwrap().text();
    for secret in [WRONG, PASSWORD] {
        assert!(!service.log().contains(secret) && !status.contains(secret), "{secret} is shown");
    }
    assert!(complaints(service, store).len() <= 3, "said once: {:#?}", complaints(service, store));
    assert!(!service.has_ended());
    assert_eq!(service.api().get("/livez").await.unwrap().status, 200);
}

async fn delivers(service: &Service, cluster: &Cluster, receiver: &Receiver, number: u64) {
    cluster.produce(&[Document::new(number, &["acme"]).create()]).await;
    let arrived = receiver.ledger().wait_for_client("acme", number as usize, WITHIN).await;
    assert_eq!(arrived.len(), number as usize, "{}", service.log());
}

#[actix_web::test]
async fn of_redis_stops_no_delivery() {
    let cluster = Cluster::with_password("redispw", Kind::Redis).env("REDIS_PASSWORD", WRONG);
    let mut redis = redis::Client::open(cluster.redis.url()).unwrap().get_connection().unwrap();
    let mut service = cluster.replica().start().await;
    let receiver = Receiver::healthy();
    service.api().put_client("acme", json!({ "webhook": receiver.hook("acme") })).await;
    says(&mut service, "redis", "password").await;
    delivers(&service, &cluster, &receiver, 1).await;

    let mut set = |password: &str| {
        redis::cmd("CONFIG").arg("SET").arg("requirepass").arg(password).exec(&mut redis).unwrap();
        // Who is logged in stays so.
        let kill = redis::cmd("CLIENT").arg("KILL").arg("SKIPME").arg("yes").to_owned();
        kill.exec(&mut redis).unwrap();
    };
    set(WRONG);
    healthy_again(&service, WITHIN).await;
    delivers(&service, &cluster, &receiver, 2).await;

    // It becomes wrong while the service runs.
    set(PASSWORD);
    status_names(&service, &["redis"], WITHIN).await;
    delivers(&service, &cluster, &receiver, 3).await;
    set(WRONG);
    healthy_again(&service, WITHIN).await;
    delivers(&service, &cluster, &receiver, 4).await;
}

#[actix_web::test]
async fn of_postgres_is_waited_for() {
    let cluster = Cluster::with_password("pgpw", Kind::Postgres).env("POSTGRES_PASSWORD", WRONG);
    let mut service = cluster.replica().launch();
    says(&mut service, "postgres", "password").await;

    let (client, connection) =
        tokio_postgres::connect(cluster.postgres.url(), tokio_postgres::NoTls).await.unwrap();
    actix_web::rt::spawn(connection);
    client.batch_execute(&format!("ALTER USER postgres PASSWORD '{WRONG}'")).await.unwrap();

    service.wait_until_ready().await;
    healthy_again(&service, WITHIN).await;
    let receiver = Receiver::healthy();
    service.api().put_client("acme", json!({ "webhook": receiver.hook("acme") })).await;
    delivers(&service, &cluster, &receiver, 1).await;
}

#[actix_web::test]
async fn of_mongo_is_waited_for() {
    let cluster =
        Cluster::with_password("mongopw", Kind::Mongo).env("MONGO_USER", USER).env("MONGO_PASS", WRONG);
    let mut service = cluster.replica().launch();
    says(&mut service, "mongo", "auth").await;

    let mongo = mongodb::Client::with_uri_str(cluster.mongo.url()).await.unwrap();
    let update = mongodb::bson::doc! { "updateUser": USER, "pwd": WRONG };
    mongo.database("admin").run_command(update).await.unwrap();

    service.wait_until_ready().await;
    healthy_again(&service, WITHIN).await;
    let receiver = Receiver::healthy();
    service.api().put_client("acme", json!({ "webhook": receiver.hook("acme") })).await;
    delivers(&service, &cluster, &receiver, 1).await;
}

/// The broker has the passwords in its settings: there is nothing to put right while it runs.
#[actix_web::test]
async fn of_kafka_is_waited_for() {
    let cluster = Cluster::with_password("kafkapw", Kind::Kafka)
        .env("DISPATCHER_KAFKA__SECURITY_PROTOCOL", "SASL_PLAINTEXT")
        .env("DISPATCHER_KAFKA__SASL_MECHANISMS", "PLAIN")
        .env("DISPATCHER_KAFKA__SASL_USERNAME", USER)
        .env("DISPATCHER_KAFKA__SASL_PASSWORD", WRONG);
    let mut service = cluster.replica().launch();
    says(&mut service, "kafka", "authentication").await;
}
