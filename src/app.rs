//! Puts the service together, and takes it down in order.

use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use actix_web::dev::ServerHandle;
use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use crate::actors::config_cache::{ConfigCacheActor, Refresh, Reload, config_table};
use crate::actors::delivery::{DeliveryLimits, DeliveryServices};
use crate::actors::delivery_fleet::{DeliveryFleetActor, Introduce, QuiesceAll};
use crate::actors::ingest::source::SourceStage;
use crate::actors::ingest::transfer::TransferStage;
use crate::actors::ingest::{KafkaIngestActor, LagProbe, Stage};
use crate::actors::stash::StashActor;
use crate::actors::windows::Windows;
use crate::backends::embedded::{Embedded, EmbeddedOptions, OpenError};
use crate::backends::http::HttpSenders;
use crate::domain::change_event::SourceNames;
use crate::domain::retry::RetrySchedule;
use crate::domain::stash::Backlog;
use crate::metrics::Metrics;
use crate::ports::clock::{Clock, SystemClock};
use crate::ports::event_log::BatchLimits;
use crate::ports::stash::Stash;
use crate::ports::webhook_sender::SendLimits;
use crate::runtime::{Arbiters, Cell, Kit, RestartPolicy, StopStep, supervise};
use crate::settings::{Settings, SettingsError};
use crate::web::{self, Readiness, StoreProbe, WebState};

/// How much ingest reads at once.
const BATCH: BatchLimits = BatchLimits { records: 1_000, bytes: 8 << 20 };

/// How much of the newest records stays in memory, to be handed over without reading the file.
const TAIL: BatchLimits = BatchLimits { records: 20_000, bytes: 32 << 20 };

/// How often old records are removed.
const HOUSEKEEPING_EVERY: Duration = Duration::from_secs(10);

/// How long one of the quick steps of stopping may take.
const STOP_STEP: Duration = Duration::from_secs(5);

/// A running service.
pub struct Service {
    address: SocketAddr,
    metrics: Metrics,
    kit: Kit,
    readiness: Arc<Readiness>,
    in_flight_limit: Duration,
    embedded: Arc<Embedded>,
    fleet: Addr<DeliveryFleetActor>,
    source: Running,
    transfer: Running,
    stop_reading: CancellationToken,
    web: ServerHandle,
    pipeline: Arbiters,
    delivery: Arc<Arbiters>,
}

/// An ingest stage, and how to end it.
struct Running {
    cell: Cell,
    stop: CancellationToken,
}

impl Running {
    async fn end(&self) {
        self.stop.cancel();
        let mut phase = self.cell.watch();
        // The sender goes with the actor: then it is over, too.
        let _ = phase.wait_for(|phase| phase.life.is_over()).await;
    }
}

impl Service {
    /// Starts everything. Ready when changes are taken and delivered.
    ///
    /// # Errors
    /// The stores cannot be opened, the port is taken, or a setting turns out to be wrong.
    pub async fn start(settings: Settings) -> anyhow::Result<Self> {
        let metrics = Metrics::new();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let listener = TcpListener::bind(settings.api.address()).map_err(|err| {
            SettingsError::new("api.port", format!("cannot listen on {}: {err}", settings.api.address()))
        })?;
        let address = listener.local_addr()?;
        let senders = Arc::new(senders(&settings)?);
        let embedded = Arc::new(open_embedded(&settings, clock.clone()).await?);
        let log = embedded.log();

        let restarts = metrics.restarts.clone();
        let count = Arc::new(move |kind| restarts.with_label_values(&[kind]).inc());
        let kit = Kit::new(count, RestartPolicy::default());
        let pipeline = Arbiters::start("pipeline", NonZeroUsize::MIN)?;
        let threads = NonZeroUsize::new(settings.delivery.threads);
        let threads = match threads {
            Some(threads) => threads,
            None => std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        };
        let delivery = Arc::new(Arbiters::start("delivery", threads)?);
        let arbiter = pipeline.pick(0);

        let readiness = Arc::new(Readiness::default());
        readiness.log_is_open();

        let stash = embedded.stash();
        let (stash_store, stash_metrics) = (stash.clone(), metrics.clone());
        let stash_writes = supervise(&kit, &arbiter, "stash", "", move |cell| {
            StashActor::new(cell, stash_store, stash_metrics)
        });
        let (table_writer, table) = config_table();
        let windows = Windows::new(settings.delivery.total_bytes, metrics.clone());
        let services = Arc::new(DeliveryServices {
            configs: table.clone(),
            stash: stash.clone(),
            stash_writes: stash_writes.addr,
            states: embedded.states(),
            windows: windows.clone(),
            partitions: log.partitions(),
            senders,
            clock: clock.clone(),
            limits: delivery_limits(&settings),
            metrics: metrics.clone(),
        });
        let (fleet_kit, fleet_arbiters, configs) = (kit.clone(), delivery.clone(), embedded.configs());
        let fleet = supervise(&kit, &arbiter, "fleet", "", move |cell| {
            DeliveryFleetActor::new(cell, fleet_kit, fleet_arbiters, services, configs)
        })
        .addr;
        let (configs, changes, cache_metrics) =
            (embedded.configs(), fleet.clone().recipient(), metrics.clone());
        let config_cache = supervise(&kit, &arbiter, "config-cache", "", move |cell| {
            ConfigCacheActor::new(cell, configs, table_writer, changes, cache_metrics)
        })
        .addr;
        fleet.do_send(Introduce(config_cache.clone()));

        // Without the configs everybody would be unknown, and what waits for them dead.
        config_cache.send(Reload).await?.context("client configs")?;
        readiness.configs_are_loaded();

        let (source_lag, transfer_lag) = (LagProbe::default(), LagProbe::default());
        let stop_reading = CancellationToken::new();
        let transfer = start_stage(&kit, &arbiter, |stop| TransferStage {
            log: log.clone(),
            group: settings.source.transfer_group(),
            limits: BATCH,
            stash: stash.clone(),
            windows,
            unsettled_per_partition: settings.delivery.unsettled_per_partition,
            fleet: fleet.clone(),
            metrics: metrics.clone(),
            lag: transfer_lag.clone(),
            stop_reading: stop_reading.clone(),
            stop,
        });
        let source = start_stage(&kit, &arbiter, |stop| SourceStage {
            log: log.clone(),
            group: settings.source.group.clone(),
            limits: BATCH,
            names: source_names(&settings),
            mongo_prefix: settings.mongo.prefix.as_str().into(),
            revoke: settings.routing.revoke,
            configs: embedded.configs(),
            table,
            config_cache: config_cache.clone(),
            metrics: metrics.clone(),
            lag: source_lag.clone(),
            stop,
        });
        keep_house(embedded.clone(), clock.clone(), kit.shutdown().token());
        readiness.is_started();

        let gauges =
            Gauges { source_lag, transfer_lag, stash, clock: clock.clone(), metrics: metrics.clone() };
        let state = WebState {
            before_scrape: gauges.before_scrape(),
            ..web_state(&settings, &embedded, &kit, clock, &metrics, config_cache, readiness.clone())
        };
        let server = web::start(state, listener)?;
        let web = server.handle();
        actix_rt::spawn(server);
        log::info!(
            "dispatcher {} is ready mode={} address=http://{address}",
            env!("CARGO_PKG_VERSION"),
            settings.mode.as_str()
        );
        Ok(Self {
            address,
            metrics,
            kit,
            readiness,
            in_flight_limit: settings.stop.in_flight,
            embedded,
            fleet,
            source,
            transfer,
            stop_reading,
            web,
            pipeline,
            delivery,
        })
    }

    /// Where the API listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Stops in order: no more events, no more reading, what is on the wire ends, offsets are committed, the API last.
    pub async fn stop(self) {
        self.readiness.is_stopping();
        self.readiness.close_intake();
        let quiesce = async {
            self.stop_reading.cancel();
            if self.fleet.send(QuiesceAll).await.is_err() {
                log::error!("delivery fleet is gone err=mailbox closed");
            }
        };
        let steps = vec![
            StopStep::new("source", STOP_STEP, self.source.end()),
            StopStep::new("delivery", self.in_flight_limit, quiesce),
            StopStep::new("commit", STOP_STEP, self.transfer.end()),
            // Made when its turn comes: the call itself closes the port, and probes are to be answered until the end.
            StopStep::new("web", STOP_STEP * 2, async { self.web.stop(true).await }),
        ];
        self.kit.shutdown().run(steps).await;
        for status in self.kit.registry().list() {
            if let Some(cell) = self.kit.registry().get(status.kind, &status.id) {
                cell.stop();
            }
        }
        self.pipeline.stop_and_join(STOP_STEP).await;
        if let Some(delivery) = Arc::into_inner(self.delivery) {
            delivery.stop_and_join(STOP_STEP).await;
        }
        self.embedded.close().await;
        log::info!("stopped");
    }
}

/// Runs the service until SIGTERM or SIGINT; a second signal ends the process at once.
///
/// # Errors
/// When it cannot start.
pub async fn run(settings: Settings) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let service = Service::start(settings).await?;
    let name = signals.next().await;
    log::info!("stopping signal={name}");
    actix_rt::spawn(async move {
        let name = signals.next().await;
        log::warn!("ending at once signal={name}");
        std::process::exit(1);
    });
    service.stop().await;
    Ok(())
}

/// SIGTERM and SIGINT.
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// From now on they do not end the process by themselves.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The name of the next one.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

fn senders(settings: &Settings) -> anyhow::Result<HttpSenders> {
    let limits = SendLimits {
        connect_timeout: settings.delivery.connect_timeout,
        answer_bytes: settings.delivery.answer_bytes,
    };
    let roots = match &settings.tls.ca_file {
        Some(path) => Some(std::fs::read(path).map_err(|err| {
            SettingsError::new("tls.ca_file", format!("cannot read {}: {err}", path.display()))
        })?),
        None => None,
    };
    HttpSenders::new(settings.egress.allow.clone(), limits, roots.as_deref())
        .map_err(|err| SettingsError::new("tls.ca_file", err.to_string()).into())
}

async fn open_embedded(settings: &Settings, clock: Arc<dyn Clock>) -> anyhow::Result<Embedded> {
    let options = EmbeddedOptions {
        data_dir: settings.data_dir.clone(),
        partitions: settings.transfer.partitions,
        retention: settings.transfer.retention,
        tail: TAIL,
        clock,
    };
    Embedded::open(options).await.map_err(|err| match err {
        OpenError::DataDirInUse(_) | OpenError::Folder { .. } => {
            SettingsError::new("data_dir", err.to_string()).into()
        }
        OpenError::Database(_) => anyhow::Error::new(err),
    })
}

fn delivery_limits(settings: &Settings) -> DeliveryLimits {
    DeliveryLimits {
        client_records: settings.delivery.client_records,
        client_bytes: settings.delivery.client_bytes,
        insurance_after: settings.delivery.insurance_after,
        idle_after: settings.delivery.idle_after,
        retry: RetrySchedule {
            base: settings.retry.base,
            factor: settings.retry.factor,
            cap: settings.retry.cap,
            jitter: settings.retry.jitter,
        },
        payload_attempts: settings.retry.payload_attempts,
    }
}

/// How source topics are named.
pub fn source_names(settings: &Settings) -> SourceNames {
    SourceNames {
        prefix: settings.source.prefix.as_str().into(),
        signal_collections: settings.source.signal_collections.clone(),
    }
}

fn start_stage<S: Stage + Send>(
    kit: &Kit,
    arbiter: &actix_rt::ArbiterHandle,
    stage: impl FnOnce(CancellationToken) -> S,
) -> Running {
    let stop = CancellationToken::new();
    let stage = stage(stop.clone());
    let actor = supervise(kit, arbiter, S::KIND, "", move |cell| KafkaIngestActor::new(cell, stage));
    Running { cell: actor.cell, stop }
}

fn keep_house(embedded: Arc<Embedded>, clock: Arc<dyn Clock>, stop: CancellationToken) {
    actix_rt::spawn(async move {
        while tokio::time::timeout(HOUSEKEEPING_EVERY, stop.cancelled()).await.is_err() {
            if let Err(err) = embedded.housekeeping(clock.now_ms()).await {
                log::warn!("old records were not removed err={err}");
            }
        }
    });
}

/// What the gauges are brought up to date from.
#[derive(Clone)]
struct Gauges {
    source_lag: LagProbe,
    transfer_lag: LagProbe,
    stash: Arc<dyn Stash>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
}

impl Gauges {
    fn before_scrape(self) -> web::Ask<(), ()> {
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

fn web_state(
    settings: &Settings,
    embedded: &Arc<Embedded>,
    kit: &Kit,
    clock: Arc<dyn Clock>,
    metrics: &Metrics,
    config_cache: Addr<ConfigCacheActor>,
    readiness: Arc<Readiness>,
) -> WebState {
    let registry = kit.registry().clone();
    let probed = embedded.clone();
    WebState {
        mode: settings.mode.as_str(),
        source_prefix: settings.source.prefix.as_str().into(),
        admin_token: settings.api.admin_token.clone(),
        configs: embedded.configs(),
        refresh_config: Arc::new(move |client| {
            let config_cache = config_cache.clone();
            Box::pin(async move {
                let refreshed = config_cache.send(Refresh(client)).await.map_err(|err| err.to_string())?;
                refreshed.map_err(|err| err.to_string())
            })
        }),
        log: embedded.log(),
        stash: embedded.stash(),
        states: embedded.states(),
        clock,
        metrics: metrics.clone(),
        before_scrape: Arc::new(|()| Box::pin(async {})),
        actors: Arc::new(move || {
            registry.list().iter().filter_map(|status| serde_json::to_value(status).ok()).collect()
        }),
        stores: vec![StoreProbe {
            name: "sqlite".to_owned(),
            check: Arc::new(move |()| {
                let embedded = probed.clone();
                Box::pin(async move { embedded.health().await.map_err(|err| err.to_string()) })
            }),
        }],
        readiness,
    }
}
