//! A resync brings a client's copy to what MongoDB has, whatever happens meanwhile: changes, deletes, kill -9, an emptied Redis.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use awc::http::Method;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};
use serde_json::{Value, json};

use crate::kit::api::Api;
use crate::kit::cluster::Cluster;
use crate::kit::ledger::Arrival;
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::service::Service;
use crate::kit::wait::{eventually, holds};

const CLIENT: &str = "64c0a1e0f1a2b3c4d5e6aaaa";
const WITHIN: Duration = Duration::from_secs(60);
/// How far the Debezium of this test is behind: less than `settle`.
const LAG: Duration = Duration::from_millis(30);
const DOCUMENTS: usize = 40;

/// A collection, and the Debezium that writes its changes to Kafka.
struct Source {
    cluster: Rc<Cluster>,
    db: String,
    collection: mongodb::Collection<Document>,
    /// What the collection has.
    now: RefCell<BTreeMap<ObjectId, Document>>,
}

impl Source {
    async fn new(cluster: Rc<Cluster>) -> Self {
        let client = mongodb::Client::with_uri_str(cluster.mongo.url()).await.unwrap();
        let db = format!("{}-identity", cluster.redis_prefix());
        let collection = client.database(&db).collection("users");
        Self { cluster, db, collection, now: RefCell::default() }
    }

    /// Documents of before anybody listened.
    async fn fill(&self, count: usize) {
        let documents: Vec<Document> = (0..count).map(|_| document(&[CLIENT], 1)).collect();
        self.collection.insert_many(&documents).await.unwrap();
        let mut now = self.now.borrow_mut();
        now.extend(documents.into_iter().map(|document| (id_of(&document), document)));
    }

    /// Writes a document, or deletes it, and tells of it a little later.
    async fn change(&self, id: ObjectId, after: Option<Document>) {
        let before = self.now.borrow().get(&id).cloned();
        match &after {
            Some(after) => {
                let written = self.collection.replace_one(doc! { "_id": id }, after).upsert(true).await;
                written.unwrap();
                self.now.borrow_mut().insert(id, after.clone());
            }
            None => {
                self.collection.delete_one(doc! { "_id": id }).await.unwrap();
                self.now.borrow_mut().remove(&id);
            }
        }
        actix_web::rt::time::sleep(LAG).await;
        let image =
            |document: &Option<Document>| document.as_ref().map(|one| serde_json::to_string(one).unwrap());
        let op = match (&before, &after) {
            (None, _) => "c",
            (_, Some(_)) => "u",
            (_, None) => "d",
        };
        let source = json!({ "name": "mongo", "db": self.db, "collection": "users", "ts_ms": 1 });
        let value = json!({ "op": op, "ts_ms": 1, "before": image(&before), "after": image(&after), "source": source });
        let key = json!({ "id": format!(r#"{{"$oid": "{id}"}}"#) }).to_string();
        let topic = format!("mongo.{}.users", self.db);
        let record = json!({ "topic": topic, "key": key, "value": value.to_string() });
        self.cluster.produce(&[record]).await;
    }

    /// Changes, deletes, takes away and makes documents until it is stopped.
    async fn live(&self, stop: Rc<Cell<bool>>) {
        let mut random = fastrand::Rng::with_seed(7);
        let mut version = 2;
        while !stop.get() {
            let ids: Vec<ObjectId> = self.now.borrow().keys().copied().collect();
            let id = ids[random.usize(..ids.len())];
            version += 1;
            match random.u8(..10) {
                0 => self.change(id, None).await,
                1 => self.change(id, Some(with_id(id, document(&["other"], version)))).await,
                2 => {
                    let new = document(&[CLIENT], version);
                    self.change(id_of(&new), Some(new)).await;
                }
                _ => self.change(id, Some(with_id(id, document(&[CLIENT], version)))).await,
            }
        }
    }

    /// Compares what arrived last of each document with what is there.
    fn judge(&self, arrivals: &[Arrival]) {
        let mut last: BTreeMap<&str, (&str, Option<u64>)> = BTreeMap::new();
        for arrival in arrivals {
            let change = arrival.change.as_ref().expect("a body");
            last.insert(&change.id, (&change.op, change.version));
        }
        let now = self.now.borrow();
        let his = |document: &&Document| document.get_array("clients").unwrap().contains(&CLIENT.into());
        for document in now.values().filter(his) {
            let id = id_of(document).to_hex();
            let (op, version) = last.get(&*id).unwrap_or_else(|| panic!("{id} never arrived"));
            let expected = u64::try_from(document.get_i64("version").unwrap()).unwrap();
            assert_eq!((*op == "d", *version), (false, Some(expected)), "{id}: the copy is another");
        }
        let gone = last.iter().filter(|(id, _)| {
            let id = ObjectId::parse_str(id).unwrap();
            !now.get(&id).as_ref().is_some_and(his)
        });
        let ops: Vec<_> = gone.map(|(id, (op, _))| (*id, *op)).collect();
        assert!(ops.len() > 3, "nothing was deleted: {ops:?}");
        assert!(ops.iter().all(|(_, op)| *op == "d"), "the copy has what is gone: {ops:?}");
    }
}

fn document(clients: &[&str], version: i64) -> Document {
    doc! { "_id": ObjectId::new(), "clients": clients, "version": version, "name": "Mina" }
}

fn with_id(id: ObjectId, mut document: Document) -> Document {
    document.insert("_id", id);
    document
}

fn id_of(document: &Document) -> ObjectId {
    document.get_object_id("_id").unwrap()
}

async fn job(api: &Api, id: &str) -> Result<Value, String> {
    Ok(api.get(&format!("/v1/clients/{CLIENT}/heavy-jobs/{id}")).await?.json())
}

async fn until(api: &Api, id: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    eventually(what, WITHIN, async || {
        let job = job(api, id).await?;
        if is(&job) { Ok(job) } else { Err(job.to_string()) }
    })
    .await
}

fn sent(job: &Value) -> u64 {
    job["progress"]["sent"].as_u64().unwrap_or(0)
}

async fn resync(api: &Api, body: Value) -> (u16, Value) {
    let reply = api.post(&format!("/v1/clients/{CLIENT}/resync"), &body).await.unwrap();
    (reply.status, reply.json())
}

fn empty(cluster: &Cluster) {
    let mut keys = redis::Client::open(cluster.redis.url()).unwrap().get_connection().unwrap();
    redis::cmd("FLUSHALL").exec(&mut keys).unwrap();
}

#[actix_web::test]
async fn a_resync_brings_the_copy_to_what_mongodb_has() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("dispatcher.toml");
    std::fs::write(&config, "[heavy]\nsettle = \"300ms\"\npage = 8\nper_second = 40\n").unwrap();
    let cluster = Cluster::with_own_redis("resync").env("DISPATCHER_CONFIG", config.to_str().unwrap());
    let cluster = Rc::new(cluster);
    let source = Rc::new(Source::new(cluster.clone()).await);
    source.fill(DOCUMENTS).await;
    let mut service = cluster.replica().start().await;
    let receiver = Receiver::start(|_| Answer::Status(200));
    service.api().put_client(CLIENT, json!({ "webhook": receiver.hook(CLIENT) })).await;
    // A document that Debezium tells of: so the collection is one that it captures.
    let first = document(&[CLIENT], 1);
    source.change(id_of(&first), Some(first)).await;
    receiver.ledger().wait_for_client(CLIENT, 1, WITHIN).await;

    let stop = Rc::new(Cell::new(false));
    let (live, stopped) = (source.clone(), stop.clone());
    let live = actix_web::rt::spawn(async move { live.live(stopped).await });
    let (status, answer) = resync(service.api(), json!({})).await;
    assert_eq!(status, 202, "{answer}");
    let id = answer["job"]["id"].as_str().unwrap().to_owned();
    let (status, same) = resync(service.api(), json!({})).await;
    assert_eq!((status, &same["job"]["id"]), (202, &json!(id)), "the same parameters are the same job");

    until(service.api(), &id, "a first page", |job| sent(job) > 0).await;
    service.kill();
    empty(&cluster);
    service.start_again().await;
    let before = sent(&job(service.api(), &id).await.unwrap());
    assert!(before > 0, "how far it was is in the store");
    until(service.api(), &id, "another page, after kill -9 and an emptied Redis", |job| sent(job) > before)
        .await;
    empty(&cluster);
    let done = until(service.api(), &id, "the end", |job| job["state"] != "open").await;
    assert_eq!(done["state"], "done", "{done}");
    stop.set(true);
    live.await.unwrap();
    service.api().wait_until_idle(WITHIN).await;

    println!("{done} and {} arrivals", receiver.ledger().arrivals().len());
    source.judge(&receiver.ledger().arrivals());
    let ended = service.api().get("/v1/operational-events?order=newest&limit=50").await.unwrap().text();
    assert!(ended.contains("heavy_job_ended"), "{ended}");

    // It is remembered: the same again is not done twice, unless that is asked for.
    let (status, again) = resync(service.api(), json!({})).await;
    assert_eq!((status, &again["job"]["state"]), (200, &json!("done")), "{again}");
    let (status, again) = resync(service.api(), json!({ "again": true })).await;
    assert_eq!((status, &again["job"]["state"]), (202, &json!("open")), "{again}");
    let path = format!("/v1/clients/{CLIENT}/heavy-jobs/{id}");
    let cancelled = service.api().request(Method::DELETE, &path, None).await.unwrap().json();
    assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
}

/// The pause was decided, and stands in the store: a queue that lost it with all else runs nothing.
#[actix_web::test]
async fn a_paused_queue_runs_nothing_when_redis_is_emptied() {
    const QUEUE: &str = "/v1/queues/dispatcher-heavy";
    let cluster = Cluster::with_own_redis("paused");
    let service = cluster.replica().start().await;
    let api = service.api();
    api.put_client(CLIENT, json!({ "webhook": "http://127.0.0.1:9/" })).await;
    let paused = api.post(&format!("{QUEUE}/pause"), &json!({ "by": "ann" })).await.unwrap();
    assert_eq!(paused.status, 200, "{}", paused.text());
    let mut ids = Vec::new();
    for to_ms in 1..=3 {
        empty(&cluster);
        let replay = api.post(&format!("/v1/clients/{CLIENT}/replay"), &json!({ "to_ms": to_ms })).await;
        ids.push(replay.unwrap().json()["job"]["id"].as_str().unwrap().to_owned());
    }
    // It has its pause again, and whatever a worker took before that was not done.
    eventually("the pause", WITHIN, async || {
        let queue = api.get(QUEUE).await?.json();
        holds(queue["paused"] == json!(true), || queue.to_string())
    })
    .await;
    for id in &ids {
        assert_eq!(job(api, id).await.unwrap()["state"], "open", "{id}");
    }
    let done = [("queue", "dispatcher-heavy"), ("outcome", "completed")];
    assert_eq!(api.metrics().await.sum("jobs_total", &done), 0.0);
    let resumed = api.post(&format!("{QUEUE}/resume"), &json!({})).await.unwrap();
    assert_eq!(resumed.status, 200, "{}", resumed.text());
    for id in &ids {
        until(api, id, "what was lost and put back, after the resume", |job| job["state"] == "done").await;
    }
}

#[actix_web::test]
async fn without_mongodb_there_is_no_resync() {
    let service = Service::shared().start().await;
    service.api().put_client(CLIENT, json!({ "webhook": "http://127.0.0.1:9/" })).await;
    let (status, answer) = resync(service.api(), json!({})).await;
    assert_eq!((status, &answer["reason"]), (409, &json!("no_source")), "{answer}");
    holds(answer["detail"].as_str().unwrap().contains("embedded mode"), || answer.to_string()).unwrap();
}
