//! The same events give the same bytes to the receivers in both modes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;

use crate::kit::cluster::Cluster;
use crate::kit::fixtures::Fixture;
use crate::kit::receiver::Receiver;
use crate::kit::service::Service;
use crate::kit::turn::Turn;

const WITHIN: Duration = Duration::from_secs(120);
const RECORDS_A_REQUEST: usize = 10;

/// The bodies of each document of each client, in the order in which they came.
type Bodies = BTreeMap<(String, String, String), Vec<String>>;

#[actix_web::test]
async fn embedded_and_cluster_mode_send_the_same_bytes() {
    // One turn for both: whoever asks for a second one may wait behind a test that waits for the first.
    let turn = Turn::shared();
    let embedded = Service::within(&turn).start().await;
    // Bodies name the source as the topics do: no other test has this prefix on the common stores.
    let cluster = Cluster::shared("bytes").env("DISPATCHER_SOURCE_PREFIX", "mongo");
    let replica = cluster.replica_in(&turn).start().await;
    let mut fixtures = Fixture::all();
    // Other topics are not subscribed to.
    fixtures.retain(|fixture| {
        let text = |member: &str| fixture.record[member].as_str().unwrap_or_default();
        let topic = text("topic");
        let is_read = topic.starts_with("mongo.") && !topic.ends_with("-context.configs");
        fixture.kinds() == ["change"] && is_read
    });
    assert!(fixtures.len() > 100, "{} fixtures", fixtures.len());

    let of_embedded = bodies(&embedded, &fixtures).await;
    let of_cluster = bodies(&replica, &fixtures).await;

    assert!(of_embedded.len() > 50, "{} documents arrived", of_embedded.len());
    for (document, bodies) in &of_embedded {
        assert!(
            of_cluster.get(document) == Some(bodies),
            "{document:?}: {bodies:?} and {:?}",
            of_cluster.get(document)
        );
    }
    assert_eq!(of_cluster.len(), of_embedded.len());
}

async fn bodies(service: &Service, fixtures: &[Fixture]) -> Bodies {
    let receiver = Receiver::healthy();
    let api = service.api();
    let began_ms = chrono::Utc::now().timestamp_millis();
    let named = |fixture: &Fixture| {
        let clients = fixture.texts("clients").into_iter().chain(fixture.texts("removed_clients"));
        clients.map(str::to_owned).collect::<Vec<_>>()
    };
    let clients: BTreeSet<String> = fixtures.iter().flat_map(named).collect();
    for client in &clients {
        api.put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    }
    // In turns of some: in cluster mode each request is a transaction of Kafka's.
    for some in fixtures.chunks(RECORDS_A_REQUEST) {
        api.send(&some.iter().map(|fixture| fixture.record.clone()).collect::<Vec<_>>()).await;
    }
    api.wait_for_metric("events_total", &[], fixtures.len() as f64, WITHIN).await;
    api.wait_until_idle(WITHIN).await;
    let mut bodies = Bodies::new();
    for arrival in receiver.ledger().arrivals() {
        let change = arrival.change.expect("every body can be read");
        let document = (arrival.client, change.topic, change.id);
        bodies.entry(document).or_default().push(without_record_time(&arrival.body, began_ms));
    }
    bodies
}

/// A change that says no time gets the record's, which is another in each log.
fn without_record_time(body: &[u8], began_ms: i64) -> String {
    const MEMBER: &str = "\"ts_ms\":";
    let body = std::str::from_utf8(body).unwrap();
    let (before, rest) = body.split_once(MEMBER).expect("every body has a time");
    let (time, after) = rest.split_once(',').unwrap();
    let is_of_this_run = time.parse::<i64>().unwrap() >= began_ms;
    format!("{before}{MEMBER}{},{after}", if is_of_this_run { "the record's" } else { time })
}
