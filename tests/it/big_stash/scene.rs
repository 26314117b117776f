//! Two clients: one whose receiver goes down while very much changes, and another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kit::api::Api;
use crate::kit::events::Document;
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::service::Service;
use crate::kit::wait::{eventually, holds};

const DOCUMENTS: u64 = 5_000;
/// Records of one request.
const AT_ONCE: usize = 500;
/// Changes that are measured one after the other.
const SAMPLES: usize = 100;
/// What is delivered before memory is measured, at least: more than the newest records that stay in memory in any case.
const FEW: usize = 20_000;

/// How many rows wait: 20,000, or what `DISPATCHER_TEST_ROWS` says.
fn rows() -> usize {
    std::env::var("DISPATCHER_TEST_ROWS")
        .map_or(FEW, |text| text.replace('_', "").parse().expect("DISPATCHER_TEST_ROWS is a number"))
}

/// How long the receiver of what waits takes for an answer: nothing, or what `DISPATCHER_TEST_ANSWER` says.
fn answer() -> Answer {
    let time = std::env::var("DISPATCHER_TEST_ANSWER").ok();
    let time = time.map(|text| humantime::parse_duration(&text).expect("DISPATCHER_TEST_ANSWER is a time"));
    time.map_or(Answer::Status(200), |time| Answer::Late(time, 200))
}

/// What arrived of one client: only what is needed of each of very many.
#[derive(Clone, Default)]
struct Arrivals(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// When each change came that had not come before.
    at: Vec<Instant>,
    versions: HashMap<String, u64>,
    wrong: Option<String>,
}

impl Arrivals {
    /// Of each document every change comes, in order; a repeat is allowed.
    fn enter(&self, id: String, version: u64) {
        let mut seen = self.0.lock().unwrap();
        let next = seen.versions.get(&id).copied().unwrap_or(0) + 1;
        if version == next {
            seen.versions.insert(id, version);
            seen.at.push(Instant::now());
        } else if version > next && seen.wrong.is_none() {
            seen.wrong = Some(format!("version {version} of {id} came before {next}"));
        }
    }

    fn len(&self) -> usize {
        let seen = self.0.lock().unwrap();
        assert_eq!(seen.wrong, None);
        seen.at.len()
    }

    fn at(&self, number: usize) -> Instant {
        self.0.lock().unwrap().at[number]
    }
}

/// How the service is at some moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Its resident memory.
    pub(super) kib: u64,
    /// From the request that brings a change of the other client to its arrival: half of them, and all but one of a hundred, were as quick.
    pub(super) half: Duration,
    p99: Duration,
}

/// What came of a run.
pub(super) struct Figures {
    pub(super) rows: usize,
    pub(super) empty: Moment,
    pub(super) full: Moment,
    pub(super) draining: Moment,
    pub(super) drained: Moment,
    filled_in: Duration,
    /// How long each tenth of the rows took.
    pub(super) tenths: Vec<Duration>,
    /// The slowest answer of the API while everything waits, and to what.
    pub(super) slowest: (Duration, String),
}

impl Figures {
    pub(super) fn tell(&self) -> String {
        let moment = |moment: Moment| {
            format!("{} MiB, p50 {:.1?}, p99 {:.1?}", moment.kib >> 10, moment.half, moment.p99)
        };
        format!(
            "{} rows, filled in {:.1?}; empty {}; full {}; draining {}; drained {}; tenths {:.2?}; slowest answer {:.1?} ({})",
            self.rows,
            self.filled_in,
            moment(self.empty),
            moment(self.full),
            moment(self.draining),
            moment(self.drained),
            self.tenths,
            self.slowest.0,
            self.slowest.1,
        )
    }
}

/// Makes records what a service's source has.
type AsSourced<'a> = Box<dyn Fn(&[Value]) -> Vec<Value> + 'a>;

pub(super) struct Scene<'a> {
    service: &'a Service,
    /// The records as this service's source has them.
    as_sourced: AsSourced<'a>,
    big: Receiver,
    arrived: Arrivals,
    sent: usize,
    documents: Vec<Document>,
    other: Receiver,
    of_other: Document,
    within: Duration,
}

impl<'a> Scene<'a> {
    pub(super) async fn new(
        service: &'a Service,
        as_sourced: impl Fn(&[Value]) -> Vec<Value> + 'a,
    ) -> Scene<'a> {
        let (arrived, other) = (Arrivals::default(), Receiver::healthy());
        let big = Receiver::forgetful({
            let arrived = arrived.clone();
            move |arrival| {
                if let Some(change) = &arrival.change {
                    arrived.enter(change.id.clone(), change.version.unwrap_or(0));
                }
                answer()
            }
        });
        service.api().put_client("big", json!({ "webhook": big.hook("big") })).await;
        service.api().put_client("other", json!({ "webhook": other.hook("other") })).await;
        Self {
            service,
            as_sourced: Box::new(as_sourced),
            big,
            arrived,
            sent: 0,
            documents: (0..DOCUMENTS).map(|number| Document::new(number, &["big"])).collect(),
            other,
            of_other: Document::new(u64::MAX, &["other"]),
            within: Duration::from_secs(120 + rows() as u64 / 200),
        }
    }

    pub(super) async fn run(mut self) -> Figures {
        // The same with few rows: everything that is bounded has come to its bound, whatever waits.
        let few = FEW.max(rows() / 10);
        self.send(few).await;
        self.arrived_all().await;
        self.fill(few).await;
        self.slowest_answer().await;
        self.big.resume();
        self.drained().await;
        let empty = self.moment(SAMPLES).await;

        let (began, before) = (Instant::now(), self.sent);
        self.fill(rows()).await;
        let filled_in = began.elapsed();
        let full = self.moment(SAMPLES).await;
        let slowest = self.slowest_answer().await;
        self.big.resume();
        self.first_of(before).await;
        let draining = self.moment(usize::MAX).await;
        self.drained().await;
        let drained = self.moment(SAMPLES).await;
        let tenth = |part: usize| self.arrived.at(before + (rows() * part / 10).max(1) - 1);
        let tenths = (0..10).map(|part| tenth(part + 1).saturating_duration_since(tenth(part))).collect();
        Figures { rows: rows(), empty, full, draining, drained, filled_in, tenths, slowest }
    }

    fn api(&self) -> &'a Api {
        self.service.api()
    }

    /// Changes documents in turns.
    async fn send(&mut self, count: usize) {
        let until = self.sent + count;
        while self.sent < until {
            let some = self.sent..until.min(self.sent + AT_ONCE);
            self.sent = some.end;
            let of = self.documents.len();
            let records: Vec<Value> = some.map(|number| self.documents[number % of].change()).collect();
            self.api().send(&(self.as_sourced)(&records)).await;
        }
    }

    /// Stops the receiver, and lets so many rows come.
    async fn fill(&mut self, count: usize) {
        self.big.pause();
        self.send(count).await;
        self.api().wait_for_metric("stash_rows", &[("state", "pending")], count as f64, self.within).await;
    }

    async fn first_of(&self, before: usize) {
        eventually("the first of what waits", self.within, async || {
            holds(self.arrived.len() > before, || "none".to_owned())
        })
        .await;
    }

    async fn arrived_all(&self) {
        eventually("all changes", self.within, async || {
            let arrived = self.arrived.len();
            holds(arrived == self.sent, || format!("{arrived} of {}", self.sent))
        })
        .await;
    }

    async fn drained(&self) {
        self.arrived_all().await;
        self.api().wait_until_idle(self.within).await;
    }

    /// Memory, and the latency of the other client by at most so many changes; while something is drained, as long as that lasts.
    async fn moment(&mut self, samples: usize) -> Moment {
        let mut took = Vec::new();
        while took.len() < samples.min(SAMPLES) || (samples > SAMPLES && self.arrived.len() < self.sent) {
            let before = self.other.ledger().len();
            let sent = Instant::now();
            let record = self.of_other.change();
            self.api().send(&(self.as_sourced)(&[record])).await;
            let arrivals = self.other.ledger().wait_for(before + 1, Duration::from_secs(30)).await;
            took.push(arrivals[before].at.saturating_duration_since(sent));
        }
        took.sort_unstable();
        let kib = resident_kib(self.service.pid());
        Moment { kib, half: took[took.len() / 2], p99: took[took.len() * 99 / 100] }
    }

    /// The slowest answer to what an operator opens; of each path the median of some.
    async fn slowest_answer(&self) -> (Duration, String) {
        let mut slowest = (Duration::ZERO, String::new());
        for path in [
            "/v1/clients?limit=100",
            "/v1/clients/big",
            "/v1/clients/big/attempts",
            "/v1/dashboard",
            "/v1/dashboard/big",
            "/v1/dead-letters",
            "/v1/dead-letters?client=big",
            "/v1/operational-events?order=newest",
            "/v1/queues",
            "/v1/queues/dispatcher/jobs?state=delayed",
            "/v1/actors",
            "/status",
            "/metrics",
        ] {
            let mut took = Vec::new();
            for _ in 0..5 {
                let asked = Instant::now();
                let reply = self.api().get(path).await.unwrap();
                took.push(asked.elapsed());
                assert!(matches!(reply.status, 200 | 503), "{path}: {} {}", reply.status, reply.text());
            }
            took.sort_unstable();
            slowest = slowest.max((took[2], path.to_owned()));
        }
        slowest
    }
}

/// The resident memory of a process.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("this test needs /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").trim().parse().expect("kB")
}
