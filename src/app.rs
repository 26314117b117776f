//! Puts the service together, and takes it down in order.

mod actor_tree;
mod dashboard;
mod gauges;
mod heavy;
mod own_runtime;
mod records;
mod restarts;
mod retries;
mod roles;
mod session_key;
mod signals;
mod stores;
mod watch;
mod web_state;
mod workers;

use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use actix::MailboxError;
use actix_web::dev::ServerHandle;
use tokio_util::sync::CancellationToken;

use self::actor_tree::{ActorTree, Parts};
use self::gauges::Gauges;
use self::records::Recorders;
use self::restarts::Restarter;
use self::roles::tell_roles;
use self::session_key::session_key;
pub use self::signals::Signals;
use self::stores::Stores;
use self::web_state::web_state;
use self::workers::Workers;
use crate::actors::config_cache::Reload;
use crate::backends::http::HttpSenders;
use crate::domain::replica::ReplicaName;
use crate::metrics::Metrics;
use crate::ports::clock::{Clock, SystemClock};
use crate::ports::webhook_sender::SendLimits;
use crate::ports::{BoxFuture, StoreError, StoreResult};
use crate::runtime::{Arbiters, Kit, RestartPolicy, StopStep};
use crate::settings::{Role, Settings, SettingsError};
use crate::web::{self, Ask, Readiness, Startup, WebState};
use crate::workers::queues::Queue;
use crate::workers::upkeep::Upkeep;
use crate::workers::{Exclusive, OpenQueues};

/// How often old records are removed.
const HOUSEKEEPING_EVERY: Duration = Duration::from_secs(10);

/// How long one of the quick steps of stopping may take.
const STOP_STEP: Duration = Duration::from_secs(5);

/// A running service.
pub struct Service {
    address: SocketAddr,
    kit: Kit,
    readiness: Arc<Readiness>,
    in_flight_limit: Duration,
    close: BoxFuture<'static, ()>,
    tree: ActorTree,
    workers: Workers,
    recorders: Recorders,
    web: ServerHandle,
    pipeline: Arc<Arbiters>,
    delivery: Arc<Arbiters>,
    dashboard: Arbiters,
    watchdog: Arbiters,
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
        let startup = Startup::default();
        let starting = web::starting(startup.clone(), settings.mode.as_str(), listener.try_clone()?)?;
        let answers_meanwhile = starting.handle();
        actix_rt::spawn(starting);
        let recorders = Recorders::new(&metrics);
        let here = replica_name();
        let stores = Stores::open(&settings, &clock, &metrics, &startup, &recorders.events, &here).await?;

        let restarts = metrics.restarts.clone();
        let count = Arc::new(move |kind| restarts.with_label_values(&[kind]).inc());
        let kit = Kit::observed(count, recorders.observer(clock.clone()), RestartPolicy::default());
        let pipeline = Arc::new(Arbiters::start("pipeline", NonZeroUsize::MIN)?);
        let threads = NonZeroUsize::new(settings.delivery.threads);
        let threads = match threads {
            Some(threads) => threads,
            None => std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        };
        let delivery = Arc::new(Arbiters::start("delivery", threads)?);
        let readiness = Arc::new(Readiness::default());
        readiness.log_is_open();

        recorders
            .start(records::Parts {
                settings: &settings,
                stores: &stores,
                senders: senders.clone(),
                kit: &kit,
                seat: pipeline.pick(0),
                metrics: &metrics,
                clock: clock.clone(),
                startup: &startup,
            })
            .await?;
        let parts = Parts {
            settings: &settings,
            stores: &stores,
            senders,
            kit: &kit,
            pipeline: &pipeline,
            delivery: &delivery,
            metrics: &metrics,
            clock: clock.clone(),
            startup: &startup,
            recorders: &recorders,
        };
        let tree = ActorTree::start(parts).await?;
        readiness.configs_are_loaded();
        let watchdog = watch::start(&kit, &pipeline, &delivery, tree.fleet.clone(), &metrics)?;
        keep_house(stores.housekeeping.clone(), clock.clone(), kit.shutdown().token());
        let queues = OpenQueues::<Queue>::new(&*stores.queues);
        let retries = retries::Parts {
            settings: &settings,
            stores: &stores,
            tree: &tree,
            queues: &queues,
            recorders: &recorders,
            kit: &kit,
            metrics: &metrics,
            clock: clock.clone(),
        };
        retries.listen();
        if settings.roles.has(Role::Retry) {
            retries.start_promoter(&pipeline.pick(0));
        }
        let heavy = heavy::Parts {
            settings: &settings,
            stores: &stores,
            tree: &tree,
            queues: &queues,
            recorders: &recorders,
            metrics: &metrics,
            clock: clock.clone(),
        };
        let heavy_desk = heavy.desk();
        let workers = Workers::start(workers::Parts {
            settings: &settings,
            queues: &queues,
            retry: retries.retry_actor(),
            decisions: stores.decisions.clone(),
            guard: tree.table.clone(),
            upkeep: upkeep(&settings, &stores, &tree, &metrics, clock.clone()),
            heavy: (heavy.worker(), heavy_desk.clone()),
            metrics: &metrics,
            clock: &*clock,
        })?;
        readiness.is_started();
        tell_roles(settings.roles.list(), stores.roles.tell.clone(), kit.shutdown().token());

        let gauges = Gauges {
            source_lag: tree.source_lag.clone(),
            transfer_lag: tree.transfer_lag.clone(),
            stash: stores.stash.clone(),
            queues: queues.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
        };
        let dashboard_thread = Arbiters::start("dashboard", NonZeroUsize::MIN)?;
        let dashboard = dashboard::start(dashboard::Parts {
            settings: &settings,
            stores: &stores,
            tree: &tree,
            queues: queues.iter().cloned().collect(),
            here: here.clone(),
            kit: &kit,
            seat: dashboard_thread.pick(0),
            clock: clock.clone(),
        });
        watch::end_process_if_one_ends(&kit);
        let restarter = Restarter::new(here, &kit, tree.fleet.clone(), stores.actor_restarts.clone());
        actix_rt::spawn(restarter.clone().listen(kit.shutdown().token()));
        let state = WebState {
            restart_actor: restarter.ask(),
            session_key: session_key(&stores, &startup).await?,
            queues: queues.iter().cloned().collect(),
            before_scrape: gauges.before_scrape(),
            ..web_state(
                &settings,
                &stores,
                &kit,
                clock,
                &metrics,
                &tree,
                (readiness.clone(), dashboard, heavy_desk),
            )?
        };
        answers_meanwhile.stop(false).await;
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
            kit,
            readiness,
            in_flight_limit: settings.stop.in_flight,
            close: stores.close,
            tree,
            workers,
            recorders,
            web,
            pipeline,
            delivery,
            dashboard: dashboard_thread,
            watchdog,
        })
    }

    /// Where the API listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops in order: no more events, no more reading, what is on the wire ends, offsets are committed, the API last.
    pub async fn stop(self) {
        self.readiness.is_stopping();
        self.readiness.close_intake();
        // Beside the others: handlers may take as long as deliveries.
        let workers = actix_rt::spawn(self.workers.stop(self.in_flight_limit));
        let steps = vec![
            StopStep::new("source", STOP_STEP, self.tree.end_source()),
            StopStep::new("delivery", self.in_flight_limit, self.tree.quiesce()),
            StopStep::new("commit", STOP_STEP, self.tree.end_transfer()),
            StopStep::new("workers", self.in_flight_limit + STOP_STEP, async {
                let _ = workers.await;
            }),
            StopStep::new("records", STOP_STEP, self.recorders.are_written()),
            // Made when its turn comes: the call itself closes the port, and probes are to be answered until the end.
            StopStep::new("web", STOP_STEP * 2, async { self.web.stop(true).await }),
        ];
        self.kit.shutdown().run(steps).await;
        for status in self.kit.registry().list() {
            if let Some(cell) = self.kit.registry().get(&status.kind, &status.id) {
                cell.stop();
            }
        }
        self.dashboard.stop_and_join(STOP_STEP).await;
        self.pipeline.stop_and_join(STOP_STEP).await;
        self.delivery.stop_and_join(STOP_STEP).await;
        self.watchdog.stop_and_join(STOP_STEP).await;
        self.close.await;
        log::info!("stopped");
    }
}

/// Runs the service until SIGTERM or SIGINT; a second signal ends the process at once.
///
/// # Errors
/// When it cannot start.
pub async fn run(settings: Settings) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let service = tokio::select! {
        service = Service::start(settings) => service?,
        name = signals.next() => {
            log::info!("stopped before it was ready signal={name}");
            return Ok(());
        }
    };
    let name = signals.next().await;
    log::info!("stopping signal={name}");
    actix_rt::spawn(async move {
        let name = signals.next_but_echoes().await;
        log::warn!("ending at once signal={name}");
        std::process::exit(1);
    });
    service.stop().await;
    Ok(())
}

/// The name of this process: the host's, and something that no other process there has.
fn replica_name() -> ReplicaName {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::env::var("HOSTNAME"));
    ReplicaName::on(host.unwrap_or_default().trim(), fastrand::u32(..=0xffff))
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

fn keep_house(housekeeping: Ask<i64, StoreResult<u64>>, clock: Arc<dyn Clock>, stop: CancellationToken) {
    actix_rt::spawn(async move {
        while tokio::time::timeout(HOUSEKEEPING_EVERY, stop.cancelled()).await.is_err() {
            if let Err(err) = housekeeping(clock.now_ms()).await {
                log::warn!("old records were not removed err={err}");
            }
        }
    });
}

fn upkeep(
    settings: &Settings,
    stores: &Stores,
    tree: &ActorTree,
    metrics: &Metrics,
    clock: Arc<dyn Clock>,
) -> Upkeep {
    let config_cache = tree.config_cache.clone();
    Upkeep {
        stash: stores.stash.clone(),
        stash_ttl: settings.stash.ttl,
        audit: stores.audit.clone(),
        audit_retention: settings.audit.retention,
        reload_configs: Arc::new(move || {
            let config_cache = config_cache.clone();
            Box::pin(async move {
                let gone = |err: MailboxError| StoreError::Unavailable(format!("config cache: {err}"));
                config_cache.send(Reload).await.map_err(gone)?
            })
        }),
        exclusive: Exclusive { locks: stores.locks.clone(), clock, metrics: metrics.clone() },
    }
}
