//! The gauges that are asked when somebody reads them.

use std::sync::Arc;

use crate::actors::ingest::LagProbe;
use crate::domain::stash::Backlog;
use crate::metrics::Metrics;
use crate::ports::clock::Clock;
use crate::ports::stash::Stash;
use crate::web;

/// What the gauges are brought up to date from.
#[derive(Clone)]
pub(super) struct Gauges {
    pub(super) source_lag: LagProbe,
    pub(super) transfer_lag: LagProbe,
    pub(super) stash: Arc<dyn Stash>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Metrics,
}

impl Gauges {
    pub(super) fn before_scrape(self) -> web::Ask<(), ()> {
        Arc::new(move |()| {
            let gauges = self.clone();
            Box::pin(async move { gauges.refresh().await })
        })
    }

    /// In the order of the flow, so that a change on its way is never in none of them. What cannot be asked stays as it was.
    async fn refresh(&self) {
        let metrics = &self.metrics;
        for (stream, probe) in [("source", &self.source_lag), ("transfer", &self.transfer_lag)] {
            if let Some(lag) = probe.ask().await {
                metrics.lag.with_label_values(&[stream]).set(gauge(lag.records));
            }
        }
        let Ok(backlogs) = self.stash.backlogs().await else { return };
        let sum =
            |count: fn(&Backlog) -> u64| gauge(backlogs.iter().map(|(_, backlog)| count(backlog)).sum());
        metrics.stash_rows.with_label_values(&["pending"]).set(sum(|backlog| backlog.pending));
        metrics.stash_rows.with_label_values(&["dead"]).set(sum(|backlog| backlog.dead));
        let oldest = backlogs.iter().filter_map(|(_, backlog)| backlog.oldest_ts_ms).min();
        let age_ms = oldest.map_or(0, |oldest| (self.clock.now_ms() - oldest).max(0));
        metrics.oldest_waiting_seconds.set(age_ms as f64 / 1000.0);
    }
}

fn gauge(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
