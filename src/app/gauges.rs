//! The gauges that are asked when somebody reads them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use crate::actors::ingest::LagProbe;
use crate::domain::job::JobState;
use crate::domain::stash::Backlog;
use crate::metrics::Metrics;
use crate::ports::clock::Clock;
use crate::ports::job_queue::JobQueue;
use crate::ports::stash::Stash;
use crate::web;
use crate::workers::OpenQueues;
use crate::workers::queues::Queue;

/// How long a queue may take to answer.
const QUEUE_ANSWERS: Duration = Duration::from_secs(1);

/// What the gauges are brought up to date from.
#[derive(Clone)]
pub(super) struct Gauges {
    pub(super) source_lag: LagProbe,
    pub(super) transfer_lag: LagProbe,
    pub(super) stash: Arc<dyn Stash>,
    pub(super) queues: OpenQueues<Queue>,
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

    /// Both at once: queues that are away hold nobody up.
    async fn refresh(&self) {
        tokio::join!(
            self.refresh_flow(),
            join_all(self.queues.iter().map(|queue| self.refresh_queue(queue)))
        );
    }

    /// What cannot be asked in time stays as it was.
    async fn refresh_queue(&self, queue: &Arc<dyn JobQueue>) {
        let name = queue.spec().name;
        let asked = async { tokio::try_join!(queue.counts(), queue.oldest_waiting(), queue.is_paused()) };
        let Ok(Ok((counts, oldest, paused))) = timeout(QUEUE_ANSWERS, asked).await else { return };
        for state in JobState::ALL {
            let jobs = self.metrics.queue_jobs.with_label_values(&[name, state.as_str()]);
            jobs.set(gauge(counts.of(state)));
        }
        let oldest = oldest.unwrap_or_default().as_secs_f64();
        self.metrics.queue_oldest_waiting_seconds.with_label_values(&[name]).set(oldest);
        self.metrics.queue_paused.with_label_values(&[name]).set(paused.into());
    }

    /// In the order of the flow, so that a change on its way is never in none of them. What cannot be asked stays as it was.
    async fn refresh_flow(&self) {
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
