//! kill -9 in the middle, again and again: nothing is lost and the order holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::kit::events::Document;
use crate::kit::oracle::{Pair, Sent, assert_kept};
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
    let mut service = Service::alone().start().await;
    let target = Arc::new(AtomicU32::new(service.pid()));
    let receiver = receiver_that_kills(target.clone());
    let clients: Vec<String> = (0..CLIENTS).map(|number| format!("client-{number}")).collect();
    for client in &clients {
        service.api().put_client(client, json!({ "webhook": receiver.hook(client) })).await;
    }
    let mut documents: Vec<Document> = (0..DOCUMENTS)
        .map(|number| {
            let (one, other) = (number % CLIENTS, (number * 7 + 3) % CLIENTS);
            let other = if one == other { (other + 1) % CLIENTS } else { other };
            Document::new(number as u64, &[&clients[one], &clients[other]])
        })
        .collect();

    let mut kills = 0;
    let mut sent = Sent::default();
    for request in 0..EVENTS / RECORDS_A_REQUEST {
        let (records, pairs) = next_request(&mut documents, request);
        kills += revive(&mut service, &target).await;
        match service.api().offer(&records).await {
            Ok(202) => sent.acknowledged.extend(pairs),
            Ok(status) => panic!("the intake answers {status}"),
            // Killed before its answer: it was taken, or it was not.
            Err(_) => sent.in_doubt.push(pairs),
        }
    }
    loop {
        kills += revive(&mut service, &target).await;
        let missing = missing(&sent, &receiver);
        if missing == 0 && kills == KILL_AT.len() {
            break;
        }
        eventually("progress", Duration::from_secs(60), async || {
            let now = self::missing(&sent, &receiver);
            holds(now < missing || service.has_ended(), || {
                format!("{now} pairs still missing, {kills} kills")
            })
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

fn next_request(documents: &mut [Document], request: usize) -> (Vec<Value>, Vec<Pair>) {
    let mut records = Vec::new();
    let mut pairs = Vec::new();
    for index in 0..RECORDS_A_REQUEST {
        // A step that is prime to the number of documents: each comes again after all others, often within one batch.
        let document = &mut documents[(request * RECORDS_A_REQUEST + index) * 3 / 2 % DOCUMENTS];
        records.push(document.change());
        pairs.extend(document.pairs());
    }
    (records, pairs)
}

fn missing(sent: &Sent, receiver: &Receiver) -> usize {
    let mut open = sent.acknowledged.clone();
    for arrival in receiver.ledger().arrivals() {
        if let Some(change) = arrival.change
            && let Some(version) = change.version
        {
            open.remove(&Pair { client: arrival.client, topic: change.topic, id: change.id, version });
        }
    }
    open.len()
}
