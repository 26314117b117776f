//! Several replicas on one Kafka: each client has one owner, and whoever comes or goes, nothing is lost and the order holds.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::kit::cluster::Cluster;
use crate::kit::load::{Load, missing};
use crate::kit::oracle::{Sent, assert_kept};
use crate::kit::owner::Owners;
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::service::{Service, send_signal};
use crate::kit::turn::Turn;
use crate::kit::wait::{eventually, holds};

const EVENTS: usize = 10_000;
const CLIENTS: usize = 20;
const DOCUMENTS: usize = 500;
const BATCH: usize = 250;
const WITHIN: Duration = Duration::from_secs(120);
/// Longer than a session: the group gives its partitions to the others.
const FROZEN: Duration = Duration::from_secs(30);
/// `session.timeout` minus a second, from the last commit on.
const PERMISSION: Duration = Duration::from_secs(9);

/// Log lines have milliseconds.
const LOG_PRECISION: Duration = Duration::from_millis(5);

/// A request, and the replica that sent it.
struct Sender {
    at: Instant,
    pid: Option<u32>,
}

/// A receiver that finds out which replica sent each request.
struct Witness {
    receiver: Receiver,
    replicas: Arc<Mutex<Vec<u32>>>,
    senders: Arc<Mutex<Vec<Sender>>>,
}

impl Witness {
    fn start() -> Self {
        let replicas: Arc<Mutex<Vec<u32>>> = Arc::default();
        let senders: Arc<Mutex<Vec<Sender>>> = Arc::default();
        let (pids, seen, owners) = (replicas.clone(), senders.clone(), Mutex::new(Owners::default()));
        let receiver = Receiver::start(move |arrival| {
            let pid = owners.lock().unwrap().of(arrival, &pids.lock().unwrap());
            seen.lock().unwrap().push(Sender { at: arrival.at, pid });
            Answer::Status(200)
        });
        Self { receiver, replicas, senders }
    }

    fn expects(&self, replica: &Service) {
        self.replicas.lock().unwrap().push(replica.pid());
    }

    /// When each request of this replica came in, since `after`.
    fn of(&self, replica: &Service, after: Instant) -> Vec<Instant> {
        let senders = self.senders.lock().unwrap();
        senders
            .iter()
            .filter(|sender| sender.pid == Some(replica.pid()) && sender.at > after)
            .map(|sender| sender.at)
            .collect()
    }
}

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

async fn all_arrived(sent: &Sent, receiver: &Receiver) {
    eventually("all changes at the receiver", WITHIN, async || {
        let open = missing(sent, &receiver.ledger().arrivals());
        holds(open == 0, || format!("{open} of {} pairs are missing", sent.acknowledged.len()))
    })
    .await;
}

/// When a replica said that partitions are its own, after it had said so `before` times.
fn assigned_at(log: &str, before: usize) -> Option<Instant> {
    let line = log.lines().filter(|line| line.contains("partitions assigned")).nth(before)?;
    let time = chrono::DateTime::parse_from_rfc3339(line.split_whitespace().next()?).ok()?;
    let ago = chrono::Utc::now().signed_duration_since(time).to_std().ok()?;
    Instant::now().checked_sub(ago)
}

#[actix_web::test]
async fn two_replicas_share_the_clients() {
    let turn = Turn::alone();
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

    all_arrived(&sent, &witness.receiver).await;
    first.api().wait_until_idle(WITHIN).await;
    second.api().wait_until_idle(WITHIN).await;

    let arrivals = witness.receiver.ledger().arrivals();
    println!("{} pairs, {} arrivals", sent.acknowledged.len(), arrivals.len());
    assert_kept(&sent, &arrivals, |_| 0);
    let (of_first, of_second) = (witness.of(&first, began).len(), witness.of(&second, began).len());
    assert!(of_first > EVENTS / 10 && of_second > EVENTS / 10, "{of_first} and {of_second} requests");
}

#[actix_web::test]
async fn replicas_die_freeze_and_join_and_the_oracle_holds() {
    let turn = Turn::alone();
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
    tokio::time::sleep_until((froze + FROZEN).into()).await;
    let rejoined_before = frozen.log().matches("partitions assigned").count();
    send_signal("-CONT", frozen.pid());
    produce(&cluster, &mut load, &mut sent, EVENTS / 4).await;
    let rejoined = eventually("the stopped replica to join again", WITHIN, async || {
        assigned_at(&frozen.log(), rejoined_before).ok_or_else(|| "no assignment yet".to_owned())
    })
    .await;

    all_arrived(&sent, &witness.receiver).await;
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
