//! The figures, as a table and as JSON.

use std::time::Duration;

use serde::Serialize;

use crate::process::Memory;
use crate::sink::ledger::{Latency, Report};

/// What one measurement gave. Rates and times are the sink's.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// The scenario, and how it was set.
    pub(crate) name: String,
    /// First arrivals.
    pub(crate) deliveries: u64,
    /// From the first delivery to the last.
    pub(crate) seconds: f64,
    /// Deliveries a second, from the first to the last.
    pub(crate) per_second: f64,
    /// Processor time of the sender, user and system, microseconds a delivery.
    pub(crate) cpu_us: f64,
    /// How much of one core the sink used: at 1 it is the sink that was measured.
    pub(crate) sink_cores: f64,
    /// Bytes of a body, on average.
    pub(crate) body_bytes: u64,
    /// From the time that the change was due to its arrival. Means something where changes are sent at a steady rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency: Option<Latency>,
    /// Of the service's process, when everything was delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<Memory>,
    /// The rate, as a share of the best bare loop's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate_of_bare: Option<f64>,
    /// The processor time, in those of the best bare loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_of_bare: Option<f64>,
    /// What else is to be known.
    pub(crate) notes: Vec<String>,
}

impl Row {
    /// What a report says of a sender that used `cpu`.
    pub(crate) fn of_deliveries(name: String, report: &Report, cpu: Duration, sink_cpu: Duration) -> Self {
        let seconds = (report.last_us - report.first_us) as f64 / 1e6;
        // A rate needs an interval.
        let intervals = report.deliveries.saturating_sub(1) as f64;
        Self {
            name,
            deliveries: report.deliveries,
            seconds,
            per_second: if seconds > 0.0 { intervals / seconds } else { 0.0 },
            cpu_us: cpu.as_secs_f64() * 1e6 / report.deliveries.max(1) as f64,
            sink_cores: if seconds > 0.0 { sink_cpu.as_secs_f64() / seconds } else { 0.0 },
            body_bytes: report.bytes / (report.deliveries + report.repeats).max(1),
            latency: None,
            memory: None,
            rate_of_bare: None,
            cpu_of_bare: None,
            notes: if report.repeats > 0 { vec![format!("{} repeats", report.repeats)] } else { vec![] },
        }
    }

    /// With the memory of the service's process.
    pub(crate) fn with_memory(mut self, memory: Memory) -> Self {
        self.memory = Some(memory);
        self
    }

    /// With the time from the change to its arrival.
    pub(crate) fn with_latency(mut self, latency: Latency) -> Self {
        self.latency = Some(latency);
        self
    }

    /// With a note.
    pub(crate) fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// With its ratios to the best bare loop.
    pub(crate) fn beside(mut self, bare: &Self) -> Self {
        // At a steady rate it is the rate that was asked for.
        self.rate_of_bare = self.latency.is_none().then_some(self.per_second / bare.per_second);
        self.cpu_of_bare = Some(self.cpu_us / bare.cpu_us);
        self
    }
}

/// The head of the table.
pub(crate) const HEAD: &str = "\
| scenario | deliveries | s | per s | of bare | CPU us each | x bare | p50 / p95 / p99 ms | RSS MB peak / end | sink cores | notes |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|";

/// One line of the table.
pub(crate) fn line(row: &Row) -> String {
    let empty = String::new;
    let latency = row.latency.map_or_else(empty, |latency| {
        let ms =
            [latency.p50_us, latency.p95_us, latency.p99_us].map(|us| format!("{:.1}", f64::from(us) / 1e3));
        ms.join(" / ")
    });
    format!(
        "| {} | {} | {:.2} | {:.0} | {} | {:.1} | {} | {latency} | {} | {:.2} | {} |",
        row.name,
        row.deliveries,
        row.seconds,
        row.per_second,
        row.rate_of_bare.map_or_else(empty, |ratio| format!("{ratio:.3}")),
        row.cpu_us,
        row.cpu_of_bare.map_or_else(empty, |ratio| format!("{ratio:.1}")),
        row.memory.map_or_else(empty, |memory| {
            let [peak, end] = [memory.peak, memory.end].map(|bytes| bytes as f64 / 1e6);
            format!("{peak:.0} / {end:.0}")
        }),
        row.sink_cores,
        row.notes.join(", "),
    )
}
