//! A webhook that stays dead, in cluster mode: the platform's MongoDB says that it is off, nobody asks it any more, and the platform switches
//! it on again. The clock of it stands in Redis, which may be away, or lose it.

use std::rc::Rc;
use std::time::{Duration, Instant};

use mongodb::bson::{DateTime, Document as Bson, doc};
use serde_json::{Value, json};

use crate::dead_webhook::{happenings, impatient, until_status};
use crate::kit::cluster::Cluster;
use crate::kit::events::Document;
use crate::kit::oracle::{Sent, assert_kept};
use crate::kit::receiver::Receiver;
use crate::kit::service::Service;
use crate::kit::turn::Turn;
use crate::kit::wait::{eventually, holds};
use crate::operational_events::read_topic;

const LONG: Duration = Duration::from_secs(90);
/// How long nothing may come of a webhook that is off: several canaries.
const SILENCE: Duration = Duration::from_secs(2);
/// A config that changes is used everywhere.
const FOLLOWED: Duration = Duration::from_secs(5);

/// Two impatient replicas, a client whose webhook dies, and one that is well.
struct Scene {
    replicas: [Service; 2],
    cluster: Rc<Cluster>,
    receiver: Receiver,
    healthy: Receiver,
    documents: Vec<Document>,
    of_healthy: Document,
    sent: Sent,
}

impl Scene {
    /// All have had one change.
    async fn new(turn: &Turn, cluster: Cluster) -> Self {
        let start = async || impatient(cluster.replica_in(turn)).start().await;
        let replicas = [start().await, start().await];
        let (receiver, healthy) = (Receiver::healthy(), Receiver::healthy());
        let api = replicas[0].api();
        api.put_client("dead", json!({ "webhook": receiver.hook("dead") })).await;
        api.put_client("fine", json!({ "webhook": healthy.hook("fine") })).await;
        let documents = (0..10).map(|number| Document::new(number, &["dead"])).collect();
        let of_healthy = Document::new(100, &["fine"]);
        let (cluster, sent) = (Rc::new(cluster), Sent::default());
        let mut scene = Self { replicas, cluster, receiver, healthy, documents, of_healthy, sent };
        scene.change().await;
        scene.receiver.ledger().wait_for(10, LONG).await;
        scene.others_are_served().await;
        scene
    }

    async fn change(&mut self) {
        let records: Vec<Value> = self.documents.iter_mut().map(Document::change).collect();
        self.cluster.produce(&records).await;
        self.sent.acknowledged.extend(self.documents.iter().flat_map(Document::pairs));
    }

    /// Whoever is well gets what changes now.
    async fn others_are_served(&mut self) {
        let before = self.healthy.ledger().distinct();
        self.cluster.produce(&[self.of_healthy.change()]).await;
        self.sent.acknowledged.extend(self.of_healthy.pairs());
        self.healthy.ledger().wait_for(before + 1, LONG).await;
    }

    async fn status(&self) -> String {
        self.config().await.get_str("status").unwrap().to_owned()
    }

    async fn config(&self) -> Bson {
        self.cluster.configs().await.find_one(doc! { "eid": "dead" }).await.unwrap().unwrap()
    }

    async fn until_off(&self) {
        eventually("INACTIVE in MongoDB", LONG, async || {
            let status = self.status().await;
            holds(status == "INACTIVE", || status)
        })
        .await;
        for replica in &self.replicas {
            until_status(replica.api(), "dead", "INACTIVE").await;
        }
    }

    /// As the platform does it.
    async fn switch_on(&self) {
        let mut config = self.config().await;
        config.insert("status", "ACTIVE");
        config.insert("version", config.get_i32("version").unwrap() + 1);
        config.insert("updated_at", DateTime::now());
        self.cluster.write_config(&config).await;
    }

    async fn all_arrived(&self) {
        let owed = self.sent.acknowledged.iter().filter(|pair| pair.client == "dead").count();
        self.receiver.ledger().wait_for(owed, LONG).await;
        for replica in &self.replicas {
            replica.api().wait_until_idle(LONG).await;
        }
        let mut arrivals = self.receiver.ledger().arrivals();
        arrivals.extend(self.healthy.ledger().arrivals());
        assert_kept(&self.sent, &arrivals, |_| 0);
    }
}

#[actix_web::test]
async fn a_dead_webhook_is_off_in_mongodb_and_silent_until_the_platform_switches_it_on() {
    let turn = Turn::shared();
    let mut scene = Scene::new(&turn, Cluster::shared("dead")).await;
    let version = scene.config().await.get_i32("version").unwrap();
    scene.receiver.pause();
    scene.change().await;
    scene.change().await;
    scene.until_off().await;
    assert_eq!(scene.config().await.get_i32("version").unwrap(), version + 1, "written once");

    // It lives again, and nobody asks it.
    scene.receiver.resume();
    tokio::time::sleep(SILENCE).await;
    scene.others_are_served().await;
    assert_eq!(scene.receiver.ledger().len(), 10, "no request while it is off");

    scene.switch_on().await;
    let on = Instant::now();
    scene.receiver.ledger().wait_for(11, LONG).await;
    assert!(on.elapsed() < FOLLOWED, "served {:?} after it was switched on", on.elapsed());
    scene.change().await;
    scene.all_arrived().await;

    let api = scene.replicas[0].api();
    eventually("the story of the client", LONG, async || {
        let told = happenings(api, "dead").await;
        let story = ["degraded", "disable_warning", "disabled", "enabled"];
        let mut rest = told.iter();
        holds(story.iter().all(|step| rest.any(|told| told == step)), || format!("{told:?}"))
    })
    .await;
    let told = happenings(api, "dead").await;
    let all = api.get("/v1/operational-events").await.unwrap().json()["events"].as_array().unwrap().len();
    let topic = read_topic(&scene.cluster, all).await;
    let in_topic: Vec<_> = topic
        .iter()
        .filter(|(client, _)| client.as_deref() == Some("dead"))
        .map(|(_, event)| event["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(in_topic, told);
    assert_eq!(happenings(api, "fine").await, Vec::<String>::new());
}

/// The job's clock runs out while nobody can see it.
#[actix_web::test]
async fn a_webhook_that_dies_while_redis_is_away_is_off_when_redis_is_back() {
    let turn = Turn::shared();
    let mut scene = Scene::new(&turn, Cluster::with_own_redis("deadaway")).await;
    scene.receiver.pause();
    scene.change().await;
    let job = "/v1/queues/dispatcher/jobs/disable-dead";
    eventually("its clock", LONG, async || {
        let job = scene.replicas[0].api().get(job).await?;
        holds(job.status == 200 && job.json()["state"] == "delayed", || job.text())
    })
    .await;
    let failing = Instant::now();
    scene.cluster.redis.kill();
    // Beyond the time in which a webhook may fail: there is no event to wait for.
    tokio::time::sleep_until((failing + Duration::from_secs(5)).into()).await;
    assert_eq!(scene.status().await, "ACTIVE", "the clock is in Redis");
    scene.others_are_served().await;

    scene.cluster.redis.start_again();
    let back = Instant::now();
    scene.until_off().await;
    println!("off {:?} after Redis was back", back.elapsed());
    scene.receiver.resume();
    scene.switch_on().await;
    scene.all_arrived().await;
}
