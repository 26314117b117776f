//! What the dashboard costs. To be measured with a release build, on a machine that does nothing else:
//! `DISPATCHER_TEST_BINARY=target/release/dispatcher cargo test --test it -- --ignored --nocapture watched::`.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::kit::events::Document;
use crate::kit::receiver::Receiver;
use crate::kit::service::Service;
use crate::kit::wait::{eventually, holds};

const LONG: Duration = Duration::from_secs(300);
/// A tick of the times in `/proc/<pid>/stat`: USER_HZ, 100 a second on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// Processor time of all threads of a service.
fn cpu(service: &Service) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", service.pid())).unwrap();
    // The name stands in parentheses; after it come the state (field 3) and numbers only.
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    TICK * fields.skip(11).take(2).map(|ticks| ticks.parse::<u32>().unwrap()).sum::<u32>()
}

/// Somebody has the page open: its stream is read, until this is dropped.
struct Open(tokio::task::JoinHandle<()>);

impl Open {
    async fn page(service: &Service) -> Self {
        let mut events = awc::Client::builder()
            .timeout(Duration::from_secs(10))
            .finish()
            .get(format!("{}/v1/stream", service.api().url()))
            .send()
            .await
            .unwrap();
        Self(actix_web::rt::spawn(async move { while events.next().await.is_some() {} }))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[actix_web::test]
#[ignore = "measures a release build, alone on its machine"]
async fn a_delivery_costs_the_same_while_somebody_watches() {
    const PAIRS: usize = 7;
    const A_SECOND: u32 = 500;
    const SECONDS: u32 = 8;
    let service = Service::alone().start().await;
    let receiver = Receiver::healthy();
    let names: Vec<String> = (0..20).map(|number| format!("client{number}")).collect();
    for client in &names {
        service.api().put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    }
    let of = |number: usize| Document::new(number as u64, &[&names[number % names.len()]]);
    let mut documents: Vec<Document> = (0..200).map(of).collect();
    let (mut number, mut sent, mut ratios) = (0, 0, Vec::new());
    for round in 0..=PAIRS {
        let mut costs = [0.0; 2];
        for turn in 0..2 {
            // Each goes first as often as the other.
            let open = (turn + round) % 2;
            let page = if open == 1 { Some(Open::page(&service).await) } else { None };
            let mut pace = tokio::time::interval(Duration::from_millis(100));
            let before = cpu(&service);
            for _ in 0..SECONDS * 10 {
                pace.tick().await;
                let mut records: Vec<Value> = Vec::new();
                for _ in 0..A_SECOND / 10 {
                    let count = documents.len();
                    records.push(documents[number % count].change());
                    number += 1;
                }
                sent += records.len();
                service.api().send(&records).await;
            }
            receiver.ledger().wait_for(sent, LONG).await;
            costs[open] = (cpu(&service) - before).as_secs_f64() / f64::from(A_SECOND * SECONDS) * 1e6;
            drop(page);
        }
        println!("CPU of a delivery: {:.0} us closed, {:.0} us open", costs[0], costs[1]);
        if round > 0 {
            ratios.push(costs[1] / costs[0]);
        }
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[PAIRS / 2];
    println!("open to closed, median of {PAIRS}: {median:.3}");
    assert!(median < 1.05, "{ratios:?}");
}

#[actix_web::test]
#[ignore = "measures a release build, alone on its machine"]
async fn ten_thousand_clients_cost_little() {
    const CLIENTS: usize = 10_000;
    const LOOKED: Duration = Duration::from_secs(20);
    let service = Service::alone().start().await;
    let receiver = Receiver::healthy();
    let names: Vec<String> = (0..CLIENTS).map(|number| format!("client{number:05}")).collect();
    let api = service.api();
    for names in names.chunks(50) {
        futures_util::future::join_all(
            names.iter().map(|client| api.put_client(client, json!({ "webhook": receiver.hook(client) }))),
        )
        .await;
    }
    // All of them have an actor.
    for (number, clients) in names.chunks(500).enumerate() {
        let clients: Vec<&str> = clients.iter().map(String::as_str).collect();
        api.send(&[Document::new(number as u64, &clients).change()]).await;
    }
    receiver.ledger().wait_for(CLIENTS, LONG).await;
    let _open = Open::page(&service).await;
    eventually("all clients are shown", LONG, async || {
        let shown = api.get("/v1/dashboard").await?.json();
        holds(shown["overview"]["clients"]["total"] == CLIENTS, || shown["overview"]["clients"].to_string())
    })
    .await;
    let (before, began, mut costs) = (cpu(&service), Instant::now(), Vec::new());
    while began.elapsed() < LOOKED {
        let shown = api.get("/v1/dashboard?limit=1").await.unwrap().json();
        costs.push(shown["overview"]["cost_us"].as_u64().unwrap());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    costs.sort();
    let share = (cpu(&service) - before).as_secs_f64() / began.elapsed().as_secs_f64();
    let median = costs[costs.len() / 2];
    println!(
        "{CLIENTS} clients: a snapshot takes {median} us, all of the service {:.1} % of a core",
        share * 100.0
    );
    assert!(median < 20_000 && share < 0.05, "{costs:?} {share}");
}
