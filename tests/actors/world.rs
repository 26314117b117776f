//! A world: stores and receivers that outlive the process, and lives of a process on them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::{Addr, System};
use bytes::Bytes;
use dispatcher::actors::config_cache::{ConfigCacheActor, Refresh, Reload, ReloadDecisions, config_table};
use dispatcher::actors::delivery::{DeliveryLimits, DeliveryServices, StashQuota};
use dispatcher::actors::delivery_fleet::{
    ArbiterLost, DELIVERY_KIND, DeliveryFleetActor, Introduce, QuiesceAll,
};
use dispatcher::actors::ingest::transfer::TransferStage;
use dispatcher::actors::ingest::{KafkaIngestActor, LagProbe, Stage};
use dispatcher::actors::meters::Meters;
use dispatcher::actors::stash::StashActor;
use dispatcher::actors::windows::Windows;
use dispatcher::domain::attempt::Attempt;
use dispatcher::domain::config::{ClientId, Status};
use dispatcher::domain::operational_event::OperationalEvent;
use dispatcher::domain::retry::{Pacing, RetrySchedule};
use dispatcher::domain::stash::RowState;
use dispatcher::domain::transfer::{DocumentHash, EventId, NewTransfer, SourcePosition, TransferKind};
use dispatcher::metrics::Metrics;
use dispatcher::ports::clock::Clock;
use dispatcher::ports::event_log::{BatchLimits, EventLog};
use dispatcher::ports::webhook_sender::WebhookSenders;
use dispatcher::runtime::{Arbiters, ByteBudget, Cell, Kit, RestartPolicy, Supervised, supervise};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::memory::Medium;
use crate::memory::configs::{self, ConfigRules, Configs, MemoryConfigs, Notices};
use crate::memory::decisions::{self, Made, MemoryDecisions};
use crate::memory::jobs::Jobs;
use crate::memory::kicks::Kicks;
use crate::memory::locks::Leases;
use crate::memory::log::{LogData, MemoryLog};
use crate::memory::records::Kept;
use crate::memory::source::IngestRules;
use crate::memory::stash::{MemoryStash, Rules, StashData};
use crate::memory::states::MemoryStates;
use crate::oracle::{self, Ledger, Routed};
use crate::receiver::Receiver;
use crate::switching;
use crate::time::{ActorClock, SimClock};
use crate::upstream::{ELSEWHERE, Upstream};
use crate::whole::{self, Whole};

/// What a scenario may choose.
#[derive(Clone)]
pub(crate) struct Choices {
    pub(crate) limits: DeliveryLimits,
    pub(crate) unsettled_per_partition: usize,
    pub(crate) memory_bytes: usize,
    pub(crate) batch: usize,
    pub(crate) partitions: u32,
    /// What holds the order: without one of them it breaks.
    pub(crate) rules: Rules,
    pub(crate) asks_permission: bool,
    pub(crate) ingest_rules: IngestRules,
    pub(crate) config_rules: ConfigRules,
    /// Changes come from the source, and webhooks that fail have their jobs.
    pub(crate) whole: bool,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            limits: DeliveryLimits {
                client_records: 1_000,
                client_bytes: 8 << 20,
                insurance_after: Duration::from_secs(2),
                idle_after: Duration::from_secs(30),
                retry: RetrySchedule::default(),
                pacing: Pacing::default(),
                payload_attempts: 10,
                quota: StashQuota { rows: u64::MAX, bytes: u64::MAX },
            },
            unsettled_per_partition: 20_000,
            memory_bytes: 64 << 20,
            batch: 100,
            partitions: 2,
            rules: Rules::default(),
            asks_permission: true,
            ingest_rules: IngestRules::default(),
            config_rules: ConfigRules::default(),
            whole: false,
        }
    }
}

pub(crate) struct World {
    pub(crate) choices: Choices,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) stash: Arc<Medium<StashData>>,
    pub(crate) states: Arc<Medium<HashMap<ClientId, dispatcher::domain::client_state::ClientState>>>,
    pub(crate) configs: Arc<Medium<Configs>>,
    pub(crate) decisions: Arc<Medium<Made>>,
    pub(crate) log: Arc<MemoryLog>,
    pub(crate) jobs: Arc<Medium<Jobs>>,
    pub(crate) locks: Arc<Medium<Leases>>,
    pub(crate) kicks: Arc<Kicks>,
    pub(crate) receiver: Arc<Receiver>,
    pub(crate) events: Kept<OperationalEvent>,
    pub(crate) attempts: Kept<Attempt>,
    ledger: Mutex<Ledger>,
    upstream: Mutex<Upstream>,
    /// How often a client's webhook moved.
    moved: Mutex<HashMap<String, u32>>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(1, Choices::default())
    }

    pub(crate) fn with(seed: u64, choices: Choices) -> Self {
        fastrand::seed(seed);
        let clock = Arc::new(SimClock::new());
        let partitions = choices.partitions;
        let stash = StashData::with(choices.rules);
        let (configs, ingest_rules) = (Configs::with(choices.config_rules), choices.ingest_rules);
        Self {
            choices,
            stash: Medium::new("stash", clock.clone(), seed ^ 1, stash),
            states: Medium::new("states", clock.clone(), seed ^ 2, HashMap::new()),
            configs: Medium::new("configs", clock.clone(), seed ^ 3, configs),
            decisions: Medium::new("decisions", clock.clone(), seed ^ 6, Made::new()),
            log: Arc::new(MemoryLog::new(
                Medium::new("log", clock.clone(), seed ^ 4, LogData::new(partitions)),
                ingest_rules,
            )),
            jobs: Medium::new("jobs", clock.clone(), seed ^ 7, Jobs::default()),
            locks: Medium::new("locks", clock.clone(), seed ^ 8, Leases::new()),
            kicks: Kicks::new(seed ^ 9),
            receiver: Receiver::new(clock.clone(), seed ^ 5),
            events: Kept::default(),
            attempts: Kept::default(),
            clock,
            ledger: Mutex::default(),
            upstream: Mutex::default(),
            moved: Mutex::default(),
        }
    }

    /// One life of the process. What it has not made durable is gone afterwards: its end is a crash.
    pub(crate) fn life<T>(&self, story: impl AsyncFnOnce(&Life<'_>) -> T) -> T {
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_time().start_paused(true).build().unwrap()
        };
        let system = System::with_tokio_rt(runtime);
        let told = system.block_on(async {
            self.clock.life_begins();
            self.stash.wake_zombies();
            self.log.medium.wake_zombies();
            self.states.wake_zombies();
            self.jobs.wake_zombies();
            let life = Life::begin(self, Ports::alone(self)).await;
            let told = story(&life).await;
            self.clock.life_ends(Duration::ZERO);
            told
        });
        self.stash.process_died();
        self.log.medium.process_died();
        self.states.process_died();
        self.configs.process_died();
        self.decisions.process_died();
        self.jobs.process_died();
        self.locks.process_died();
        drop(system);
        told
    }

    /// Appends changes of a document: `count` of them, numbered on.
    pub(crate) fn change(&self, client: &str, document: &str, count: usize) {
        for _ in 0..count {
            self.change_with_gap(client, document, 0);
        }
    }

    pub(crate) fn change_with_gap(&self, client: &str, document: &str, gap: i64) {
        let mut ledger = self.ledger.lock().unwrap();
        let number = ledger.len() as i64;
        let same = ledger.values().filter(|routed| routed.client == client && routed.document == document);
        let version = same.map(|routed| routed.version).max().unwrap_or(0) + 1;
        let id = ClientId::new(client);
        let source = SourcePosition { topic: ELSEWHERE.into(), partition: 0, offset: number };
        let event_id = EventId::derive(&source, 0, &id);
        let body = Bytes::from(format!("{{\"id\":\"{document}\",\"v\":{version}}}"));
        let content = NewTransfer {
            client: id,
            document: format!("test.things:{document}").into(),
            document_hash: DocumentHash::of("wnx-test", "things", document),
            event_id: event_id.clone(),
            kind: TransferKind::Live,
            source,
            traceparent: None,
            ts_ms: self.clock.now_ms(),
            body: body.clone(),
        };
        let sequence = self.log.push(content, gap);
        let routed = Routed {
            client: client.to_owned(),
            document: document.to_owned(),
            offset: sequence.offset,
            version,
            body,
            forced: Vec::new(),
        };
        ledger.insert(event_id.as_str().to_owned(), routed);
    }

    /// Appends the replay of a change that has a row: the operator is in a hurry, and asks nobody whether it makes sense. `false`: it has none.
    pub(crate) fn replay(&self, client: &str, event: &EventId, forced: bool) -> bool {
        let row = self.stash.data().row(event).map(|row| row.transfer.content.clone());
        let Some(content) = row.filter(|content| content.client.as_str() == client) else { return false };
        let kind = if forced { TransferKind::ForcedReplay } else { TransferKind::Replay };
        let sequence = self.log.push(NewTransfer { kind, ..content }, 0);
        self.note_routed();
        if let Some(routed) = self.ledger.lock().unwrap().get_mut(event.as_str()).filter(|_| forced) {
            routed.forced.push(sequence.offset);
        }
        true
    }

    /// The event of a change, by its number in its body.
    pub(crate) fn event(&self, client: &str, document: &str, version: u64) -> EventId {
        let ledger = self.ledger.lock().unwrap();
        let found = ledger.iter().find(|(_, routed)| {
            (routed.client.as_str(), routed.document.as_str(), routed.version) == (client, document, version)
        });
        EventId::from_stored(found.unwrap().0)
    }

    /// Replays one of the rows that were given up: that which `pick` says of so many.
    pub(crate) fn replay_any(&self, forced: bool, pick: impl FnOnce(usize) -> usize) -> Option<EventId> {
        let rows: Vec<_> = {
            let stash = self.stash.data();
            let given_up = stash.rows().filter(|row| row.state != RowState::Pending);
            given_up.map(|row| (row.transfer.client.clone(), row.transfer.event_id.clone())).collect()
        };
        let (client, event) = rows.get(pick(rows.len().max(1)))?;
        self.replay(client.as_str(), event, forced).then(|| event.clone())
    }

    /// Writes a client's config into the store: nobody is told.
    pub(crate) fn configure(&self, client: &str, status: Status, settings: &str) {
        let moved = self.moved.lock().unwrap().get(client).copied().unwrap_or(0);
        let value = format!("{{\"webhook\":\"http://hook.test/{client}?{moved}\"{settings}}}");
        self.configs.data().put(&ClientId::new(client), status, &value, self.clock.now_ms());
    }

    /// Deletes a client's config in the store: nobody is told.
    pub(crate) fn delete_config(&self, client: &str) {
        self.configs.data().delete(&ClientId::new(client), self.clock.now_ms());
    }

    /// From its next config on a client's webhook is another.
    pub(crate) fn move_webhook(&self, client: &str) {
        *self.moved.lock().unwrap().entry(client.to_owned()).or_default() += 1;
    }

    /// Something happens in the platform's database, and the source tells of it.
    pub(crate) fn happens(&self, what: impl FnOnce(&mut Upstream, &mut LogData, i64)) {
        let now_ms = self.clock.now_ms();
        what(&mut self.upstream.lock().unwrap(), &mut self.log.medium.data(), now_ms);
        self.log.grown.notify_waiters();
    }

    /// What ingest wrote into the transfer log is routed from then on.
    fn note_routed(&self) {
        let mut ledger = self.ledger.lock().unwrap();
        for transfer in self.log.medium.data().transfers() {
            let event = transfer.event_id.as_str();
            if transfer.kind == TransferKind::Live && !ledger.contains_key(event) {
                let document = transfer.document.rsplit(':').next().unwrap();
                let routed = Routed {
                    client: transfer.client.to_string(),
                    document: document.to_owned(),
                    offset: transfer.sequence.offset,
                    version: crate::receiver::version(&transfer.body),
                    body: transfer.body.clone(),
                    forced: Vec::new(),
                };
                ledger.insert(event.to_owned(), routed);
            }
        }
    }

    /// Blocks the owner of a client, or lets him go: nobody is told.
    pub(crate) fn block(&self, client: &str, blocked: bool) {
        let owner = configs::owner_of(&ClientId::new(client));
        decisions::block(&mut self.decisions.data(), &owner, blocked);
    }

    /// All changes of the log are committed, and no row waits.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.log.medium.data().is_committed() && self.stash.data().pending() == 0
    }

    /// Nothing is on the wire that was begun before.
    pub(crate) fn is_answered(&self, before_ms: i64) -> bool {
        self.receiver
            .book()
            .requests
            .iter()
            .all(|request| request.ended_ms.is_some() || request.started_ms >= before_ms)
    }

    /// A client that is to be switched off, when webhooks are given up soon: how long that takes at most.
    pub(crate) fn switched_off_within(&self) -> Option<Duration> {
        let give_up = self.choices.limits.pacing.give_up;
        // The last attempts that count lie apart; and who looks, and the last try, have their times.
        (give_up < Duration::from_secs(1_000)).then(|| give_up * 2 + Duration::from_secs(300))
    }

    pub(crate) fn is_off(&self, client: &str) -> bool {
        !self.configs.data().is_active(&ClientId::new(client))
    }

    pub(crate) fn heal(&self) {
        self.stash.heal();
        self.states.heal();
        self.configs.heal();
        self.decisions.heal();
        self.jobs.heal();
        self.locks.heal();
        self.log.medium.heal();
        self.receiver.heal();
    }

    /// What is wrong with the history so far.
    pub(crate) fn judge(&self) -> Vec<String> {
        self.note_routed();
        let log = self.log.medium.data();
        let (book, steps) = (self.receiver.book(), self.configs.data().steps.clone());
        let mut wrong = oracle::judge(&self.ledger.lock().unwrap(), &book, &self.stash.data(), &log.dead);
        wrong.extend(switching::judge(&steps, &book, self.choices.limits.pacing.give_up));
        if self.choices.whole {
            wrong.extend(self.upstream.lock().unwrap().judge(&log, &steps));
        }
        wrong
    }

    /// The rows of a client: number of the change, state.
    pub(crate) fn rows(&self, client: &str) -> Vec<(u64, RowState)> {
        let stash = self.stash.data();
        let rows = stash.rows.iter().filter(|((id, _), _)| id.as_str() == client);
        rows.map(|(_, row)| (crate::receiver::version(&row.transfer.body), row.state)).collect()
    }
}

/// What one process has of the world.
pub(crate) struct Ports {
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) senders: Arc<dyn WebhookSenders>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) notices: Arc<Notices>,
    /// It is told that the block list is another.
    pub(crate) block_list: Arc<Notify>,
}

impl Ports {
    /// Of the only process.
    fn alone(world: &World) -> Self {
        Self {
            log: world.log.clone(),
            senders: Arc::new(world.receiver.new_life()),
            clock: Arc::new(ActorClock(world.clock.clone())),
            notices: Arc::default(),
            block_list: Arc::default(),
        }
    }
}

/// One life of the process.
pub(crate) struct Life<'a> {
    pub(crate) world: &'a World,
    pub(crate) kit: Kit,
    arbiters: Arc<Arbiters>,
    pub(crate) fleet: Addr<DeliveryFleetActor>,
    pub(crate) config_cache: Addr<ConfigCacheActor>,
    stage: Supervised<KafkaIngestActor<TransferStage>>,
    whole: Option<Whole>,
    stop_reading: CancellationToken,
    stop: CancellationToken,
}

impl<'a> Life<'a> {
    /// Starts the actors of a process.
    pub(crate) async fn begin(world: &'a World, ports: Ports) -> Self {
        let metrics = Metrics::new();
        let kit = Kit::new(Arc::new(|_| {}), RestartPolicy::default());
        // Two, as in the service: what is lost with the one leaves the other alone.
        let (arbiters, pipeline) = (Arc::new(Arbiters::current("delivery")), Arbiters::current("pipeline"));
        let arbiter = pipeline.pick(0);
        let stash = Arc::new(MemoryStash(world.stash.clone()));
        let configs = Arc::new(MemoryConfigs::new(world.configs.clone(), ports.notices));
        let decisions = Arc::new(MemoryDecisions::new(world.decisions.clone(), ports.block_list));

        let (store, stash_metrics) = (stash.clone(), metrics.clone());
        let stash_writes =
            supervise(&kit, &arbiter, "stash", "", move |cell| StashActor::new(cell, store, stash_metrics));
        let (writer, table) = config_table();
        let events = world.events.start(&kit, &arbiters, ports.clock.clone(), &metrics);
        let windows = Windows::new(world.choices.memory_bytes, metrics.clone());
        let services = Arc::new(DeliveryServices {
            configs: table.clone(),
            log: ports.log.clone(),
            stash: stash.clone(),
            stash_writes: stash_writes.addr,
            states: Arc::new(MemoryStates(world.states.clone())),
            windows: windows.clone(),
            row_memory: ByteBudget::new(world.choices.memory_bytes as u32, |_| {}),
            partitions: world.log.partitions(),
            senders: ports.senders,
            clock: ports.clock.clone(),
            limits: world.choices.limits.clone(),
            meters: Meters::default(),
            events: events.clone(),
            attempts: world.attempts.start(&kit, &arbiters, ports.clock.clone(), &metrics),
            metrics: metrics.clone(),
        });
        let (fleet_kit, fleet_configs, cache_configs) = (kit.clone(), configs.clone(), configs.clone());
        let fleet_arbiters = arbiters.clone();
        let fleet = supervise(&kit, &arbiter, "fleet", "", move |cell| {
            DeliveryFleetActor::new(cell, fleet_kit, fleet_arbiters, services, fleet_configs)
        })
        .addr;
        let (changes, cache_metrics) = (fleet.clone().recipient(), metrics.clone());
        let clock = ports.clock.clone();
        let config_cache = supervise(&kit, &arbiter, "config-cache", "", move |cell| {
            ConfigCacheActor::new(cell, cache_configs, decisions, writer, changes, clock, cache_metrics)
        })
        .addr;
        fleet.do_send(Introduce(config_cache.clone()));
        while !matches!(config_cache.send(Reload).await, Ok(Ok(()))) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let whole = whole::Parts {
            world,
            kit: &kit,
            seat: &arbiter,
            log: ports.log.clone(),
            configs,
            table,
            config_cache: config_cache.clone(),
            fleet: fleet.clone(),
            clock: ports.clock,
            events,
            metrics: metrics.clone(),
        };
        let whole = world.choices.whole.then(|| Whole::start(&whole));
        let (stop_reading, stop) = (CancellationToken::new(), CancellationToken::new());
        let stage = TransferStage {
            log: ports.log,
            group: "transfer".to_owned(),
            limits: BatchLimits { records: world.choices.batch, bytes: 8 << 20 },
            stash,
            states: Arc::new(MemoryStates(world.states.clone())),
            windows,
            unsettled_per_partition: world.choices.unsettled_per_partition,
            fleet: fleet.clone(),
            metrics: metrics.clone(),
            lag: LagProbe::default(),
            stop_reading: stop_reading.clone(),
            stop: stop.clone(),
        };
        let stage = supervise(&kit, &arbiter, TransferStage::KIND, "", move |cell| {
            KafkaIngestActor::new(cell, stage)
        });
        Self { world, kit, arbiters, fleet, config_cache, stage, whole, stop_reading, stop }
    }

    /// Writes a client's config, and sees to it that the process knows.
    pub(crate) async fn configure(&self, client: &str, status: Status, settings: &str) {
        self.world.configure(client, status, settings);
        self.refresh(client).await;
    }

    /// Deletes a client's config, and sees to it that the process knows.
    pub(crate) async fn delete_config(&self, client: &str) {
        self.world.delete_config(client);
        self.refresh(client).await;
    }

    /// Tells the process that a config changed.
    pub(crate) async fn refresh(&self, client: &str) {
        while !matches!(self.config_cache.send(Refresh(ClientId::new(client))).await, Ok(Ok(()))) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Blocks the owner of a client, or lets him go, and sees to it that the process knows.
    pub(crate) async fn block(&self, client: &str, blocked: bool) {
        self.world.block(client, blocked);
        while !matches!(self.config_cache.send(ReloadDecisions).await, Ok(Ok(()))) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Pauses a client, or lets it go on, and sees to it that the process knows.
    pub(crate) async fn pause(&self, client: &str, paused: bool) {
        decisions::pause(&mut self.world.decisions.data(), client, paused);
        while !matches!(self.config_cache.send(ReloadDecisions).await, Ok(Ok(()))) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Restarts an actor, if there is one.
    pub(crate) fn restart(&self, kind: &str, id: &str) {
        if let Some(cell) = self.kit.registry().get(kind, id) {
            cell.restart("the simulation wants it");
        }
    }

    /// The thread of the delivery actors is declared lost.
    pub(crate) fn lose_thread(&self) {
        self.arbiters.replace(0).unwrap();
        self.fleet.do_send(ArbiterLost);
    }

    /// The cell of a client's delivery actor.
    pub(crate) fn actor(&self, client: &str) -> Option<Cell> {
        self.kit.registry().get(DELIVERY_KIND, client)
    }

    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Waits until something is so, looking every 5 ms.
    ///
    /// # Panics
    /// When it is not within an hour.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn() -> bool) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            for _ in 0..720_000 {
                if is_so() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            panic!("not within an hour: {what} at {caller}\n{}", self.describe());
        }
    }

    /// Waits until something is so, for so long at most.
    ///
    /// # Panics
    /// When it is not by then.
    pub(crate) async fn within(&self, time: Duration, what: &str, is_so: impl Fn() -> bool) {
        let until = self.world.clock.elapsed() + time;
        while !is_so() {
            assert!(self.world.clock.elapsed() < until, "not within {time:?}: {what}\n{}", self.describe());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for rest, and judges the history.
    #[track_caller]
    pub(crate) fn rest(&self) -> impl Future<Output = ()> {
        let rest = self.until("rest", || self.world.is_at_rest());
        async move {
            rest.await;
            let wrong = self.world.judge();
            assert!(wrong.is_empty(), "{wrong:#?}");
        }
    }

    /// Stops as the service does, and in its order.
    pub(crate) fn stop_in_order(&self) -> impl Future<Output = ()> + use<> {
        let (stop_reading, stop) = (self.stop_reading.clone(), self.stop.clone());
        let (fleet, stage) = (self.fleet.clone(), self.stage.cell.clone());
        let end_source = self.whole.as_ref().map(Whole::end_source);
        async move {
            if let Some(end_source) = end_source {
                end_source.await;
            }
            stop_reading.cancel();
            let _ = fleet.send(QuiesceAll).await; // it may break just then
            stop.cancel();
            stage.ended().await;
        }
    }

    /// For people: where everything stands.
    pub(crate) fn describe(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::new();
        let log = self.world.log.medium.data();
        for partition in 0..self.world.choices.partitions {
            let (committed, owner) = (log.committed(partition), log.group.owner(partition));
            let _ = writeln!(text, "partition {partition} committed {committed} member {owner:?}");
        }
        let _ = writeln!(text, "source {}", log.source.describe());
        let _ = writeln!(text, "jobs {}", self.world.jobs.data().describe());
        for (client, state) in self.world.states.data().iter() {
            let _ = writeln!(text, "state of {client} {}", serde_json::to_string(state).unwrap());
        }
        let stash = self.world.stash.data();
        for row in stash.rows().take(20) {
            let _ = writeln!(
                text,
                "row {} {} {:?} attempts {} next {} claim {:?} reason {:?}",
                row.transfer.client,
                row.transfer.sequence,
                row.state,
                row.attempts,
                row.next_attempt_at_ms,
                row.claim,
                row.reason
            );
        }
        let _ = writeln!(text, "stash {}", stash.describe());
        for status in self.kit.registry().list() {
            let _ = writeln!(text, "{}", serde_json::to_string(&status).unwrap());
        }
        let _ = writeln!(text, "now {}", self.world.clock.now_ms());
        text
    }
}
