//! All metric names. The help text of each stands beside it.

use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

/// The metrics of the service, in one registry with those of the HTTP server.
#[derive(Clone)]
pub struct Metrics {
    /// Where they are registered.
    pub registry: Registry,
    /// Source records read, by `kind`: change, tombstone, skip, invalid.
    pub events: IntCounterVec,
    /// Transfers written: pairs of change and client.
    pub routed: IntCounter,
    /// Pairs (or whole events) that were not routed, by `reason`.
    pub skipped: IntCounterVec,
    /// Attempts, by `outcome` (delivered, failed, gone) and `reason`.
    pub deliveries: IntCounterVec,
    /// From the start of a request to its answer, in seconds.
    pub request_seconds: Histogram,
    /// From the change itself (its `ts_ms`) to the 2xx, in seconds; changes that waited in the stash included.
    pub delivery_seconds: Histogram,
    /// Requests on the wire.
    pub in_flight: IntGauge,
    /// Transfers in memory that wait for their turn.
    pub queued: IntGauge,
    /// Bytes of the transfers in memory.
    pub queued_bytes: IntGauge,
    /// Payloads that went into the stash, by `reason`: failed, behind (an older one waits), spilled (queue full),
    /// slow (insurance), disabled, config_invalid, owner_blocked, actor_failed (its delivery actor broke too often).
    pub stashed: IntCounterVec,
    /// Rows that a newer one of their document stood for: not sent (`coalesce`).
    pub coalesced: IntCounter,
    /// Changes that were dropped, by `reason`: overflow (more would wait than may).
    pub dropped: IntCounterVec,
    /// Payloads that the stash will never take: each is a dead letter of the log.
    pub stash_refused: IntCounter,
    /// Rows of the stash that were given up long ago and removed.
    pub stash_purged: IntCounter,
    /// Replays that came from the log, by `outcome`: taken (the row waits again); gone (delivered, or purged), waits (already), superseded,
    /// newer_waits (a newer change of the document is on its way), overflow.
    pub replays: IntCounterVec,
    /// Rows of the stash, by `state`.
    pub stash_rows: IntGaugeVec,
    /// Age of the oldest change that waits in the stash, by its `ts_ms`, in seconds; 0 when none does.
    pub oldest_waiting_seconds: Gauge,
    /// Records that are not committed, by `stream`: source, transfer.
    pub lag: IntGaugeVec,
    /// Delivery actors alive.
    pub delivery_actors: IntGauge,
    /// Restarts of actors, by `kind`.
    pub restarts: IntCounterVec,
    /// Threads of delivery that made no progress and were left behind.
    pub lost_arbiters: IntCounter,
    /// Errors of stores that were retried, by `store`.
    pub store_errors: IntCounterVec,
    /// Attempts at jobs, by `queue`, `job` and `outcome`: completed, later (goes on), retried, failed (given up), blocked (its owner is),
    /// unknown (another version's job), lost (its lock was), paused (its queue is, and had lost its pause).
    pub jobs: IntCounterVec,
    /// 1 while a queue is paused, by `queue`.
    pub queue_paused: IntGaugeVec,
    /// From the start of an attempt at a job to its end, in seconds, by `queue`.
    pub job_seconds: HistogramVec,
    /// Jobs, by `queue` and `state`: active, waiting, prioritized, delayed, completed, failed.
    pub queue_jobs: IntGaugeVec,
    /// For how long the oldest job that could run has not, in seconds, by `queue`; 0 when none waits.
    pub queue_oldest_waiting_seconds: GaugeVec,
    /// Work that one replica does at a time, by `key` and `outcome`: ran, skipped (another did it), lost (its lease was).
    pub exclusive_runs: IntCounterVec,
    /// Owners whose work is not done.
    pub blocked_owners: IntGauge,
    /// Partitions whose next records were gone before they were read, by `stream`: source, transfer.
    pub gaps: IntCounterVec,
    /// Operational events that were recorded, by `type`.
    pub operational_events: IntCounterVec,
    /// Operational events that were handed on, by `to`: topic, webhook.
    pub operational_events_forwarded: IntCounterVec,
    /// Tries to hand them on that failed, by `to`.
    pub operational_event_failures: IntCounterVec,
    /// Records that were dropped, by `kind` (operational-events, attempts): too many waited for the store, or it refused them.
    pub records_dropped: IntCounterVec,
    /// Copies and notices for Redis that were dropped, because it was away or refused them, by `copy`: config, config_id,
    /// state, notice.
    pub copies_dropped: IntCounterVec,
    /// Actions, and ends of actions, that are not in the audit log because the store was away.
    pub audit_missed: IntCounter,
}

impl Metrics {
    /// Registers everything.
    ///
    /// # Panics
    /// When a name is registered twice: a mistake in this file.
    #[expect(
        clippy::unwrap_used,
        reason = "start-up invariant: the names below are distinct and well-formed"
    )]
    pub fn new() -> Self {
        let registry = Registry::new();
        let counter = |name: &str, help: &str| {
            let metric = IntCounter::new(format!("dispatcher_{name}"), help).unwrap();
            registry.register(Box::new(metric.clone())).unwrap();
            metric
        };
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let metric = IntCounterVec::new(Opts::new(format!("dispatcher_{name}"), help), labels).unwrap();
            registry.register(Box::new(metric.clone())).unwrap();
            metric
        };
        let gauge = |name: &str, help: &str| {
            let metric = IntGauge::new(format!("dispatcher_{name}"), help).unwrap();
            registry.register(Box::new(metric.clone())).unwrap();
            metric
        };
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            let metric = IntGaugeVec::new(Opts::new(format!("dispatcher_{name}"), help), labels).unwrap();
            registry.register(Box::new(metric.clone())).unwrap();
            metric
        };
        let histogram = |name: &str, help: &str, first: f64, count: usize| {
            let buckets = prometheus::exponential_buckets(first, 2.0, count).unwrap();
            let options = HistogramOpts::new(format!("dispatcher_{name}"), help).buckets(buckets);
            let metric = Histogram::with_opts(options).unwrap();
            registry.register(Box::new(metric.clone())).unwrap();
            metric
        };
        let job_seconds = HistogramVec::new(
            HistogramOpts::new("dispatcher_job_seconds", "From the start of an attempt at a job to its end")
                .buckets(prometheus::exponential_buckets(0.001, 4.0, 12).unwrap()),
            &["queue"],
        )
        .unwrap();
        registry.register(Box::new(job_seconds.clone())).unwrap();
        let queue_oldest_waiting_seconds = GaugeVec::new(
            Opts::new(
                "dispatcher_queue_oldest_waiting_seconds",
                "For how long the oldest job that could run has not; 0 when none waits",
            ),
            &["queue"],
        )
        .unwrap();
        registry.register(Box::new(queue_oldest_waiting_seconds.clone())).unwrap();
        let oldest_waiting_seconds = Gauge::new(
            "dispatcher_oldest_waiting_seconds",
            "Age of the oldest change that waits in the stash; 0 when none does",
        )
        .unwrap();
        registry.register(Box::new(oldest_waiting_seconds.clone())).unwrap();
        Self {
            events: counters("events_total", "Source records read", &["kind"]),
            routed: counter("routed_total", "Transfers written: pairs of change and client"),
            skipped: counters("skipped_total", "Changes that were not routed", &["reason"]),
            deliveries: counters("deliveries_total", "Attempts to deliver", &["outcome", "reason"]),
            request_seconds: histogram(
                "request_seconds",
                "From the start of a request to its answer",
                0.000_5,
                18,
            ),
            delivery_seconds: histogram(
                "delivery_seconds",
                "From the change (its ts_ms) to the 2xx",
                0.001,
                24,
            ),
            in_flight: gauge("in_flight", "Requests on the wire"),
            queued: gauge("queued", "Transfers in memory that wait for their turn"),
            queued_bytes: gauge("queued_bytes", "Bytes of the transfers in memory"),
            stashed: counters("stashed_total", "Payloads that went into the stash", &["reason"]),
            coalesced: counter("coalesced_total", "Rows that a newer one of their document stood for"),
            dropped: counters("dropped_total", "Changes that were dropped", &["reason"]),
            stash_refused: counter("stash_refused_total", "Payloads that the stash will never take"),
            stash_purged: counter(
                "stash_purged_total",
                "Rows of the stash that were given up long ago and removed",
            ),
            replays: counters("replays_total", "Replays that came from the log", &["outcome"]),
            stash_rows: gauges("stash_rows", "Rows of the stash", &["state"]),
            oldest_waiting_seconds,
            lag: gauges("lag", "Records that are not committed", &["stream"]),
            delivery_actors: gauge("delivery_actors", "Delivery actors alive"),
            restarts: counters("actor_restarts_total", "Restarts of actors", &["kind"]),
            lost_arbiters: counter(
                "arbiters_lost_total",
                "Threads that made no progress and were left behind",
            ),
            store_errors: counters("store_errors_total", "Errors of stores that were retried", &["store"]),
            jobs: counters("jobs_total", "Attempts at jobs", &["queue", "job", "outcome"]),
            queue_paused: gauges("queue_paused", "1 while a queue is paused", &["queue"]),
            job_seconds,
            queue_jobs: gauges("queue_jobs", "Jobs in the queues", &["queue", "state"]),
            queue_oldest_waiting_seconds,
            exclusive_runs: counters(
                "exclusive_runs_total",
                "Work that one replica does at a time",
                &["key", "outcome"],
            ),
            blocked_owners: gauge("blocked_owners", "Owners whose work is not done"),
            gaps: counters(
                "gaps_total",
                "Partitions whose next records were gone before they were read",
                &["stream"],
            ),
            operational_events: counters(
                "operational_events_total",
                "Operational events that were recorded",
                &["type"],
            ),
            operational_events_forwarded: counters(
                "operational_events_forwarded_total",
                "Operational events that were handed on",
                &["to"],
            ),
            operational_event_failures: counters(
                "operational_event_failures_total",
                "Tries to hand operational events on that failed",
                &["to"],
            ),
            records_dropped: counters(
                "records_dropped_total",
                "Operational events and attempts that were dropped instead of written",
                &["kind"],
            ),
            copies_dropped: counters(
                "copies_dropped_total",
                "Copies for Redis that were dropped because it was away",
                &["copy"],
            ),
            audit_missed: counter("audit_missed_total", "Actions that could not be written to the audit log"),
            registry,
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
