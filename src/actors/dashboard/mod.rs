//! `DashboardActor`: a snapshot of everything, once a second, for those who watch.
//!
//! It costs the flow nothing: what delivery actors count lies in their [`Meters`], what is known of actors in their cells, the configs in
//! their table. Stores are asked for all clients at once, and rest after it. It lives on a thread of its own. Whoever watches reads the last
//! snapshot; nobody's question makes work here.
//!
//! Where there are several replicas each tells the others what it alone knows (`exchange`), so that any of them shows the whole.

mod client;
mod exchange;
mod gather;
mod others;
mod overview;
mod page;
mod part;
mod replicas;
mod rows;
mod seen;
mod snapshot;
mod window;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::client::ClientView;
use self::exchange::Teller;
pub use self::gather::{Dependency, DependencyView, Gathered, LagView, QueueView, Stores};
pub use self::others::Others;
pub use self::overview::{ActorsView, ClientsView, Overview, Point, StashView};
pub use self::page::{ActorQuery, ClientQuery, ClientSort, Page, PhaseFilter};
pub use self::part::About;
pub use self::replicas::{ActorReport, ReplicaView, UnreadReplica};
pub use self::snapshot::{Inputs, Memory, Snapshot};
pub use self::window::Latency;
use super::config_cache::ConfigTable;
use super::delivery_fleet::DELIVERY_KIND;
use super::meters::Meters;
use crate::domain::replica::ReplicaName;
use crate::ports::clock::Clock;
use crate::ports::dashboard_parts::DashboardParts;
use crate::runtime::{Cell, Registry};

/// The kind of this actor.
pub const DASHBOARD_KIND: &str = "dashboard";

/// How often it looks.
const EVERY: Duration = Duration::from_secs(1);

/// Ticks between two looks for meters that nobody needs any more.
const TIDY_TICKS: u64 = 300;

/// What snapshots are made from.
pub struct DashboardServices {
    /// The name of this replica.
    pub here: ReplicaName,
    /// What it does.
    pub roles: Vec<String>,
    /// Where the replicas tell each other; `None`: there are no others.
    pub parts: Option<Arc<dyn DashboardParts>>,
    /// The configs of all clients, and what is decided about them.
    pub configs: ConfigTable,
    /// What delivery actors count.
    pub meters: Meters,
    /// The actors.
    pub registry: Registry,
    /// Who is asked for the rest.
    pub stores: Arc<Stores>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// For how long a webhook may fail before its client is switched off.
    pub give_up: Duration,
}

/// What others see of it. A clone sees the same.
#[derive(Clone)]
pub struct Dashboard {
    here: ReplicaName,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    registry: Registry,
    stopping: CancellationToken,
}

impl Dashboard {
    /// An empty one of this replica, and where its snapshots are put. Streams of it end with `stopping`.
    pub fn new(
        here: ReplicaName,
        registry: Registry,
        stopping: CancellationToken,
    ) -> (watch::Sender<Arc<Snapshot>>, Self) {
        let (sender, snapshots) = watch::channel(Arc::default());
        (sender, Self { here, snapshots, registry, stopping })
    }

    /// The name of this replica.
    pub fn here(&self) -> &ReplicaName {
        &self.here
    }

    /// The last snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshots.borrow().clone()
    }

    /// Tells of each snapshot; who is slow misses some.
    pub fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }

    /// The actors: of this replica as of now, of others as they told last.
    pub fn actors(&self) -> Vec<ActorReport> {
        let own = self.registry.list().into_iter();
        let mut all: Vec<_> = own.map(|status| ActorReport::new(status, self.here.clone())).collect();
        let snapshot = self.snapshot();
        if snapshot.overview.replicas.len() > 1 {
            let by_name = snapshot.other_actors.iter();
            let told: HashSet<_> =
                by_name.clone().map(|actor| (&*actor.status.kind, &*actor.status.id)).collect();
            let elsewhere = snapshot.clients.iter().filter(|client| {
                client.replica.as_ref() != Some(&self.here)
                    && !told.contains(&(DELIVERY_KIND, client.client.as_str()))
            });
            let at_ms = snapshot.overview.at_ms;
            all.extend(elsewhere.filter_map(|client| ActorReport::of_client(client, at_ms)));
            all.extend(by_name.cloned());
        }
        all
    }

    /// The delivery actor of a client, wherever it is, or what is known of the last one. `None`: it rests, and never broke.
    pub fn actor_of(&self, client: &ClientView) -> Option<ActorReport> {
        let id = client.client.as_str();
        let is_elsewhere = client.replica.as_ref().is_some_and(|replica| *replica != self.here);
        match self.registry.get(DELIVERY_KIND, id) {
            Some(cell) if !is_elsewhere => Some(ActorReport::new(cell.status(), self.here.clone())),
            None if !is_elsewhere => {
                Some(ActorReport::new(self.registry.retired(DELIVERY_KIND, id)?, self.here.clone()))
            }
            _ => {
                let snapshot = self.snapshot();
                let is_its =
                    |actor: &&ActorReport| actor.status.kind == DELIVERY_KIND && &*actor.status.id == id;
                let told = snapshot.other_actors.iter().find(is_its).cloned();
                told.or_else(|| ActorReport::of_client(client, snapshot.overview.at_ms))
            }
        }
    }

    /// Ready when the service stops.
    pub async fn stopping(&self) {
        self.stopping.cancelled().await;
    }
}

/// Makes the snapshots.
pub struct DashboardActor {
    cell: Cell,
    services: DashboardServices,
    snapshots: watch::Sender<Arc<Snapshot>>,
    memory: Memory,
    ticks: u64,
    looked_at: Instant,
    gathered: Arc<Gathered>,
    gathering: bool,
    gather_at: Instant,
    started: Instant,
    others: Arc<Others>,
    teller: Teller,
    exchanging: bool,
    exchange_at: Instant,
}

impl DashboardActor {
    /// One that has seen nothing yet.
    pub fn new(cell: Cell, services: DashboardServices, snapshots: watch::Sender<Arc<Snapshot>>) -> Self {
        let now = Instant::now();
        Self {
            cell,
            services,
            snapshots,
            memory: Memory::default(),
            ticks: 0,
            looked_at: now,
            gathered: Arc::default(),
            gathering: false,
            gather_at: now,
            started: now,
            others: Arc::default(),
            teller: Teller::new(),
            exchanging: false,
            exchange_at: now,
        }
    }

    fn tick(&mut self, ctx: &mut Context<Self>) {
        self.cell.tick();
        self.ticks += 1;
        if !self.gathering && self.gather_at <= Instant::now() {
            self.gather(ctx);
        }
        self.look();
        if !self.exchanging && self.exchange_at <= Instant::now() {
            self.exchange(ctx);
        }
        if self.ticks.is_multiple_of(TIDY_TICKS) {
            let configs = self.services.configs.snapshot();
            let backlogs = self.gathered.backlogs.clone();
            self.services
                .meters
                .retain(|client| configs.get(client).is_some() || backlogs.contains_key(client));
        }
    }

    fn look(&mut self) {
        let started = Instant::now();
        let mut snapshot = self.memory.look(&Inputs {
            here: &self.services.here,
            about: About {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                roles: self.services.roles.clone(),
                uptime_s: self.started.elapsed().as_secs(),
            },
            others: &self.others,
            now_ms: self.services.clock.now_ms(),
            seconds: (started - self.looked_at).as_secs_f64(),
            configs: &self.services.configs.snapshot(),
            meters: &self.services.meters,
            registry: &self.services.registry,
            gathered: &self.gathered,
            give_up: self.services.give_up,
        });
        self.looked_at = started;
        snapshot.is_made_in(started.elapsed());
        self.cell.publish(serde_json::json!({
            "snapshot": snapshot.number,
            "clients": snapshot.clients.len(),
            "cost_us": snapshot.overview.cost_us,
        }));
        self.snapshots.send_replace(Arc::new(snapshot));
    }

    fn gather(&mut self, ctx: &mut Context<Self>) {
        self.gathering = true;
        let (stores, before) = (self.services.stores.clone(), self.gathered.clone());
        let asked = async move { stores.ask(&before).await }.into_actor(self);
        ctx.spawn(asked.map(|gathered, actor, _| {
            actor.gathering = false;
            actor.gather_at = Instant::now() + gathered.rest();
            actor.gathered = Arc::new(gathered);
        }));
    }
}

impl DashboardActor {
    /// Tells the others what was seen last, and hears what they have seen.
    fn exchange(&mut self, ctx: &mut Context<Self>) {
        let Some(parts) = self.services.parts.clone() else { return };
        let snapshot = self.snapshots.borrow().clone();
        let (here, known, now) = (self.services.here.clone(), self.others.clone(), Instant::now());
        let texts = self.teller.write(&here, &snapshot, now);
        let writing = now.elapsed();
        self.exchanging = true;
        let exchanged =
            async move { exchange::exchange(&*parts, &here, texts, &known).await }.into_actor(self);
        ctx.spawn(exchanged.map(move |exchanged, actor, _| {
            let (heard, kept, reading) = match exchanged {
                Ok((heard, kept, reading)) => (Ok(heard), kept, reading),
                Err(err) => (Err(err.to_string()), false, Duration::ZERO),
            };
            if !kept {
                actor.teller.base_is_lost();
            }
            let now = Instant::now();
            // Nobody else holds it now: what was asked has ended.
            Arc::make_mut(&mut actor.others).hear(heard, now);
            actor.exchanging = false;
            actor.exchange_at = now + exchange::rest(writing + reading + now.elapsed());
        }));
    }
}

impl Actor for DashboardActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.gather(ctx);
        self.look();
        ctx.run_interval(EVERY, |actor, ctx| actor.tick(ctx));
    }
}

impl Supervised for DashboardActor {
    fn restarting(&mut self, _: &mut Self::Context) {
        // What was being asked went with the life before.
        (self.gathering, self.exchanging) = (false, false);
        self.teller.base_is_lost();
    }
}
