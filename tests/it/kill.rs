//! kill -9 in the middle, again and again: nothing is lost and the order holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::kit::load::{Load, Missing};
use crate::kit::oracle::{Sent, assert_kept};
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::service::{Service, send_signal};
use crate::kit::wait::{eventually, holds};

const EVENTS: usize = 10_000;
const CLIENTS: usize = 20;
const DOCUMENTS: usize = 500;
const RECORDS_A_REQUEST: usize = 50;
/// At which arrivals the process is killed: early, in the middle, late, of 20,000 pairs.
const KILL_AT: [usize; 3] = [2_500, 9_000, 15_500];

#[actix_web::test]
async fn nothing_is_lost_and_the_order_holds_over_three_kills() {
    let mut service = Service::shared().start().await;
    let target = Arc::new(AtomicU32::new(service.pid()));
    let receiver = receiver_that_kills(target.clone());
    let mut load = Load::new(CLIENTS, DOCUMENTS);
    for client in &load.clients {
        service.api().put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    }

    let mut kills = 0;
    let mut sent = Sent::default();
    for _ in 0..EVENTS / RECORDS_A_REQUEST {
        let (records, pairs) = load.next(RECORDS_A_REQUEST);
        kills += revive(&mut service, &target).await;
        match service.api().offer(&records).await {
            Ok(202) => sent.acknowledged.extend(pairs),
            Ok(status) => panic!("the intake answers {status}"),
            // Killed before its answer: it was taken, or it was not.
            Err(_) => sent.in_doubt.push(pairs),
        }
    }
    let mut missing = Missing::new(&sent, &[receiver.ledger()]);
    loop {
        kills += revive(&mut service, &target).await;
        let before = missing.count();
        if before == 0 && kills == KILL_AT.len() {
            break;
        }
        eventually("progress", Duration::from_secs(60), async || {
            let now = missing.count();
            holds(now < before || service.has_ended(), || format!("{now} pairs still missing, {kills} kills"))
        })
        .await;
    }
    service.api().wait_until_idle(Duration::from_secs(60)).await;

    let arrivals = receiver.ledger().arrivals();
    let repeats = arrivals.len() - receiver.ledger().distinct();
    println!(
        "{kills} kills, {} pairs acknowledged, {} requests in doubt, {} arrivals, {repeats} repeats",
        sent.acknowledged.len(),
        sent.in_doubt.len(),
        arrivals.len()
    );
    assert_kept(&sent, &arrivals, |_| 0);
}

/// Answers 200, and kills the process that it finds in `target` at the arrivals of [`KILL_AT`].
fn receiver_that_kills(target: Arc<AtomicU32>) -> Receiver {
    let arrivals = AtomicUsize::new(0);
    Receiver::start(move |_| {
        if KILL_AT.contains(&arrivals.fetch_add(1, Ordering::Relaxed)) {
            send_signal("-KILL", target.load(Ordering::Relaxed));
        }
        Answer::Status(200)
    })
}

/// Starts the service again when it was killed. Returns how many kills it found: 0 or 1.
async fn revive(service: &mut Service, target: &AtomicU32) -> usize {
    if !service.has_ended() {
        return 0;
    }
    service.start_again().await;
    target.store(service.pid(), Ordering::Relaxed);
    1
}
