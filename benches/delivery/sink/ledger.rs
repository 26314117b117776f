//! What arrived, and whether it is right. A document of the bench begins at version 1 and each change counts it up, so
//! for each client and document the first arrivals must be version 1, 2, 3 and so on, with rising sequences.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::clock::now_us;

/// Faults that are kept in words; the others are only counted.
const FAULTS_IN_WORDS: usize = 5;

/// A place in the transfer log: incarnation, partition, offset.
type Sequence = (u32, u32, u64);

/// What arrived so far.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// By client and document, the sequences that arrived: that of version 1 first.
    lines: HashMap<(u64, u64), Vec<Sequence>>,
    report: Report,
    /// From the time in the body to the arrival, microseconds; of first arrivals.
    latencies_us: Vec<u32>,
}

/// How far it is: what is asked for again and again.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// See [`Report::deliveries`].
    pub(crate) deliveries: u64,
    /// See [`Report::faults`].
    pub(crate) faults: u64,
}

/// What the sink says of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// First arrivals.
    pub(crate) deliveries: u64,
    /// Arrivals of what had arrived before. They are allowed.
    pub(crate) repeats: u64,
    /// Pairs of a client and a document.
    pub(crate) lines: u64,
    /// Bytes of all bodies.
    pub(crate) bytes: u64,
    /// The time of the first and of the last first arrival, microseconds since 1970; 0: none.
    pub(crate) first_us: u64,
    /// See `first_us`.
    pub(crate) last_us: u64,
    /// From the time in the body to the arrival.
    pub(crate) latency: Latency,
    /// Requests that must not be: unreadable, out of order, or the same change under another sequence.
    pub(crate) faults: u64,
    /// The first of them.
    pub(crate) first_faults: Vec<String>,
}

/// Percentiles, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Latency {
    /// Half were faster.
    pub(crate) p50_us: u32,
    /// 95 of 100 were faster.
    pub(crate) p95_us: u32,
    /// 99 of 100 were faster.
    pub(crate) p99_us: u32,
    /// The slowest.
    pub(crate) max_us: u32,
}

impl Ledger {
    /// A request arrived.
    pub(crate) fn enter(&mut self, path: &str, sequence: &str, body: &[u8]) {
        self.report.bytes += body.len() as u64;
        let Some(arrival) = Arrival::read(path, sequence, body) else {
            self.fault(format!("cannot be read: {path} sequence {sequence:?}, {} bytes", body.len()));
            return;
        };
        let line = self.lines.entry((arrival.client, arrival.document)).or_default();
        let (known, last) = (line.len() as u64, line.last().copied());
        if last.is_none_or(|last| arrival.sequence > last) {
            line.push(arrival.sequence);
            if arrival.version == known + 1 {
                self.first_arrival(&arrival);
            } else {
                self.fault(format!(
                    "version {} under {sequence} after version {known} under {last:?}: {path} {:x}",
                    arrival.version, arrival.document
                ));
            }
        } else if line.binary_search(&arrival.sequence).is_ok_and(|at| at as u64 + 1 == arrival.version) {
            self.report.repeats += 1;
        } else {
            self.fault(format!(
                "version {} under {sequence} after {last:?}: {path} {:x}",
                arrival.version, arrival.document
            ));
        }
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> Progress {
        Progress { deliveries: self.report.deliveries, faults: self.report.faults }
    }

    /// The whole of it.
    pub(crate) fn report(&self) -> Report {
        Report {
            lines: self.lines.len() as u64,
            latency: Latency::of(self.latencies_us.clone()),
            ..self.report.clone()
        }
    }

    fn first_arrival(&mut self, arrival: &Arrival) {
        let now_us = now_us();
        self.report.deliveries += 1;
        if self.report.first_us == 0 {
            self.report.first_us = now_us;
        }
        self.report.last_us = now_us;
        let latency = now_us.saturating_sub(arrival.sent_us);
        self.latencies_us.push(u32::try_from(latency).unwrap_or(u32::MAX));
    }

    fn fault(&mut self, words: String) {
        self.report.faults += 1;
        if self.report.first_faults.len() < FAULTS_IN_WORDS {
            self.report.first_faults.push(words);
        }
    }
}

impl Report {
    /// Whether nothing wrong arrived.
    ///
    /// # Errors
    /// Says what did.
    pub(crate) fn verify_order(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.faults == 0, "{} faults: {}", self.faults, self.first_faults.join("; "));
        Ok(())
    }

    /// Whether exactly this arrived, and nothing wrong.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(crate) fn verify(&self, deliveries: u64, lines: u64) -> anyhow::Result<()> {
        self.verify_order()?;
        anyhow::ensure!(self.deliveries == deliveries, "{} deliveries of {deliveries}", self.deliveries);
        anyhow::ensure!(self.lines == lines, "{} pairs of client and document, not {lines}", self.lines);
        Ok(())
    }
}

impl Latency {
    fn of(mut latencies_us: Vec<u32>) -> Self {
        latencies_us.sort_unstable();
        let at = |per_cent: usize| {
            // The smallest that so many are not above.
            let rank = (latencies_us.len() * per_cent).div_ceil(100).max(1);
            latencies_us.get(rank - 1).copied().unwrap_or(0)
        };
        Self { p50_us: at(50), p95_us: at(95), p99_us: at(99), max_us: at(100) }
    }
}

struct Arrival {
    client: u64,
    document: u64,
    version: u64,
    sent_us: u64,
    sequence: Sequence,
}

impl Arrival {
    fn read(path: &str, sequence: &str, body: &[u8]) -> Option<Self> {
        let id = std::str::from_utf8(body.strip_prefix(br#"{"id":""#)?.get(..24)?).ok()?;
        let mut parts = sequence.split('-');
        let read = Self {
            client: number_of(path.strip_prefix("/hook/")?)?,
            document: number_of(id)?,
            version: number_after(body, br#""version":"#)?,
            sent_us: number_after(body, br#""sent_us":"#)?,
            sequence: (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?),
        };
        parts.next().is_none().then_some(read)
    }
}

/// The number in an id of the bench.
fn number_of(id: &str) -> Option<u64> {
    u64::from_str_radix(id.get(8..24)?, 16).ok().filter(|_| id.len() == 24)
}

fn number_after(body: &[u8], name: &[u8]) -> Option<u64> {
    let start = body.windows(name.len()).position(|window| window == name)? + name.len();
    let length = body[start..].iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&body[start..start + length]).ok()?.parse().ok()
}
