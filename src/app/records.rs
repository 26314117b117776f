//! What is recorded beside the flow: operational events and attempts, and where the events go from there.

use std::sync::Arc;
use std::time::Duration;

use super::actor_tree::retry_schedule;
use super::stores::{NotOpen, Stores, until_there};
use crate::actors::attempts::{AttemptRecorder, KeptAttempts};
use crate::actors::delivery_fleet::DELIVERY_KIND;
use crate::actors::operational_events::forwarder::{ForwarderActor, Forwarding, Target};
use crate::actors::operational_events::targets::{ToTopic, ToWebhook};
use crate::actors::operational_events::{EventRecorder, KeptEvents, actor_broke};
use crate::actors::recorder::{Record, Recorder, RecorderActor, Records};
use crate::domain::operational_event::OperatorWebhook;
use crate::metrics::Metrics;
use crate::ports::StoreError;
use crate::ports::clock::Clock;
use crate::ports::webhook_sender::WebhookSenders;
use crate::runtime::{Kit, OnBroken, Seat, supervise};
use crate::settings::Settings;
use crate::web::Startup;
use crate::workers::Exclusive;

/// For a request to the operator's webhook.
const OPERATOR_TIMEOUT: Duration = Duration::from_secs(15);

/// The actor's kind.
const FORWARDER_KIND: &str = "event-forwarder";

/// Takes what is to be recorded, from the first moment on.
#[derive(Clone)]
pub(super) struct Recorders {
    pub(super) events: EventRecorder,
    pub(super) attempts: AttemptRecorder,
}

/// What the writers and the forwarders are made of.
pub(super) struct Parts<'a> {
    pub(super) settings: &'a Settings,
    pub(super) stores: &'a Stores,
    pub(super) senders: Arc<dyn WebhookSenders>,
    pub(super) kit: &'a Kit,
    pub(super) seat: Seat,
    pub(super) metrics: &'a Metrics,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) startup: &'a Startup,
}

impl Recorders {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self { events: EventRecorder::new(metrics), attempts: AttemptRecorder::new(metrics) }
    }

    /// Tells the operator of actors that break.
    pub(super) fn observer(&self, clock: Arc<dyn Clock>) -> OnBroken {
        let events = self.events.clone();
        Arc::new(move |cell, life| {
            let of_client = cell.kind() == DELIVERY_KIND;
            events.record(actor_broke(cell, life, of_client, &*clock));
        })
    }

    /// Starts the writers and the forwarders. Targets are known to the store before anything can happen that they are to be told of.
    pub(super) async fn start(&self, parts: Parts<'_>) -> anyhow::Result<()> {
        let Parts { settings, stores, senders, metrics, clock, .. } = &parts;
        parts.start_writer(
            self.events.clone(),
            KeptEvents {
                store: stores.operational_events.clone(),
                retention: settings.operator.events_retention,
                metrics: (*metrics).clone(),
            },
        );
        let (keep, retention) = (settings.attempts.kept, settings.attempts.retention);
        let attempts = KeptAttempts { store: stores.attempts.clone(), keep, retention };
        parts.start_writer(self.attempts.clone(), attempts);
        let forwarding = parts.forwarding(self.events.clone());
        if let Some(topic) = stores.events_topic.clone() {
            parts.start_forwarder(&forwarding, move || ToTopic(topic)).await?;
        }
        if let Some(url) = settings.operator.url() {
            let key = settings.operator.secret.clone();
            let webhook = OperatorWebhook { url, key, timeout: OPERATOR_TIMEOUT };
            let (senders, clock) = (senders.clone(), clock.clone());
            parts.start_forwarder(&forwarding, move || ToWebhook::new(webhook, &*senders, clock)).await?;
        }
        Ok(())
    }

    /// Waits until everything is written.
    pub(super) async fn are_written(&self) {
        self.events.is_written().await;
        self.attempts.is_written().await;
    }
}

impl Parts<'_> {
    fn start_writer<T: Record>(&self, recorder: Recorder<T>, records: impl Records<T> + 'static) {
        let (clock, metrics) = (self.clock.clone(), self.metrics.clone());
        let records = Arc::new(records);
        supervise(self.kit, &self.seat, T::KIND, "", move |cell| {
            RecorderActor::new(cell, recorder, records, clock, metrics)
        });
    }

    fn forwarding(&self, recorder: EventRecorder) -> Forwarding {
        let (clock, metrics) = (self.clock.clone(), self.metrics.clone());
        Forwarding {
            store: self.stores.operational_events.clone(),
            recorder,
            exclusive: Exclusive { locks: self.stores.locks.clone(), clock, metrics: metrics.clone() },
            retry: retry_schedule(self.settings),
            metrics,
            stop: self.kit.shutdown().token(),
        }
    }

    async fn start_forwarder<T: Target>(
        &self,
        forwarding: &Forwarding,
        target: impl FnOnce() -> T + Send + 'static,
    ) -> anyhow::Result<()> {
        until_there("operational events", self.startup, async || match forwarding.introduce::<T>().await {
            Ok(()) => Ok(()),
            Err(err @ StoreError::Unavailable(_)) => Err(NotOpen::Away(err.to_string())),
            Err(err) => Err(NotOpen::Wrong(err.into())),
        })
        .await?;
        let forwarding = forwarding.clone();
        supervise(self.kit, &self.seat, FORWARDER_KIND, T::NAME, move |cell| {
            ForwarderActor::new(cell, forwarding, target())
        });
        Ok(())
    }
}
