//! Memory does not grow with the number of clients times events, nor with what waits.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::kit::events::Document;
use crate::kit::receiver::Receiver;
use crate::kit::service::Service;

const CLIENTS: usize = 1_000;
/// Of ten clients one is down: its changes wait in the stash.
const DOWN_OF: usize = 10;
const RECORDS_A_REQUEST: usize = 500;
const LIMIT_MIB: u64 = 300;

/// How many events are sent: 100,000, or what `DISPATCHER_TEST_EVENTS` says.
fn events() -> usize {
    std::env::var("DISPATCHER_TEST_EVENTS")
        .map_or(100_000, |text| text.replace('_', "").parse().expect("DISPATCHER_TEST_EVENTS is a number"))
}

#[actix_web::test]
async fn memory_is_bounded_with_a_thousand_clients() {
    let within = Duration::from_secs(60 + events() as u64 / 200);
    let service = Service::alone().start().await;
    let api = service.api();
    let (up, down) = (Receiver::healthy(), Receiver::healthy());
    down.pause();
    let clients: Vec<String> = (0..CLIENTS).map(|number| format!("client-{number}")).collect();
    let puts = clients.iter().enumerate().map(|(number, client)| {
        let receiver = if number % DOWN_OF == 0 { &down } else { &up };
        api.put_client(client, json!({ "webhook": receiver.hook(client) }))
    });
    futures_util::stream::iter(puts).buffer_unordered(16).collect::<Vec<()>>().await;
    let mut documents: Vec<Document> =
        (0..2 * CLIENTS).map(|number| Document::new(number as u64, &[&clients[number % CLIENTS]])).collect();

    let start = Instant::now();
    for request in 0..events() / RECORDS_A_REQUEST {
        let first = request * RECORDS_A_REQUEST;
        let records: Vec<Value> = (first..first + RECORDS_A_REQUEST)
            .map(|number| documents[number % (2 * CLIENTS)].change())
            .collect();
        api.send(&records).await;
    }
    let to_down = events() / DOWN_OF;
    let to_up = events() - to_down;
    up.ledger().wait_for(to_up, within).await;
    let delivered_after = start.elapsed();
    api.wait_for_metric("stash_rows", &[("state", "pending")], to_down as f64, within).await;
    let with_backlog = peak_mib(service.pid());

    down.resume();
    down.ledger().wait_for(to_down, within).await;
    api.wait_until_idle(within).await;

    let peak = peak_mib(service.pid());
    println!(
        "{CLIENTS} clients, {} events: {:.0} deliveries/s, peak {with_backlog} MiB with {to_down} rows waiting, \
         {peak} MiB at the end",
        events(),
        to_up as f64 / delivered_after.as_secs_f64()
    );
    assert!(peak < LIMIT_MIB, "peak memory {peak} MiB");
}

/// The most memory that a process has had resident.
fn peak_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("this test needs /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("kB") / 1024
}
