//! Operational events: how they are recorded, and handed on.

pub mod forwarder;
pub mod targets;

use std::sync::Arc;
use std::time::Duration;

use super::recorder::{Record, Recorder, Records};
use crate::domain::operational_event::{Happening, OperationalEvent};
use crate::metrics::Metrics;
use crate::ports::clock::Clock;
use crate::ports::operational_events::OperationalEvents;
use crate::ports::{BoxFuture, StoreResult};
use crate::runtime::{Cell, Life};

/// However many happen, the newest of them are kept.
const KEPT: u64 = 100_000;

/// Takes operational events, and never waits.
pub type EventRecorder = Recorder<OperationalEvent>;

impl Record for OperationalEvent {
    const KIND: &'static str = "operational-events";
    const WAITING: usize = 10_000;
    const AT_ONCE: usize = 200;
    const LINGER: Duration = Duration::from_millis(10);
}

/// The store of events, and how long they stay.
pub struct KeptEvents {
    /// Where they are.
    pub store: Arc<dyn OperationalEvents>,
    /// Older ones are removed.
    pub retention: Duration,
    /// Counters.
    pub metrics: Metrics,
}

impl Records<OperationalEvent> for KeptEvents {
    fn write(&self, events: Vec<OperationalEvent>) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async move {
            self.store.append(events.clone()).await?;
            for event in events {
                self.metrics.operational_events.with_label_values(&[event.happening.as_str()]).inc();
            }
            Ok(())
        })
    }

    fn purge(&self, now_ms: i64) -> BoxFuture<'_, StoreResult<u64>> {
        let retention_ms = i64::try_from(self.retention.as_millis()).unwrap_or(i64::MAX);
        self.store.purge(now_ms.saturating_sub(retention_ms), KEPT)
    }
}

/// What an operator is told of an actor that broke. The text of its panic is in the log only: it may quote a body. `client`: whether the actor's
/// id is a client's.
pub fn actor_broke(cell: &Cell, life: Life, client: bool, clock: &dyn Clock) -> OperationalEvent {
    let happening = if life == Life::Failed { Happening::ActorFailed } else { Happening::ActorRestarted };
    let status = cell.status();
    let (reason, place) = status.last_cause.map(|cause| (cause.reason.as_str(), cause.place)).unzip();
    let event = OperationalEvent::new(happening, clock.now_ms())
        .because(reason.unwrap_or("unknown"))
        .with("kind", cell.kind())
        .with("place", place)
        .with("restarts", status.restarts);
    match (client, cell.id()) {
        (_, "") => event,
        (true, id) => event.of(&crate::domain::config::ClientId::new(id)),
        (false, id) => event.with("id", id),
    }
}
