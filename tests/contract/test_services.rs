//! The test services themselves: they answer, and come back with what they had.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use mongodb::bson::{Document, doc, oid::ObjectId};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use redis::Commands as _;

use crate::fixture::soon;
use crate::services::{self, Kind, Proxy, Service};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn redis_keeps_its_keys_over_a_kill() {
    let redis = services::own_redis();
    let _: () = redis_connection(&redis).set("key", "value").unwrap();
    redis.kill();
    assert!(TcpStream::connect(("127.0.0.1", redis.port())).is_err());
    redis.start_again();
    assert_eq!(redis_connection(&redis).get::<_, String>("key").unwrap(), "value");
}

#[test]
fn a_frozen_service_keeps_its_port_and_does_nothing() {
    let redis = services::own_redis();
    let mut connection = redis_connection(&redis);
    connection.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    redis.freeze();
    assert!(redis::cmd("PING").query::<String>(&mut connection).is_err());
    redis.thaw();
    assert_eq!(redis::cmd("PING").query::<String>(&mut redis_connection(&redis)).unwrap(), "PONG");
}

#[tokio::test]
async fn postgres_keeps_its_rows_over_a_kill() {
    let postgres = services::own_postgres();
    let mut connection = AsyncPgConnection::establish(postgres.url()).await.unwrap();
    connection.batch_execute("CREATE TABLE kept (); INSERT INTO kept DEFAULT VALUES").await.unwrap();
    postgres.freeze();
    let query = diesel::sql_query("SELECT 1");
    let frozen = tokio::time::timeout(Duration::from_millis(200), query.execute(&mut connection)).await;
    assert!(frozen.is_err(), "its sessions stand still too");
    postgres.kill();
    postgres.start_again();
    let mut connection = soon(AsyncPgConnection::establish(postgres.url())).await.unwrap();
    let query = diesel::sql_query("DELETE FROM kept");
    assert_eq!(soon(query.execute(&mut connection)).await.unwrap(), 1);
}

#[tokio::test]
async fn mongo_keeps_its_documents_over_a_kill() {
    let mongo = services::own_mongo();
    let kept = doc! {"_id": ObjectId::new(), "key": "CQRS"};
    configs(mongo.url()).await.insert_one(&kept).await.unwrap();
    mongo.kill();
    mongo.start_again();
    let filter = doc! {"_id": kept.get_object_id("_id").unwrap()};
    assert_eq!(soon(configs(mongo.url()).await.find_one(filter).into_future()).await.unwrap(), Some(kept));
}

#[test]
fn kafka_keeps_its_records_over_a_kill_and_a_cut_of_one_link() {
    let (kafka, proxy) = services::own_kafka_behind_proxy();
    let behind = format!("127.0.0.1:{}", proxy.port());
    produce(&behind, "kept").unwrap();
    proxy.cut();
    produce(&behind, "lost").expect_err("its link is cut");
    assert_eq!(consume(kafka.url(), 1), ["kept"]);
    kafka.kill();
    kafka.start_again();
    proxy.heal();
    produce(&behind, "later").unwrap();
    assert_eq!(consume(kafka.url(), 2), ["kept", "later"]);
}

#[tokio::test]
async fn each_asks_for_a_password_if_told_to() {
    let redis = services::own_with_password(Kind::Redis);
    redis_connection(&redis);
    let wrong = redis.url().replace(services::PASSWORD, "wrong");
    redis::Client::open(wrong).unwrap().get_connection().map(drop).expect_err("Redis takes any password");

    let postgres = services::own_with_password(Kind::Postgres);
    AsyncPgConnection::establish(postgres.url()).await.unwrap();
    let wrong = postgres.url().replace(services::PASSWORD, "wrong");
    AsyncPgConnection::establish(&wrong).await.map(drop).expect_err("PostgreSQL takes any password");

    let mongo = services::own_with_password(Kind::Mongo);
    configs(mongo.url()).await.find_one(doc! {}).await.unwrap();
    let wrong = mongo.url().replace(services::PASSWORD, "wrong");
    configs(&wrong).await.find_one(doc! {}).await.expect_err("MongoDB takes any password");

    // That it answers its client with the password is known by its being ready.
    let kafka = services::own_with_password(Kind::Kafka);
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.url()).set("security.protocol", "sasl_plaintext");
    config.set("sasl.mechanism", "PLAIN").set("sasl.username", services::USER).set("sasl.password", "wrong");
    let client: BaseConsumer = config.create().unwrap();
    client.fetch_metadata(None, Duration::from_secs(1)).map(drop).expect_err("Kafka takes any password");
}

#[test]
fn the_shared_services_answer() {
    let names: Vec<String> = [services::redis(), services::kafka(), services::postgres(), services::mongo()]
        .map(|service| format!("{}:{}", service.host(), service.port()))
        .into();
    for name in names {
        TcpStream::connect(&name).expect(&name);
    }
    assert_ne!(services::unique("name"), services::unique("name"));
}

#[test]
fn a_proxy_forwards_stalls_and_cuts() {
    let target = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let proxy = Proxy::to(target.local_addr().unwrap().port());
    let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    let (mut server, _) = target.accept().unwrap();
    let mut byte = [0];

    client.write_all(b"a").unwrap();
    server.read_exact(&mut byte).unwrap();
    server.write_all(b"b").unwrap();
    client.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"b");

    proxy.stall();
    client.write_all(b"c").unwrap();
    server.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    server.read(&mut byte).expect_err("nothing comes through");
    TcpStream::connect(("127.0.0.1", proxy.port())).expect("it takes connections");
    proxy.heal();
    server.set_read_timeout(Some(SOON)).unwrap();
    server.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"c", "what was sent meanwhile");

    proxy.cut();
    assert!(matches!(server.read(&mut byte), Ok(0) | Err(_)), "the connection has ended");
    TcpStream::connect(("127.0.0.1", proxy.port())).expect_err("no new ones");
    proxy.heal();
    TcpStream::connect(("127.0.0.1", proxy.port())).expect("it listens again");
}

fn redis_connection(redis: &Service) -> redis::Connection {
    redis::Client::open(redis.url()).unwrap().get_connection().unwrap()
}

async fn configs(url: &str) -> mongodb::Collection<Document> {
    let client = mongodb::Client::with_uri_str(url).await.unwrap();
    client.database("wnx-context").collection("configs")
}

fn produce(brokers: &str, value: &str) -> Result<(), rdkafka::error::KafkaError> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("message.timeout.ms", "3000");
    let producer: BaseProducer = config.create().unwrap();
    producer.send(BaseRecord::<(), str>::to("topic").payload(value)).map_err(|(err, _)| err).unwrap();
    producer.flush(SOON)?;
    // A record that timed out leaves the queue too: whether the broker can be reached says which it was.
    producer.client().fetch_metadata(Some("topic"), Duration::from_secs(1)).map(drop)
}

fn consume(brokers: &str, count: usize) -> Vec<String> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", services::unique("group"));
    config.set("auto.offset.reset", "earliest");
    let consumer: BaseConsumer = config.create().unwrap();
    consumer.subscribe(&["topic"]).unwrap();
    let mut values = Vec::new();
    let deadline = Instant::now() + SOON;
    while values.len() < count {
        assert!(Instant::now() < deadline, "only {values:?} came");
        // It also returns for what is no record, as a rebalance.
        let Some(record) = consumer.poll(SOON) else { continue };
        let record = record.unwrap();
        values.push(String::from_utf8_lossy(record.payload().unwrap()).into_owned());
    }
    values
}
