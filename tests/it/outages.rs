//! The stores of the cluster go away and come back under load: the service says so, goes on by itself, and loses nothing.

use std::rc::Rc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::kit::cluster::{Cluster, Handle};
use crate::kit::health::{healthy_again, status_names};
use crate::kit::load::{Load, all_arrived};
use crate::kit::oracle::assert_kept;
use crate::kit::receiver::Receiver;
use crate::kit::stream::Stream;
use crate::kit::turn::Turn;

const CLIENTS: usize = 10;
const DOCUMENTS: usize = 200;
const WITHIN: Duration = Duration::from_secs(60);

/// How long each outage lasts: 4 s, or what `DISPATCHER_TEST_OUTAGE` says.
fn outage() -> Duration {
    match std::env::var("DISPATCHER_TEST_OUTAGE") {
        Ok(text) => humantime::parse_duration(&text).expect("DISPATCHER_TEST_OUTAGE is a duration"),
        Err(_) => Duration::from_secs(4),
    }
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
            status_names(replica, &names, WITHIN).await;
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
            healthy_again(replica, WITHIN).await;
        }
        let before = receiver.ledger().distinct();
        receiver.ledger().wait_for(before + 100, WITHIN).await;
    }

    let sent = stream.end().await;
    all_arrived(&sent, receiver.ledger(), WITHIN).await;
    for replica in &replicas {
        replica.api().wait_until_idle(WITHIN).await;
    }
    let arrivals = receiver.ledger().arrivals();
    println!("{} pairs, {} arrivals", sent.acknowledged.len(), arrivals.len());
    assert_kept(&sent, &arrivals, |_| 0);
}
