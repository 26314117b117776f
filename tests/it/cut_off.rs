//! One replica loses its way to Kafka while it has all others: its partitions go to the replica that is left, it starts nothing after its
//! permission has ended, and takes part again when the way is there.

use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::kit::cluster::Cluster;
use crate::kit::events::Document;
use crate::kit::health::{healthy_again, status_names};
use crate::kit::ledger::Ledger;
use crate::kit::load::{Load, all_arrived};
use crate::kit::oracle::assert_kept;
use crate::kit::receiver::Answer;
use crate::kit::stream::Stream;
use crate::kit::turn::Turn;
use crate::kit::wait::{eventually, holds};
use crate::kit::witness::{LOG_PRECISION, Witness, assigned_at};
use crate::services::Proxy;

const CLIENTS: usize = 10;
const DOCUMENTS: usize = 200;
const WITHIN: Duration = Duration::from_secs(60);
/// The shortest that brokers take.
const SESSION: Duration = Duration::from_secs(6);
/// Longer than a session: the group gives the partitions to the other replica.
const CUT_OFF: Duration = Duration::from_secs(12);
/// `session_timeout` minus a second, from the last commit on, which was sent before the cut.
const PERMISSION: Duration = SESSION.saturating_sub(Duration::from_secs(1));
/// From the start of a request to the receiver, on a busy machine. Without the permission requests end 0.5 to 1 s after it: then the
/// other replica's epoch fences the drain.
const ON_ITS_WAY: Duration = Duration::from_millis(500);

/// Clients that take one request at a time, and their time for it: a replica that is cut off has requests to start for longer than it may.
const SLOW_CLIENTS: usize = 8;
const SLOW_DOCUMENTS: usize = 200;
const SLOW_ANSWER: Duration = Duration::from_millis(100);

fn slow_arrivals(ledger: &Ledger) -> usize {
    ledger.arrivals().iter().filter(|arrival| arrival.client.starts_with("slow")).count()
}

#[actix_web::test]
async fn a_replica_whose_wire_to_kafka_is_cut_stops_in_time_and_comes_back() {
    stops_in_time_and_comes_back("cutoff", Proxy::cut).await;
}

/// What was sent into the wire arrives after the heal, when it is another's right.
#[actix_web::test]
async fn a_replica_whose_wire_to_kafka_swallows_everything_stops_in_time_and_comes_back() {
    stops_in_time_and_comes_back("stalled", Proxy::stall).await;
}

async fn stops_in_time_and_comes_back(test: &str, cut: fn(&Proxy)) {
    let turn = Turn::shared();
    let (cluster, wire) = Cluster::behind_a_wire(test);
    let settings = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(settings.path(), format!("[kafka]\nsession_timeout = \"{}s\"\n", SESSION.as_secs()))
        .unwrap();
    let cluster = Rc::new(cluster.env("DISPATCHER_CONFIG", &settings.path().display().to_string()));
    let behind = format!("127.0.0.1:{}", wire.port());
    let reached = cluster.replica_in(&turn).start().await;
    // Heard of until the cut, so that the group takes its partitions away late: until then nothing but the permission ends its requests.
    let cut_off = cluster.replica_in(&turn).env("KAFKA_BROKERS", &behind);
    let cut_off = cut_off.env("DISPATCHER_KAFKA__HEARTBEAT_INTERVAL_MS", "200").start().await;
    let witness = Witness::answering(|arrival| match arrival.client.starts_with("slow") {
        true => Answer::Late(SLOW_ANSWER, 200),
        false => Answer::Status(200),
    });
    witness.expects(&reached);
    witness.expects(&cut_off);
    let ledger = witness.receiver.ledger();
    let load = Load::new(CLIENTS, DOCUMENTS);
    for client in &load.clients {
        reached.api().put_client(client, json!({ "webhook": witness.receiver.hook(client) })).await;
    }
    let slow: Vec<String> = (0..SLOW_CLIENTS).map(|number| format!("slow-{number}")).collect();
    for client in &slow {
        let value = json!({ "webhook": witness.receiver.hook(client), "concurrency": 1 });
        reached.api().put_client(client, value).await;
    }
    let stream = Stream::start(cluster.clone(), load);

    let start = Instant::now();
    eventually("both replicas to send", WITHIN, async || {
        let counts = [&reached, &cut_off].map(|replica| witness.of(replica, start).len());
        holds(counts.iter().all(|count| *count > 50), || format!("{counts:?} requests"))
    })
    .await;

    let mut documents: Vec<_> = (0..SLOW_CLIENTS * SLOW_DOCUMENTS)
        .map(|number| Document::new((10_000 + number) as u64, &[&slow[number % SLOW_CLIENTS]]))
        .collect();
    cluster.produce(&documents.iter_mut().map(Document::change).collect::<Vec<_>>()).await;
    let backlog: Vec<_> = documents.iter().flat_map(Document::pairs).collect();
    // By then the rest waits in the stash, and is drained.
    eventually("the slow clients to be at work", WITHIN, async || {
        let count = slow_arrivals(ledger);
        holds(count > SLOW_CLIENTS * 40, || format!("{count} requests"))
    })
    .await;

    let assigned_before = cut_off.log().matches("partitions assigned").count();
    cut(&wire);
    let cut_at = Instant::now();
    status_names(&cut_off, &["kafka"], WITHIN).await;
    healthy_again(&reached, WITHIN).await;
    // As long as it is cut off, whatever happens: there is no event to wait for.
    tokio::time::sleep_until((cut_at + CUT_OFF).into()).await;
    let before = ledger.distinct();
    ledger.wait_for(before + 100, WITHIN).await;
    wire.heal();

    let rejoined = eventually("the replica to have partitions again", WITHIN, async || {
        assigned_at(&cut_off.log(), assigned_before).ok_or_else(|| "no assignment yet".to_owned())
    })
    .await;
    eventually("the replica to send again", WITHIN, async || {
        let count = witness.of(&cut_off, rejoined).len();
        holds(count > 50, || format!("{count} requests"))
    })
    .await;
    healthy_again(&cut_off, WITHIN).await;
    let late: Vec<_> = witness
        .of(&cut_off, cut_at + PERMISSION + ON_ITS_WAY)
        .into_iter()
        .filter(|at| *at + LOG_PRECISION < rejoined)
        .map(|at| at.duration_since(cut_at))
        .collect();
    assert!(late.is_empty(), "requests of a replica whose permission has ended, after the cut: {late:?}");
    let last = witness.of(&cut_off, cut_at).into_iter().filter(|at| *at < rejoined).max();
    let last = last.expect("it had requests to start").duration_since(cut_at);
    println!(
        "its last request {last:?} after the cut, partitions again after {:?}",
        rejoined.duration_since(cut_at)
    );
    assert!(last > Duration::from_secs(2), "it had nothing to start, {last:?} after the cut");

    let mut sent = stream.end().await;
    sent.acknowledged.extend(backlog);
    all_arrived(&sent, ledger, WITHIN).await;
    for replica in [&reached, &cut_off] {
        replica.api().wait_until_idle(WITHIN).await;
    }
    let arrivals = ledger.arrivals();
    println!("{} pairs, {} arrivals", sent.acknowledged.len(), arrivals.len());
    assert_kept(&sent, &arrivals, |_| 0);
}
