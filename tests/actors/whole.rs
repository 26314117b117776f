//! What a process does beside delivery: it reads the source, and sees to webhooks that fail.

use std::sync::Arc;

use actix::Addr;
use dispatcher::actors::config_cache::{ConfigCacheActor, ConfigTable};
use dispatcher::actors::delivery_fleet::DeliveryFleetActor;
use dispatcher::actors::disabler::Disabler;
use dispatcher::actors::ingest::source::SourceStage;
use dispatcher::actors::ingest::{KafkaIngestActor, LagProbe, Stage};
use dispatcher::actors::operational_events::EventRecorder;
use dispatcher::actors::owners::Owners;
use dispatcher::actors::promoter::{PromoterActor, PromoterServices};
use dispatcher::actors::retry::RetryActor;
use dispatcher::domain::change_event::SourceNames;
use dispatcher::domain::guard::WhenBlocked;
use dispatcher::metrics::Metrics;
use dispatcher::ports::clock::Clock;
use dispatcher::ports::event_log::{BatchLimits, EventLog};
use dispatcher::ports::job_queue::RunningWorker;
use dispatcher::runtime::{Kit, Seat, Supervised, supervise};
use dispatcher::workers::queues::Queue;
use dispatcher::workers::{Exclusive, OpenQueues, Producer, WorkerKit};
use tokio_util::sync::CancellationToken;

use crate::memory::configs::MemoryConfigs;
use crate::memory::jobs::MemoryQueues;
use crate::memory::kicks::MemoryKicks;
use crate::memory::locks::MemoryLocks;
use crate::memory::stash::MemoryStash;
use crate::memory::states::MemoryStates;
use crate::world::World;

/// What it is made of.
pub(crate) struct Parts<'a> {
    pub(crate) world: &'a World,
    pub(crate) kit: &'a Kit,
    pub(crate) seat: &'a Seat,
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) configs: Arc<MemoryConfigs>,
    pub(crate) table: ConfigTable,
    pub(crate) config_cache: Addr<ConfigCacheActor>,
    pub(crate) fleet: Addr<DeliveryFleetActor>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: EventRecorder,
    pub(crate) metrics: Metrics,
}

pub(crate) struct Whole {
    source: Supervised<KafkaIngestActor<SourceStage>>,
    stop_source: CancellationToken,
    stop: CancellationToken,
    /// An actor that nobody can reach before it has begun is not restarted.
    _promoter: Supervised<PromoterActor>,
    _worker: Box<dyn RunningWorker>,
}

impl Whole {
    pub(crate) fn start(parts: &Parts<'_>) -> Self {
        let (stop_source, stop) = (CancellationToken::new(), CancellationToken::new());
        let source = parts.read_source(stop_source.clone());
        let queues = OpenQueues::<Queue>::new(&MemoryQueues(parts.world.jobs.clone()));
        let owners = Owners::new(parts.fleet.clone(), Arc::new(MemoryKicks::new(parts.world.kicks.clone())));
        let _listening = actix_rt::spawn(owners.clone().listen(stop.clone()));
        let promoter = parts.promote(&queues);
        let worker = parts.work(&queues, owners);
        Self { source, stop_source, stop, _promoter: promoter, _worker: worker }
    }

    /// No more is read of the source. Ready when what was read is written.
    pub(crate) fn end_source(&self) -> impl Future<Output = ()> + use<> {
        let (source, stop) = (self.source.cell.clone(), self.stop_source.clone());
        async move {
            stop.cancel();
            source.ended().await;
        }
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Parts<'_> {
    fn read_source(&self, stop: CancellationToken) -> Supervised<KafkaIngestActor<SourceStage>> {
        let stage = SourceStage {
            log: self.log.clone(),
            group: "source".to_owned(),
            limits: BatchLimits { records: self.world.choices.batch, bytes: 8 << 20 },
            names: SourceNames { prefix: "mongo".into(), signal_collections: Vec::new() },
            mongo_prefix: "wnx".into(),
            revoke: true,
            blocked: WhenBlocked::Hold,
            configs: self.configs.clone(),
            table: self.table.clone(),
            config_cache: self.config_cache.clone(),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            lag: LagProbe::default(),
            stop,
        };
        supervise(self.kit, self.seat, SourceStage::KIND, "", move |cell| KafkaIngestActor::new(cell, stage))
    }

    fn promote(&self, queues: &OpenQueues<Queue>) -> Supervised<PromoterActor> {
        let services = Arc::new(PromoterServices {
            stash: Arc::new(MemoryStash(self.world.stash.clone())),
            states: Arc::new(MemoryStates(self.world.states.clone())),
            configs: self.table.clone(),
            queue: queues.get(Queue::Dispatcher).clone(),
            producer: Producer::new(queues.clone()),
            exclusive: Exclusive {
                locks: Arc::new(MemoryLocks(self.world.locks.clone())),
                clock: self.clock.clone(),
                metrics: self.metrics.clone(),
            },
            pacing: self.world.choices.limits.pacing,
            clock: self.clock.clone(),
            events: self.events.clone(),
        });
        supervise(self.kit, self.seat, "promoter", "", move |cell| PromoterActor::new(cell, services))
    }

    fn work(&self, queues: &OpenQueues<Queue>, owners: Owners) -> Box<dyn RunningWorker> {
        let states = Arc::new(MemoryStates(self.world.states.clone()));
        let retry = RetryActor {
            stash: Arc::new(MemoryStash(self.world.stash.clone())),
            states: states.clone(),
            owners: owners.clone(),
            queue: queues.get(Queue::Dispatcher).clone(),
            clock: self.clock.clone(),
            disabler: Disabler {
                configs: self.configs.clone(),
                table: self.table.clone(),
                config_cache: self.config_cache.clone(),
                states,
                owners,
                pacing: self.world.choices.limits.pacing,
                clock: self.clock.clone(),
                events: self.events.clone(),
            },
        };
        let (metrics, table) = (self.metrics.clone(), Arc::new(self.table.clone()));
        let kit = WorkerKit { metrics, blocked: table.clone(), paused: table };
        kit.start(queues, Arc::new(retry), None)
    }
}
