//! One replica loses its way to Kafka while it has all others: its partitions go to the replica that is left, it starts nothing after its
//! permission has ended, and takes part again when the way is there.

use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::kit::cluster::Cluster;
use crate::kit::health::{healthy_again, status_names};
use crate::kit::load::{Load, all_arrived};
use crate::kit::oracle::assert_kept;
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
/// `session_timeout` minus a second, from the last commit on.
const PERMISSION: Duration = SESSION.saturating_sub(Duration::from_secs(1));

/// A wire that refuses, and one that swallows: what was sent into it arrives after the heal, when it is another's right.
const CUTS: [(&str, fn(&Proxy)); 2] = [("cut", Proxy::cut), ("stalled", Proxy::stall)];

#[actix_web::test]
async fn a_replica_that_is_cut_off_from_kafka_stops_in_time_and_comes_back() {
    let turn = Turn::alone();
    let (cluster, wire) = Cluster::behind_a_wire("cutoff");
    let settings = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(settings.path(), format!("[kafka]\nsession_timeout = \"{}s\"\n", SESSION.as_secs()))
        .unwrap();
    let cluster = Rc::new(cluster.env("DISPATCHER_CONFIG", &settings.path().display().to_string()));
    let behind = format!("127.0.0.1:{}", wire.port());
    let reached = cluster.replica_in(&turn).start().await;
    let cut_off = cluster.replica_in(&turn).env("KAFKA_BROKERS", &behind).start().await;
    let witness = Witness::start();
    witness.expects(&reached);
    witness.expects(&cut_off);
    let ledger = witness.receiver.ledger();
    let load = Load::new(CLIENTS, DOCUMENTS);
    for client in &load.clients {
        reached.api().put_client(client, json!({ "webhook": witness.receiver.hook(client) })).await;
    }
    let stream = Stream::start(cluster.clone(), load);

    for (how, cut) in CUTS {
        let start = Instant::now();
        eventually("both replicas to send", WITHIN, async || {
            let counts = [&reached, &cut_off].map(|replica| witness.of(replica, start).len());
            holds(counts.iter().all(|count| *count > 50), || format!("{counts:?} requests"))
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
            .of(&cut_off, cut_at + PERMISSION + Duration::from_secs(1))
            .into_iter()
            .filter(|at| *at + LOG_PRECISION < rejoined)
            .map(|at| at.duration_since(cut_at))
            .collect();
        assert!(
            late.is_empty(),
            "{how}: requests of a replica whose permission has ended, after the cut: {late:?}"
        );
        let last = witness.of(&cut_off, cut_at).into_iter().filter(|at| *at < rejoined).max();
        println!(
            "{how}: its last request {:?} after the cut, partitions again after {:?}",
            last.map(|at| at.duration_since(cut_at)),
            rejoined.duration_since(cut_at)
        );
    }

    let sent = stream.end().await;
    all_arrived(&sent, ledger, WITHIN).await;
    for replica in [&reached, &cut_off] {
        replica.api().wait_until_idle(WITHIN).await;
    }
    let arrivals = ledger.arrivals();
    println!("{} pairs, {} arrivals", sent.acknowledged.len(), arrivals.len());
    assert_kept(&sent, &arrivals, |_| 0);
}
