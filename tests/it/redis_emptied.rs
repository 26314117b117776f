//! Redis comes back empty: it holds copies and notices only, so deliveries go on, and the copies come back as its table of keys says.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Commands as _;
use serde_json::{Value, json};

use crate::kit::cluster::Cluster;
use crate::kit::events::Document;
use crate::kit::health::healthy_again;
use crate::kit::load::{Load, all_arrived};
use crate::kit::oracle::assert_kept;
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::stream::Stream;
use crate::kit::turn::Turn;
use crate::kit::wait::{eventually, holds};

const CLIENTS: usize = 10;
const DOCUMENTS: usize = 200;
const WITHIN: Duration = Duration::from_secs(60);
/// Configs are read again every minute, and their ids written.
const RELOADED: Duration = Duration::from_secs(75);

/// The keys of one prefix.
struct Keys {
    connection: redis::Connection,
    prefix: String,
}

impl Keys {
    fn new(cluster: &Cluster) -> Self {
        let connection = redis::Client::open(cluster.redis.url()).unwrap().get_connection().unwrap();
        Self { connection, prefix: cluster.redis_prefix().to_owned() }
    }

    fn empty(&mut self) {
        redis::cmd("FLUSHALL").exec(&mut self.connection).unwrap();
    }

    fn text(&mut self, key: &str) -> Option<String> {
        self.connection.get(format!("{}:dsp:{key}", self.prefix)).unwrap()
    }

    /// The phase in the copy of a client's state.
    fn phase(&mut self, client: &str) -> Option<String> {
        let state: Value = serde_json::from_str(&self.text(&format!("state:{client}"))?).unwrap();
        state["phase"].as_str().map(str::to_owned)
    }

    fn config_ids(&mut self) -> usize {
        self.connection.hlen(format!("{}:dsp:config-ids", self.prefix)).unwrap()
    }

    async fn until(&mut self, what: &str, within: Duration, mut look: impl FnMut(&mut Self) -> bool) {
        eventually(what, within, async || holds(look(self), || "not yet".to_owned())).await;
    }
}

#[actix_web::test]
async fn redis_is_emptied_under_load_and_its_copies_come_back() {
    let turn = Turn::shared();
    let cluster = Rc::new(Cluster::with_own_redis("emptied"));
    let replicas = [cluster.replica_in(&turn).start().await, cluster.replica_in(&turn).start().await];
    let fails = Arc::new(AtomicBool::new(false));
    let receiver = Receiver::start({
        let fails = fails.clone();
        move |arrival| {
            let failing = arrival.client == "client-0" && fails.load(Ordering::Relaxed);
            Answer::Status(if failing { 500 } else { 200 })
        }
    });
    let load = Load::new(CLIENTS, DOCUMENTS);
    for client in &load.clients {
        replicas[0].api().put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    }
    let mut keys = Keys::new(&cluster);
    let stream = Stream::start(cluster.clone(), load);
    fails.store(true, Ordering::Relaxed);
    let since = "failing:client-0";
    keys.until("since when client-0 fails", WITHIN, |keys| keys.text(since).is_some()).await;
    keys.until("its state", WITHIN, |keys| keys.phase("client-0").as_deref() == Some("degraded")).await;
    // Somebody of whom nothing is known is looked up, and that is kept.
    cluster.produce(&[Document::new(9_001, &["nobody"]).create()]).await;
    keys.until("a copy that nobody has no config", WITHIN, |keys| keys.text("config:nobody").is_some()).await;
    assert!(keys.config_ids() >= CLIENTS, "{}", keys.config_ids());

    keys.empty();
    let before = receiver.ledger().distinct();
    receiver.ledger().wait_for(before + 100, WITHIN).await;

    // The state is copied at its next change.
    keys.until("the state after the next try", WITHIN, |keys| {
        keys.phase("client-0").as_deref() == Some("degraded")
    })
    .await;
    assert!(keys.text(since).is_some(), "since when it fails is not told with its state");
    fails.store(false, Ordering::Relaxed);
    keys.until("the state after a success", WITHIN, |keys| {
        keys.phase("client-0").as_deref() == Some("healthy")
    })
    .await;
    assert_eq!(keys.text(since), None, "a success deletes it");
    cluster.produce(&[Document::new(9_002, &["nobody"]).create()]).await;
    keys.until("the copy again", WITHIN, |keys| keys.text("config:nobody").is_some()).await;
    keys.until("the ids of the configs", RELOADED, |keys| keys.config_ids() >= CLIENTS).await;
    // Notices still reach the other replica: what one changes the other uses.
    replicas[1].api().put_client("late", json!({ "webhook": receiver.hook("late") })).await;
    cluster.produce(&[Document::new(9_003, &["late"]).create()]).await;
    receiver.ledger().wait_for_client("late", 1, WITHIN).await;

    let sent = stream.end().await;
    all_arrived(&sent, receiver.ledger(), WITHIN).await;
    for replica in &replicas {
        healthy_again(replica, WITHIN).await;
        replica.api().wait_until_idle(WITHIN).await;
    }
    let arrivals: Vec<_> =
        receiver.ledger().arrivals().into_iter().filter(|arrival| arrival.client != "late").collect();
    println!("{} pairs, {} arrivals", sent.acknowledged.len(), arrivals.len());
    assert_kept(&sent, &arrivals, |_| 0);
}
