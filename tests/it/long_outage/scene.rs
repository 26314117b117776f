//! A client whose receiver goes down, one that is well, and what both wait for.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kit::api::Api;
use crate::kit::events::Document;
use crate::kit::ledger::{Arrival, Ledger};
use crate::kit::load::Missing;
use crate::kit::long_run::outage_or;
use crate::kit::oracle::{Pair, Sent, assert_kept};
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::service::{Builder, Service};
use crate::kit::wait::{eventually, holds};

/// How long the receiver is down, in a usual run.
const DOWN: Duration = Duration::from_secs(20);
pub(super) const WITHIN: Duration = Duration::from_secs(120);
/// What a receiver that lives again waits at most: a canary comes every 15 s.
const FIRST_DELIVERY: Duration = Duration::from_secs(20);
/// How many requests the receiver takes at once, and its time for each.
const CONCURRENCY: usize = 8;
pub(super) const ANSWER: Duration = Duration::from_millis(20);
/// How often changes are made.
const PACE: Duration = Duration::from_millis(100);
/// Latencies are judged by the median of so many windows.
const WINDOWS: usize = 5;
const CLIENTS: [&str; 2] = ["down", "up"];

/// How long the receiver is down, and what changes meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Outage {
    pub(super) down: Duration,
    documents: u64,
    pub(super) changes: usize,
}

impl Outage {
    /// The whole where it is to be longer.
    pub(super) fn new() -> Self {
        let down = outage_or(DOWN);
        if down > DOWN {
            Self { down, documents: 500, changes: 5_000 }
        } else {
            Self { down, documents: 100, changes: 1_000 }
        }
    }

    /// Of a service that is to have what everybody has: other tests are less patient.
    pub(super) fn settings(builder: Builder) -> Builder {
        builder.env("DISPATCHER_RETRY_BASE", "5s").env("DISPATCHER_CANARY_INTERVAL", "15s")
    }
}

/// Where changes go in.
pub(super) enum Intake<'a> {
    Api(&'a Api),
    #[cfg(feature = "cluster")]
    Kafka(&'a crate::kit::cluster::Cluster),
}

impl Intake<'_> {
    pub(super) async fn take(&self, records: &[Value]) {
        match self {
            Self::Api(api) => api.send(records).await,
            #[cfg(feature = "cluster")]
            Self::Kafka(cluster) => cluster.produce(records).await,
        }
    }
}

/// A client whose receiver goes down, and one that is well, with the same documents.
pub(super) struct Scene {
    pub(super) outage: Outage,
    healthy: Ledger,
    documents: Vec<Document>,
    changes: usize,
    pub(super) sent: Sent,
    /// When each change of the healthy client went in.
    went_in: BTreeMap<Pair, Instant>,
}

impl Scene {
    pub(super) fn new(healthy: &Receiver) -> Self {
        let outage = Outage::new();
        let documents = (0..outage.documents).map(|number| Document::new(number, &CLIENTS)).collect();
        Self {
            outage,
            healthy: healthy.ledger().clone(),
            documents,
            changes: 0,
            sent: Sent::default(),
            went_in: BTreeMap::new(),
        }
    }

    /// Changes documents in turn, evenly over a time.
    pub(super) async fn change(&mut self, intake: &Intake<'_>, changes: usize, over: Duration) {
        let steps = (over.as_millis() / PACE.as_millis()).max(1) as usize;
        let mut pace = tokio::time::interval(PACE);
        for step in 0..steps {
            pace.tick().await;
            let count = changes * (step + 1) / steps - changes * step / steps;
            let mut records = Vec::new();
            let mut pairs = Vec::new();
            for _ in 0..count {
                let index = self.changes % self.documents.len();
                self.changes += 1;
                records.push(self.documents[index].change());
                pairs.extend(self.documents[index].pairs());
            }
            let now = Instant::now();
            intake.take(&records).await;
            self.went_in
                .extend(pairs.iter().filter(|pair| pair.client == "up").map(|pair| (pair.clone(), now)));
            self.sent.acknowledged.extend(pairs);
        }
    }

    /// As many changes as in the same time of the outage.
    pub(super) async fn change_for(&mut self, intake: &Intake<'_>, time: Duration) {
        let share = time.as_secs_f64() / self.outage.down.as_secs_f64();
        self.change(intake, (self.outage.changes as f64 * share) as usize, time).await;
    }

    /// How long the healthy client waited for changes that went in within a time: the median over windows of the 99th percentile of each.
    pub(super) async fn latency(&self, from: Instant, to: Instant) -> Duration {
        let went_in = self.went_in.iter().map(|(pair, at)| (pair, *at));
        let expected: BTreeMap<&Pair, Instant> = went_in.filter(|(_, at)| (from..to).contains(at)).collect();
        let arrived = eventually("the changes at the healthy client", WITHIN, async || {
            let mut arrived = BTreeMap::new();
            for arrival in self.healthy.arrivals() {
                if let Some(pair) = Pair::of(&arrival) {
                    arrived.entry(pair).or_insert(arrival.at);
                }
            }
            let open = expected.keys().filter(|pair| !arrived.contains_key(**pair)).count();
            if open == 0 { Ok(arrived) } else { Err(format!("{open} are missing")) }
        })
        .await;
        let window = (to - from) / WINDOWS as u32;
        let mut worst: Vec<Duration> = (0..WINDOWS as u32)
            .map(|number| {
                let within = from + window * number..from + window * (number + 1);
                let of_window = expected.iter().filter(|(_, at)| within.contains(*at));
                let waited = of_window.map(|(pair, at)| arrived[*pair].saturating_duration_since(*at));
                percentile_99(waited.collect())
            })
            .collect();
        worst.sort_unstable();
        worst[WINDOWS / 2]
    }
}

fn percentile_99(mut waited: Vec<Duration>) -> Duration {
    waited.sort_unstable();
    waited[waited.len() * 99 / 100]
}

/// What came of a run.
pub(super) struct Figures {
    pub(super) first_delivery: Duration,
    pub(super) drained_in: Duration,
    pub(super) p99_before: Duration,
    pub(super) p99_in_outage: Duration,
}

impl Figures {
    pub(super) fn tell(&self, outage: Outage) -> String {
        format!(
            "first delivery after {:.1?}, drained in {:.1?} (the receiver's pace is {:.1?}), \
             p99 of the healthy client {:.0?} before and {:.0?} in the outage",
            self.first_delivery,
            self.drained_in,
            receivers_pace(outage),
            self.p99_before,
            self.p99_in_outage,
        )
    }
}

/// A receiver that takes its time.
pub(super) fn slow_receiver(script: impl Fn(&Arrival) + Send + Sync + 'static) -> Receiver {
    Receiver::start(move |arrival| {
        script(arrival);
        Answer::Late(ANSWER, 200)
    })
}

pub(super) async fn register(api: &Api, down: &Receiver, up: &Receiver) {
    api.put_client("down", json!({ "webhook": down.hook("down"), "concurrency": CONCURRENCY })).await;
    api.put_client("up", json!({ "webhook": up.hook("up") })).await;
}

/// Both are well for a while. Returns since when.
pub(super) async fn warm_up(scene: &mut Scene, intake: &Intake<'_>, down: &Ledger) -> Instant {
    scene.change(intake, scene.outage.documents as usize, Duration::from_secs(2)).await;
    down.wait_for(scene.outage.documents as usize, WITHIN).await;
    let since = Instant::now();
    scene.change_for(intake, scene.outage.down / 4).await;
    since
}

/// From its return on: the first delivery, then one more change of each document behind those that wait.
pub(super) async fn returns(
    scene: &mut Scene,
    intake: &Intake<'_>,
    receiver: &Receiver,
) -> (Instant, Duration) {
    let before = receiver.ledger().len();
    receiver.resume();
    let back = Instant::now();
    eventually("the first delivery", FIRST_DELIVERY + WITHIN, async || {
        holds(receiver.ledger().len() > before, || "nothing came".to_owned())
    })
    .await;
    let first = receiver.ledger().arrivals()[before].at;
    let took = first - back;
    assert!(took < FIRST_DELIVERY, "the first delivery came {took:?} after the return");
    scene.change(intake, scene.outage.documents as usize, Duration::from_secs(1)).await;
    (first, took)
}

/// Until everything is there. Returns how long it took since the first delivery.
pub(super) async fn drained(
    scene: &Scene,
    receiver: &Receiver,
    first: Instant,
    services: &[&Service],
) -> Duration {
    Missing::new(&scene.sent, &[receiver.ledger(), &scene.healthy]).until_none(WITHIN * 2).await;
    for service in services {
        service.api().wait_until_idle(WITHIN).await;
    }
    let mut arrivals = receiver.ledger().arrivals();
    let last = arrivals.last().unwrap().at;
    arrivals.extend(scene.healthy.arrivals());
    assert_kept(&scene.sent, &arrivals, |_| 0);
    last - first
}

/// The time that the receiver itself needs for what waited.
pub(super) fn receivers_pace(outage: Outage) -> Duration {
    ANSWER * (outage.changes + outage.documents as usize) as u32 / CONCURRENCY as u32
}
