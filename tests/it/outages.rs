//! The stores of the cluster go away and come back under load: the service says so, goes on by itself, and loses nothing.

use std::rc::Rc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::kit::cluster::Cluster;
use crate::kit::health::{healthy_again, status_names};
use crate::kit::load::{Load, all_arrived};
use crate::kit::long_run::outage_or;
use crate::kit::oracle::assert_kept;
use crate::kit::receiver::Receiver;
use crate::kit::stream::Stream;
use crate::kit::turn::Turn;
use crate::services::Kind;

const CLIENTS: usize = 10;
const DOCUMENTS: usize = 200;
const WITHIN: Duration = Duration::from_secs(60);
/// How long each outage lasts, in a usual run.
const OUTAGE: Duration = Duration::from_secs(4);

#[actix_web::test]
async fn stores_go_away_one_by_one_and_come_back() {
    go_and_come_back("outages", &[&[Kind::Redis], &[Kind::Mongo], &[Kind::Postgres], &[Kind::Kafka]]).await;
}

#[actix_web::test]
async fn stores_go_away_in_pairs_and_come_back() {
    let pairs: [&[Kind]; 4] = [
        &[Kind::Redis, Kind::Mongo],
        &[Kind::Postgres, Kind::Redis],
        &[Kind::Kafka, Kind::Postgres],
        &[Kind::Mongo, Kind::Kafka],
    ];
    go_and_come_back("pairs", &pairs).await;
}

async fn go_and_come_back(test: &str, outages: &[&[Kind]]) {
    let turn = Turn::shared();
    let cluster = Rc::new(Cluster::own(test));
    let replicas = [cluster.replica_in(&turn).start().await, cluster.replica_in(&turn).start().await];
    let receiver = Receiver::healthy();
    let load = Load::new(CLIENTS, DOCUMENTS);
    for client in &load.clients {
        replicas[0].api().put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    }
    let stream = Stream::start(cluster.clone(), load);
    receiver.ledger().wait_for(200, WITHIN).await;

    for kinds in outages {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        println!("away: {names:?}");
        for kind in *kinds {
            cluster.store(*kind).kill();
        }
        let went = Instant::now();
        for replica in &replicas {
            status_names(replica, &names, WITHIN).await;
        }
        if !kinds.contains(&Kind::Kafka) {
            // Nobody waits, so nobody needs the stash, nor the configs again.
            let before = receiver.ledger().distinct();
            receiver.ledger().wait_for(before + 100, WITHIN).await;
        }
        tokio::time::sleep_until(went + outage_or(OUTAGE)).await;
        for kind in *kinds {
            cluster.store(*kind).start_again();
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
