//! Several replicas on one Kafka: each client has one owner, and whoever comes or goes, nothing is lost and the order holds.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::kit::cluster::Cluster;
use crate::kit::load::{Load, all_arrived};
use crate::kit::long_run::outage_or;
use crate::kit::oracle::{Sent, assert_kept};
use crate::kit::receiver::Receiver;
use crate::kit::service::{Service, send_signal};
use crate::kit::turn::Turn;
use crate::kit::wait::eventually;
use crate::kit::witness::{LOG_PRECISION, Witness, assigned_at};

const EVENTS: usize = 10_000;
const CLIENTS: usize = 20;
const DOCUMENTS: usize = 500;
const BATCH: usize = 250;
const WITHIN: Duration = Duration::from_secs(120);
/// Longer than a session: the group gives its partitions to the others. In a usual run.
const FROZEN: Duration = Duration::from_secs(30);
/// `session.timeout` minus a second, from the last commit on.
const PERMISSION: Duration = Duration::from_secs(9);

async fn register(service: &Service, load: &Load, receiver: &Receiver) {
    for client in &load.clients {
        service.api().put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    }
}

/// Writes the next changes to Kafka.
async fn produce(cluster: &Cluster, load: &mut Load, sent: &mut Sent, events: usize) {
    for _ in 0..events / BATCH {
        let (records, pairs) = load.next(BATCH);
        cluster.produce(&records).await;
        sent.acknowledged.extend(pairs);
    }
}

#[actix_web::test]
async fn two_replicas_share_the_clients() {
    let turn = Turn::shared();
    let cluster = Cluster::shared("share");
    let witness = Witness::start();
    let first = cluster.replica_in(&turn).start().await;
    let second = cluster.replica_in(&turn).start().await;
    witness.expects(&first);
    witness.expects(&second);
    let mut load = Load::new(CLIENTS, DOCUMENTS);
    register(&first, &load, &witness.receiver).await;
    let began = Instant::now();
    let mut sent = Sent::default();
    produce(&cluster, &mut load, &mut sent, EVENTS).await;

    all_arrived(&sent, witness.receiver.ledger(), WITHIN).await;
    first.api().wait_until_idle(WITHIN).await;
    second.api().wait_until_idle(WITHIN).await;

    let arrivals = witness.receiver.ledger().arrivals();
    println!("{} pairs, {} arrivals", sent.acknowledged.len(), arrivals.len());
    assert_kept(&sent, &arrivals, |_| 0);
    let (of_first, of_second) = (witness.of(&first, began).len(), witness.of(&second, began).len());
    assert!(of_first > EVENTS / 10 && of_second > EVENTS / 10, "{of_first} and {of_second} requests");
    for replica in [&first, &second] {
        let log = replica.log();
        let errors: Vec<_> = log.lines().filter(|line| line.contains(" ERROR ")).collect();
        assert!(errors.is_empty(), "to share is nothing to complain of: {errors:#?}");
    }
}

#[actix_web::test]
async fn replicas_die_freeze_and_join_and_the_oracle_holds() {
    let turn = Turn::shared();
    let cluster = Cluster::shared("join");
    let witness = Witness::start();
    let mut killed = cluster.replica_in(&turn).start().await;
    let frozen = cluster.replica_in(&turn).start().await;
    witness.expects(&killed);
    witness.expects(&frozen);
    let mut load = Load::new(CLIENTS, DOCUMENTS);
    register(&killed, &load, &witness.receiver).await;
    let mut sent = Sent::default();
    produce(&cluster, &mut load, &mut sent, EVENTS / 4).await;
    witness.receiver.ledger().wait_for(EVENTS / 10, WITHIN).await;
    killed.kill();

    let added = cluster.replica_in(&turn).start().await;
    witness.expects(&added);
    produce(&cluster, &mut load, &mut sent, EVENTS / 4).await;
    let before = witness.receiver.ledger().distinct();
    witness.receiver.ledger().wait_for(before + EVENTS / 20, WITHIN).await;
    let froze = Instant::now();
    send_signal("-STOP", frozen.pid());
    produce(&cluster, &mut load, &mut sent, EVENTS / 4).await;
    // Stopped for a time, whatever happens meanwhile: there is no event to wait for.
    tokio::time::sleep_until((froze + outage_or(FROZEN)).into()).await;
    let rejoined_before = frozen.log().matches("partitions assigned").count();
    send_signal("-CONT", frozen.pid());
    produce(&cluster, &mut load, &mut sent, EVENTS / 4).await;
    let rejoined = eventually("the stopped replica to join again", WITHIN, async || {
        assigned_at(&frozen.log(), rejoined_before).ok_or_else(|| "no assignment yet".to_owned())
    })
    .await;

    all_arrived(&sent, witness.receiver.ledger(), WITHIN).await;
    frozen.api().wait_until_idle(WITHIN).await;
    added.api().wait_until_idle(WITHIN).await;

    let arrivals = witness.receiver.ledger().arrivals();
    println!("{} pairs, {} arrivals", sent.acknowledged.len(), arrivals.len());
    assert_kept(&sent, &arrivals, |_| 0);
    let zombie: Vec<_> = witness
        .of(&frozen, froze + PERMISSION + Duration::from_secs(1))
        .into_iter()
        .filter(|at| *at + LOG_PRECISION < rejoined)
        .collect();
    let since: Vec<_> = zombie.iter().map(|at| at.duration_since(froze)).collect();
    assert!(
        since.is_empty(),
        "requests of a replica that has lost its partitions, after its stop: {since:?}"
    );
}
