//! The actors that run as long as the service does, sinks first.

use std::sync::Arc;

use actix::prelude::*;
use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use super::records::Recorders;
use super::stores::{NotOpen, Stores, until_there};
use crate::actors::config_cache::{ConfigCacheActor, ConfigTable, Reload, config_table};
use crate::actors::delivery::{DeliveryLimits, DeliveryServices, StashQuota};
use crate::actors::delivery_fleet::{DeliveryFleetActor, Introduce, QuiesceAll};
use crate::actors::ingest::source::SourceStage;
use crate::actors::ingest::transfer::TransferStage;
use crate::actors::ingest::{KafkaIngestActor, LagProbe, Stage};
use crate::actors::meters::Meters;
use crate::actors::stash::StashActor;
use crate::actors::windows::Windows;
use crate::domain::change_event::SourceNames;
use crate::domain::retry::{CanarySchedule, Pacing, RetrySchedule};
use crate::metrics::Metrics;
use crate::ports::clock::Clock;
use crate::ports::event_log::BatchLimits;
use crate::ports::webhook_sender::WebhookSenders;
use crate::runtime::{Arbiters, ByteBudget, Cell, Kit, Seat, supervise};
use crate::settings::{Role, Settings};
use crate::web::Startup;

/// How much ingest reads at once.
const BATCH: BatchLimits = BatchLimits { records: 1_000, bytes: 8 << 20 };

/// What the actors are made of.
pub(super) struct Parts<'a> {
    pub(super) settings: &'a Settings,
    pub(super) stores: &'a Stores,
    pub(super) senders: Arc<dyn WebhookSenders>,
    pub(super) kit: &'a Kit,
    pub(super) pipeline: &'a Arbiters,
    pub(super) delivery: &'a Arc<Arbiters>,
    pub(super) metrics: &'a Metrics,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) startup: &'a Startup,
    pub(super) recorders: &'a Recorders,
}

/// The running actors.
pub(super) struct ActorTree {
    pub(super) table: ConfigTable,
    pub(super) config_cache: Addr<ConfigCacheActor>,
    pub(super) source_lag: LagProbe,
    pub(super) transfer_lag: LagProbe,
    pub(super) fleet: Addr<DeliveryFleetActor>,
    pub(super) meters: Meters,
    /// What the roles of this process leave out.
    source: Option<Running>,
    transfer: Option<Running>,
    stop_reading: CancellationToken,
}

impl ActorTree {
    /// Starts all of them; the configs are loaded before anything is delivered.
    pub(super) async fn start(parts: Parts<'_>) -> anyhow::Result<Self> {
        let Parts { settings, stores, senders, kit, pipeline, delivery, metrics, clock, startup, recorders } =
            parts;
        let seat = pipeline.pick(0);
        let (stash_store, stash_metrics) = (stores.stash.clone(), metrics.clone());
        let stash =
            supervise(kit, &seat, "stash", "", move |cell| StashActor::new(cell, stash_store, stash_metrics));
        let (table_writer, table) = config_table();
        let windows = Windows::new(settings.delivery.total_bytes, metrics.clone());
        let meters = Meters::default();
        let services = Arc::new(DeliveryServices {
            configs: table.clone(),
            log: stores.log.clone(),
            stash: stores.stash.clone(),
            stash_writes: stash.addr,
            states: stores.states.clone(),
            windows: windows.clone(),
            row_memory: ByteBudget::new(
                u32::try_from(settings.delivery.total_bytes).unwrap_or(u32::MAX),
                |_| {},
            ),
            partitions: stores.log.partitions(),
            senders,
            clock: clock.clone(),
            limits: delivery_limits(settings),
            events: recorders.events.clone(),
            attempts: recorders.attempts.clone(),
            metrics: metrics.clone(),
            meters: meters.clone(),
        });
        let (fleet_kit, fleet_arbiters, configs) = (kit.clone(), delivery.clone(), stores.configs.clone());
        let fleet = supervise(kit, &seat, "fleet", "", move |cell| {
            DeliveryFleetActor::new(cell, fleet_kit, fleet_arbiters, services, configs)
        });
        let (configs, changes) = (stores.configs.clone(), fleet.addr.clone().recipient());
        let decisions = stores.decisions.clone();
        let (cache_clock, cache_metrics) = (clock.clone(), metrics.clone());
        let config_cache = supervise(kit, &seat, "config-cache", "", move |cell| {
            ConfigCacheActor::new(cell, configs, decisions, table_writer, changes, cache_clock, cache_metrics)
        });
        fleet.addr.do_send(Introduce(config_cache.addr.clone()));

        // Without the configs everybody would be unknown, and what waits for them dead; without the block list nobody blocked.
        until_there(stores.configs_in, startup, async || match config_cache.addr.send(Reload).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(err)) => Err(NotOpen::Away(err.to_string())),
            Err(err) => Err(NotOpen::Wrong(err.into())),
        })
        .await
        .context("client configs")?;

        let (source_lag, transfer_lag) = (LagProbe::default(), LagProbe::default());
        let stop_reading = CancellationToken::new();
        let transfer = || {
            Running::start(kit, &seat, |stop| TransferStage {
                log: stores.log.clone(),
                group: settings.source.transfer_group(),
                limits: BATCH,
                stash: stores.stash.clone(),
                states: stores.states.clone(),
                windows,
                unsettled_per_partition: settings.delivery.unsettled_per_partition,
                fleet: fleet.addr.clone(),
                metrics: metrics.clone(),
                lag: transfer_lag.clone(),
                stop_reading: stop_reading.clone(),
                stop,
            })
        };
        let transfer = settings.roles.has(Role::Transfer).then(transfer);
        let source = || {
            Running::start(kit, &seat, |stop| SourceStage {
                log: stores.log.clone(),
                group: settings.source.group.clone(),
                limits: BATCH,
                names: source_names(settings),
                mongo_prefix: settings.mongo.prefix.as_str().into(),
                revoke: settings.routing.revoke,
                blocked: settings.guard.blocked,
                configs: stores.configs.clone(),
                table: table.clone(),
                config_cache: config_cache.addr.clone(),
                clock,
                metrics: metrics.clone(),
                lag: source_lag.clone(),
                stop,
            })
        };
        let source = settings.roles.has(Role::Ingest).then(source);
        Ok(Self {
            table,
            config_cache: config_cache.addr,
            source_lag,
            transfer_lag,
            fleet: fleet.addr,
            meters,
            source,
            transfer,
            stop_reading,
        })
    }

    /// No more change events are read. Ready when what was read is written.
    pub(super) async fn end_source(&self) {
        if let Some(source) = &self.source {
            source.end().await;
        }
    }

    /// No more requests are started. Ready when none is on the wire.
    pub(super) async fn quiesce(&self) {
        self.stop_reading.cancel();
        if self.fleet.send(QuiesceAll).await.is_err() {
            log::error!("delivery fleet is gone err=mailbox closed");
        }
    }

    /// Commits what is settled.
    pub(super) async fn end_transfer(&self) {
        if let Some(transfer) = &self.transfer {
            transfer.end().await;
        }
    }
}

/// An ingest stage, and how to end it.
struct Running {
    cell: Cell,
    stop: CancellationToken,
}

impl Running {
    fn start<S: Stage + Send>(kit: &Kit, seat: &Seat, stage: impl FnOnce(CancellationToken) -> S) -> Self {
        let stop = CancellationToken::new();
        let stage = stage(stop.clone());
        let actor = supervise(kit, seat, S::KIND, "", move |cell| KafkaIngestActor::new(cell, stage));
        Self { cell: actor.cell, stop }
    }

    async fn end(&self) {
        self.stop.cancel();
        self.cell.ended().await;
    }
}

fn delivery_limits(settings: &Settings) -> DeliveryLimits {
    DeliveryLimits {
        client_records: settings.delivery.client_records,
        client_bytes: settings.delivery.client_bytes,
        insurance_after: settings.delivery.insurance_after,
        idle_after: settings.delivery.idle_after,
        retry: retry_schedule(settings),
        pacing: pacing(settings),
        payload_attempts: settings.retry.payload_attempts,
        quota: StashQuota { rows: settings.stash.client_rows, bytes: settings.stash.client_bytes as u64 },
    }
}

/// When what failed is tried again.
pub(super) fn retry_schedule(settings: &Settings) -> RetrySchedule {
    let retry = &settings.retry;
    RetrySchedule { base: retry.base, factor: retry.factor, cap: retry.cap, jitter: retry.jitter }
}

/// How webhooks that fail are treated.
pub(super) fn pacing(settings: &Settings) -> Pacing {
    let canary = CanarySchedule {
        first: settings.retry.base,
        every: settings.canary.every,
        cap: settings.canary.cap,
        jitter: settings.retry.jitter,
    };
    Pacing { canary, give_up: settings.retry.ttl }
}

/// How source topics are named.
pub(super) fn source_names(settings: &Settings) -> SourceNames {
    SourceNames {
        prefix: settings.source.prefix.as_str().into(),
        signal_collections: settings.source.signal_collections.clone(),
    }
}
