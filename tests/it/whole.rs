//! Several replicas, one dashboard: any of them shows the whole, and has an actor begin anew wherever it is.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::kit::cluster::Cluster;
use crate::kit::load::{Load, all_arrived};
use crate::kit::oracle::{Sent, assert_kept};
use crate::kit::receiver::Receiver;
use crate::kit::service::Service;
use crate::kit::wait::{eventually, holds};

const CLIENTS: usize = 20;
const LONG: Duration = Duration::from_secs(60);
/// For how long a part is believed, and two looks.
const PART_LIVES: Duration = Duration::from_secs(13);

async fn dashboard(replica: &Service) -> Value {
    replica.api().get("/v1/dashboard?limit=200").await.expect("the dashboard answers").json()
}

fn name(dashboard: &Value) -> String {
    dashboard["service"]["replica"].as_str().unwrap().to_owned()
}

/// Who serves each client, as this replica shows it.
fn owners(dashboard: &Value) -> BTreeMap<String, String> {
    let rows = dashboard["clients"]["rows"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    rows.iter().map(|row| (text(&row["client"]), text(&row["replica"]))).collect()
}

fn replicas(dashboard: &Value) -> Vec<String> {
    let replicas = dashboard["overview"]["replicas"].as_array().unwrap();
    replicas.iter().map(|replica| replica["name"].as_str().unwrap().to_owned()).collect()
}

struct World {
    cluster: Cluster,
    receiver: Receiver,
    load: Load,
    sent: Sent,
}

impl World {
    fn new(cluster: Cluster) -> Self {
        Self { cluster, receiver: Receiver::healthy(), load: Load::new(CLIENTS, 200), sent: Sent::default() }
    }

    async fn register(&self, replica: &Service) {
        for client in &self.load.clients {
            replica.api().put_client(client, json!({ "webhook": self.receiver.hook(client) })).await;
        }
    }

    /// Every client gets something.
    async fn change(&mut self) {
        let (records, pairs) = self.load.next(400);
        self.cluster.produce(&records).await;
        self.sent.acknowledged.extend(pairs);
        all_arrived(&self.sent, self.receiver.ledger(), LONG).await;
    }
}

#[actix_web::test]
async fn any_replica_shows_the_whole_and_acts_on_the_others() {
    let mut world = World::new(Cluster::shared("whole"));
    let first = world.cluster.replica().start().await;
    let mut second = world.cluster.replica().start().await;
    world.register(&first).await;
    world.change().await;
    let names = [name(&dashboard(&first).await), name(&dashboard(&second).await)];
    assert_ne!(names[0], names[1]);

    // Both know who serves whom, and say the same.
    let shared = eventually("both show all clients and both replicas", LONG, async || {
        let (one, two) = (dashboard(&first).await, dashboard(&second).await);
        let all = [&one, &two].map(|shown| (replicas(shown).len(), owners(shown)));
        let served = |owner: &String| all[0].1.values().filter(|is| *is == owner).count();
        let same = all[0] == all[1] && all[0].0 == 2 && all[0].1.len() == CLIENTS;
        let split = names.iter().all(|name| served(name) > 0) && served(&String::new()) == 0;
        holds(same && split, || format!("{all:?}"))?;
        Ok(all[0].1.clone())
    })
    .await;
    let shown = dashboard(&first).await;
    assert_eq!(shown["service"]["scope"], "all replicas");
    assert_eq!(shown["overview"]["clients"]["total"], CLIENTS);
    for replica in shown["overview"]["replicas"].as_array().unwrap() {
        assert!(replica["age_ms"].as_u64().unwrap() < 10_000, "{replica:#}");
        assert_eq!(replica["dependencies"].as_array().unwrap().len(), 4, "{replica:#}");
        assert!(replica["clients"].as_u64().unwrap() > 0 && replica["uptime_s"].is_u64(), "{replica:#}");
    }
    let delivered: u64 = shown["clients"]["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["delivered"].as_u64().unwrap())
        .sum();
    assert!(
        delivered as usize <= world.sent.acknowledged.len() + 50,
        "nothing is counted twice: {delivered}"
    );
    let kinds = &shown["overview"]["actors"]["kinds"];
    assert_eq!((&kinds["delivery"], &kinds["stash"]), (&json!(CLIENTS), &json!(2)), "{kinds:#}");
    let actors = first.api().get("/v1/actors?kind=stash").await.unwrap().json();
    assert_eq!(actors["matched"], 2, "{actors:#}");

    // A restart that is asked of the wrong replica.
    let client = shared.iter().find(|(_, owner)| **owner == names[1]).unwrap().0;
    let answer =
        first.api().post(&format!("/v1/actors/delivery/{client}/restart"), &json!({})).await.unwrap();
    assert_eq!((answer.status, &answer.json()["replica"]), (202, &json!(names[1])), "{}", answer.text());
    eventually("both show the restart", LONG, async || {
        for replica in [&first, &second] {
            let path = format!("/v1/actors?kind=delivery&filter={client}&state=problem");
            let found = replica.api().get(&path).await?.json();
            let cause = &found["rows"][0]["last_cause"]["reason"];
            holds(*cause == "asked" && found["rows"][0]["replica"] == names[1], || found.to_string())?;
        }
        Ok(())
    })
    .await;
    let path = format!("/v1/actors/stash/-/restart?replica={}", names[1]);
    assert_eq!(first.api().post(&path, &json!({})).await.unwrap().json()["replica"], names[1]);
    for (path, status) in [("delivery/nobody", 404), ("stash/-", 202)] {
        let path = format!("/v1/actors/{path}/restart");
        assert_eq!(first.api().post(&path, &json!({})).await.unwrap().status, status, "{path}");
    }

    // One dies: its part goes, its clients are the other's.
    second.kill();
    let killed = std::time::Instant::now();
    eventually("the part of the dead replica vanishes", LONG, async || {
        let shown = replicas(&dashboard(&first).await);
        holds(shown == [names[0].clone()], || format!("{shown:?}"))
    })
    .await;
    assert!(killed.elapsed() < PART_LIVES, "{:?}", killed.elapsed());
    world.change().await;
    eventually("its clients are the other's", LONG, async || {
        let owners = owners(&dashboard(&first).await);
        holds(owners.len() == CLIENTS && owners.values().all(|owner| *owner == names[0]), || {
            format!("{owners:?}")
        })
    })
    .await;
    assert_kept(&world.sent, &world.receiver.ledger().arrivals(), |_| 0);
}

#[actix_web::test]
async fn without_redis_a_replica_shows_its_own_part_and_says_so() {
    let world = World::new(Cluster::with_own_redis("alone"));
    let first = world.cluster.replica().start().await;
    let second = world.cluster.replica().start().await;
    let unseen = async |replica: &Service| dashboard(replica).await["overview"]["others_unseen"].clone();
    let both = async |wanted: usize| {
        eventually("so many replicas are seen", LONG, async || {
            let seen = [replicas(&dashboard(&first).await), replicas(&dashboard(&second).await)];
            holds(seen.iter().all(|seen| seen.len() == wanted), || format!("{seen:?}"))
        })
        .await;
    };
    both(2).await;
    assert_eq!(unseen(&first).await, Value::Null);
    world.cluster.redis.kill();
    both(1).await;
    assert!(unseen(&first).await.is_string());
    assert_eq!(dashboard(&first).await["service"]["scope"], "this replica");
    let asked = first.api().post("/v1/actors/delivery/nobody/restart", &json!({})).await.unwrap();
    assert_eq!(asked.status, 503, "{}", asked.text());
    world.cluster.redis.start_again();
    both(2).await;
    assert_eq!(unseen(&second).await, Value::Null);
}
