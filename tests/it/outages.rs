//! The stores of the cluster go away and come back under load: the service says so, goes on by itself, and loses nothing.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::kit::cluster::{Cluster, Handle};
use crate::kit::load::{Load, missing};
use crate::kit::oracle::{Sent, assert_kept};
use crate::kit::receiver::Receiver;
use crate::kit::service::Service;
use crate::kit::turn::Turn;
use crate::kit::wait::{eventually, holds};

const CLIENTS: usize = 10;
const DOCUMENTS: usize = 200;
const WITHIN: Duration = Duration::from_secs(60);

/// How long each outage lasts: 4 s, or what `DISPATCHER_TEST_OUTAGE` says, in seconds.
fn outage() -> Duration {
    let seconds = std::env::var("DISPATCHER_TEST_OUTAGE")
        .map_or(4, |text| text.parse().expect("DISPATCHER_TEST_OUTAGE is a number of seconds"));
    Duration::from_secs(seconds)
}

/// Changes that go on being made, whatever happens to the stores.
struct Stream {
    sent: Rc<RefCell<Sent>>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Stream {
    fn start(cluster: Rc<Cluster>, mut load: Load) -> Self {
        let sent = Rc::new(RefCell::new(Sent::default()));
        let stop = CancellationToken::new();
        let (written, stopped) = (sent.clone(), stop.clone());
        let task = actix_web::rt::spawn(async move {
            // A steady source, as an application is.
            let mut pace = tokio::time::interval(Duration::from_millis(100));
            while !stopped.is_cancelled() {
                pace.tick().await;
                let (records, pairs) = load.next(20);
                cluster.produce(&records).await;
                written.borrow_mut().acknowledged.extend(pairs);
            }
        });
        Self { sent, stop, task }
    }

    /// Ends it. Returns what was written.
    async fn end(self) -> Sent {
        self.stop.cancel();
        self.task.await.unwrap();
        Rc::into_inner(self.sent).unwrap().into_inner()
    }
}

fn unhealthy(status: &Value) -> Vec<String> {
    let stores = status["stores"].as_array().cloned().unwrap_or_default();
    stores
        .iter()
        .filter(|store| store["healthy"] == false)
        .map(|store| store["name"].as_str().unwrap_or_default().to_owned())
        .collect()
}

async fn status_names(service: &Service, names: &[&str]) {
    eventually(&format!("/status to name {names:?}"), WITHIN, async || {
        let (code, status) = service.api().status().await;
        let down = unhealthy(&status);
        let named = names.iter().all(|name| down.iter().any(|down| down == name));
        holds(named && (code == 503) != names.is_empty(), || format!("{code}, down: {down:?}"))
    })
    .await;
}

async fn healthy_again(service: &Service) {
    eventually("/status to be well", WITHIN, async || {
        let (code, status) = service.api().status().await;
        holds(code == 200, || format!("{code}: {} {:?}", status["status"], unhealthy(&status)))
    })
    .await;
}

#[actix_web::test]
async fn stores_go_away_and_come_back() {
    let turn = Turn::alone();
    let cluster = Rc::new(Cluster::own("outages"));
    let replicas = [cluster.replica_in(&turn).start().await, cluster.replica_in(&turn).start().await];
    let receiver = Receiver::healthy();
    let load = Load::new(CLIENTS, DOCUMENTS);
    for client in &load.clients {
        replicas[0].api().put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    }
    let stream = Stream::start(cluster.clone(), load);
    receiver.ledger().wait_for(200, WITHIN).await;

    let (kafka, redis) = (("kafka", &cluster.kafka), ("redis", &cluster.redis));
    let (mongo, postgres) = (("mongo", &cluster.mongo), ("postgres", &cluster.postgres));
    let outages: [&[(&str, &Handle)]; 8] = [
        &[redis],
        &[mongo],
        &[postgres],
        &[kafka],
        &[redis, mongo],
        &[postgres, redis],
        &[kafka, postgres],
        &[mongo, kafka],
    ];
    for stores in outages {
        let names: Vec<&str> = stores.iter().map(|(name, _)| *name).collect();
        println!("away: {names:?}");
        for (_, store) in stores {
            store.kill();
        }
        let went = Instant::now();
        for replica in &replicas {
            status_names(replica, &names).await;
        }
        if !names.contains(&"kafka") {
            // Nobody waits, so nobody needs the stash, nor the configs again.
            let before = receiver.ledger().distinct();
            receiver.ledger().wait_for(before + 100, WITHIN).await;
        }
        tokio::time::sleep_until(went + outage()).await;
        for (_, store) in stores {
            store.start_again();
        }
        for replica in &replicas {
            healthy_again(replica).await;
        }
        let before = receiver.ledger().distinct();
        receiver.ledger().wait_for(before + 100, WITHIN).await;
    }

    let sent = stream.end().await;
    eventually("all changes at the receiver", WITHIN, async || {
        let open = missing(&sent, &receiver.ledger().arrivals());
        holds(open == 0, || format!("{open} of {} pairs are missing", sent.acknowledged.len()))
    })
    .await;
    for replica in &replicas {
        replica.api().wait_until_idle(WITHIN).await;
    }
    let arrivals = receiver.ledger().arrivals();
    println!("{} pairs, {} arrivals", sent.acknowledged.len(), arrivals.len());
    assert_kept(&sent, &arrivals, |_| 0);
}
