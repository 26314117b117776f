//! A client for which very much waits: memory stays, questions are answered at once, others are not hurt, and the drain is as fast at its end
//! as at its beginning.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kit::api::Api;
use crate::kit::events::Document;
use crate::kit::receiver::Receiver;
use crate::kit::service::Service;
use crate::kit::wait::{eventually, holds};

const AT_ONCE: usize = 500;
const SAMPLES: usize = 100;

/// How many rows wait: 20,000, or what `DISPATCHER_TEST_ROWS` says.
fn rows() -> usize {
    std::env::var("DISPATCHER_TEST_ROWS")
        .map_or(20_000, |text| text.replace('_', "").parse().expect("DISPATCHER_TEST_ROWS is a number"))
}

/// Sends changes of documents of one client, in turns, and returns how many.
async fn send(api: &Api, documents: &mut [Document], count: usize) {
    let mut number = 0;
    while number < count {
        let some = AT_ONCE.min(count - number);
        let of = documents.len();
        let records: Vec<Value> =
            (number..number + some).map(|number| documents[number % of].change()).collect();
        api.send(&records).await;
        number += some;
    }
}

/// How long single changes take from the request that brings them to their arrival: half of them, and all but one of a hundred.
async fn latency(api: &Api, receiver: &Receiver, document: &mut Document) -> (Duration, Duration) {
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        let before = receiver.ledger().len();
        let sent = Instant::now();
        api.send(&[document.change()]).await;
        let arrivals = receiver.ledger().wait_for(before + 1, Duration::from_secs(30)).await;
        samples.push(arrivals[before].at.saturating_duration_since(sent));
    }
    samples.sort_unstable();
    (samples[SAMPLES / 2], samples[SAMPLES - 2])
}

/// The slowest of some answers of each path of the API that an operator opens.
async fn slowest_answer(api: &Api) -> (Duration, String) {
    let mut slowest = (Duration::ZERO, String::new());
    for path in [
        "/v1/clients?limit=100",
        "/v1/clients/big",
        "/v1/clients/big/attempts",
        "/v1/dead-letters",
        "/v1/operational-events?order=newest",
        "/v1/queues",
        "/v1/queues/dispatcher/jobs?state=delayed",
        "/status",
        "/metrics",
    ] {
        let mut took = Vec::new();
        for _ in 0..5 {
            let asked = Instant::now();
            let reply = api.get(path).await.unwrap();
            took.push(asked.elapsed());
            assert!(matches!(reply.status, 200 | 503), "{path}: {} {}", reply.status, reply.text());
        }
        took.sort_unstable();
        slowest = slowest.max((took[2], path.to_owned()));
    }
    slowest
}

#[actix_web::test]
async fn a_client_for_which_very_much_waits_hurts_nobody() {
    let within = Duration::from_secs(120 + rows() as u64 / 200);
    let service = Service::alone().env("DISPATCHER_CANARY_INTERVAL", "500ms").start().await;
    let api = service.api();
    let (big, small) = (Receiver::healthy(), Receiver::healthy());
    api.put_client("big", json!({ "webhook": big.hook("big") })).await;
    api.put_client("small", json!({ "webhook": small.hook("small") })).await;
    let mut documents: Vec<_> = (0..5_000).map(|number| Document::new(number, &["big"])).collect();
    let mut own = Document::new(u64::MAX, &["small"]);

    // More than the newest records that stay in memory in any case.
    let warm_up = 40_000;
    send(api, &mut documents, warm_up).await;
    big.ledger().wait_for(warm_up, within).await;
    let empty = (resident_mib(service.pid()), latency(api, &small, &mut own).await);

    big.pause();
    send(api, &mut documents, rows()).await;
    api.wait_for_metric("stash_rows", &[("state", "pending")], rows() as f64, within).await;
    let full = (resident_mib(service.pid()), latency(api, &small, &mut own).await);
    let (slowest, path) = slowest_answer(api).await;

    big.resume();
    // Not by the ledger: it looks at everything that arrived, again and again.
    eventually("a tenth to be drained", within, async || {
        let pending = api.metrics().await.sum("stash_rows", &[("state", "pending")]);
        holds(pending <= rows() as f64 * 0.9, || format!("{pending} rows"))
    })
    .await;
    let draining = latency(api, &small, &mut own).await;
    api.wait_until_idle(within).await;
    let arrivals = big.ledger().arrivals();
    let between = |from: usize, to: usize| {
        let at = |part: usize| arrivals[warm_up + rows() * part / 10 - 1].at;
        at(to).saturating_duration_since(at(from))
    };
    let tenths: Vec<_> = (0..10).map(|part| between(part, part + 1)).collect();
    let (early, late) = (between(1, 4), between(7, 10));

    println!(
        "{} rows: {} MiB empty, {} MiB full; slowest answer {slowest:?} ({path}); another client's p50, p99 {:?} empty, {:?} full, \
         {draining:?} draining; each tenth drained in {tenths:?}",
        rows(),
        empty.0,
        full.0,
        empty.1,
        full.1
    );
    let arrived = big.ledger().distinct();
    assert_eq!(arrived, warm_up + rows(), "everything arrived");
    // Beside the caches of SQLite and of the newest records, which an empty stash has not filled yet.
    assert!(full.0 <= empty.0 * 6 / 5 + 64, "memory: {} MiB, {} MiB", empty.0, full.0);
    assert!(late <= early * 2 + Duration::from_secs(1), "the drain grows slower: {early:?}, {late:?}");
    assert!(slowest < Duration::from_millis(250), "{path} took {slowest:?}");
    let (half, _) = draining;
    assert!(half < Duration::from_millis(500), "another client waits for the drain: {half:?}");
}

/// The memory of its own that a process has resident.
fn resident_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("this test needs /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("kB") / 1024
}
