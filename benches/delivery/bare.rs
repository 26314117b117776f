//! The limit of this run: the same HTTP client, bodies and sink, and nothing else. A loop of requests, each sent when
//! the one before is answered, several side by side.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::future::try_join_all;

use crate::changes::{Change, Writer, client_id};
use crate::clock::now_us;
use crate::process;
use crate::report::Row;
use crate::sink::Sink;

/// The clients that the loops stand for.
const CLIENTS: u64 = 20;

/// How many requests run at a time.
#[derive(Debug, Clone, Copy)]
struct Loops {
    threads: u64,
    /// On each thread.
    in_flight: u64,
}

/// What is tried; which is best depends on the machine.
const TRIED: [Loops; 4] = [
    Loops { threads: 1, in_flight: 16 },
    Loops { threads: 1, in_flight: 64 },
    Loops { threads: 2, in_flight: 16 },
    Loops { threads: 2, in_flight: 32 },
];

/// The fastest loops of a run, which its other figures are compared with.
pub(crate) struct Bare {
    loops: Loops,
    time: Duration,
    /// What they did at the start.
    pub(crate) best: Row,
}

impl Bare {
    /// Tries all, each for `time`; `say` gets what each did.
    ///
    /// # Errors
    /// A request failed.
    pub(crate) fn find(sink: &mut Sink, time: Duration, mut say: impl FnMut(&Row)) -> anyhow::Result<Self> {
        let mut found: Option<Self> = None;
        for loops in TRIED {
            let row = measure(sink, loops, time)?;
            say(&row);
            if found.as_ref().is_none_or(|found| row.per_second > found.best.per_second) {
                found = Some(Self { loops, time, best: row });
            }
        }
        found.context("no loops are tried")
    }

    /// The best once more: how far it is from the first time tells how steady the machine was.
    ///
    /// # Errors
    /// A request failed.
    pub(crate) fn again(&self, sink: &mut Sink) -> anyhow::Result<Row> {
        let row = measure(sink, self.loops, self.time)?;
        Ok(row.beside(&self.best).with_note("once more at the end"))
    }
}

fn measure(sink: &mut Sink, loops: Loops, time: Duration) -> anyhow::Result<Row> {
    sink.forget()?;
    let ours = std::process::id();
    let (cpu, sink_cpu) = (process::cpu(ours)?, sink.cpu()?);
    let webhooks: Vec<String> = (0..CLIENTS).map(|client| sink.hook(&client_id(client))).collect();
    let threads: Vec<_> = (0..loops.threads)
        .map(|thread| {
            let webhooks = webhooks.clone();
            std::thread::spawn(move || {
                let documents = thread * loops.in_flight..(thread + 1) * loops.in_flight;
                actix_rt::System::new().block_on(send(webhooks, documents, time))
            })
        })
        .collect();
    for thread in threads {
        thread.join().ok().context("a loop of requests broke")??;
    }
    let report = sink.report()?;
    report.verify(report.deliveries, loops.threads * loops.in_flight)?;
    let name = format!("bare {}x{}", loops.threads, loops.in_flight);
    Ok(Row::of_deliveries(name, &report, process::cpu(ours)? - cpu, sink.cpu()? - sink_cpu))
}

/// One loop a document, so that each document's changes go out in order.
async fn send(webhooks: Vec<String>, documents: std::ops::Range<u64>, time: Duration) -> anyhow::Result<()> {
    let client = awc::Client::builder()
        .connector(awc::Connector::new().limit(0))
        .disable_redirects()
        .timeout(Duration::from_secs(15))
        .no_default_headers()
        .finish();
    let writer = Writer::new();
    let end = Instant::now() + time;
    let loops = documents.map(|document| {
        let (client, writer) = (&client, &writer);
        let webhook = &webhooks[(document % CLIENTS) as usize];
        async move {
            let mut change =
                Change { document, version: 1, clients: [document % CLIENTS, (document + 1) % CLIENTS] };
            loop {
                post(client, webhook, writer, change).await?;
                change.version += 1;
                if Instant::now() >= end {
                    return anyhow::Ok(());
                }
            }
        }
    });
    try_join_all(loops).await?;
    Ok(())
}

/// Sends what the service would: as many headers, as long.
async fn post(client: &awc::Client, webhook: &str, writer: &Writer, change: Change) -> anyhow::Result<()> {
    let sent = client
        .post(webhook)
        .insert_header(("content-type", "application/json"))
        .insert_header(("user-agent", "dispatcher/0.0.0"))
        .insert_header(("authorization", "Bearer of-the-bench"))
        .insert_header(("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
        .insert_header(("webhook-id", "evt_5v3kq2m7aw6d4xhc5t2yb7n4qe"))
        .insert_header(("webhook-sequence", format!("1764435600-7-{}", change.version)))
        .insert_header(("webhook-timestamp", "1764435600"))
        .send_body(writer.body(change, now_us()))
        .await;
    let mut answer = sent.map_err(|err| anyhow::anyhow!("a bare request failed: {err}"))?;
    anyhow::ensure!(answer.status().is_success(), "a bare request was answered {}", answer.status());
    answer.body().limit(16 << 10).await?;
    Ok(())
}
