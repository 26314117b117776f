//! `DeliveryFleetActor`: client -> delivery actor. Starts them, retires them, and owns what they have not settled, and what is
//! known of the clients without asking: who has rows, and in which state each is.

mod lost;
mod resting;
mod turnover;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;

pub use self::lost::{ArbiterLost, RestartActor};
use self::resting::Rest;
pub use self::turnover::{Assigned, Leave, Sweep};
use super::config_cache::{ConfigCacheActor, Refresh};
use super::delivery::{DeliveryServices, Quiesce, RecentDeliveries, TryNow, Wake, WebhookDeliveryActor};
use super::inbox::{Inbox, Standing};
use super::windows::Unsettled;
use crate::domain::attempt::Attempt;
use crate::domain::client_state::Phase;
use crate::domain::config::ClientId;
use crate::domain::guard::Destination;
use crate::domain::operational_event::{Happening, OperationalEvent};
use crate::domain::transfer::partition_of;
use crate::ports::client_configs::ClientConfigs;
use crate::ports::stash::Ownership;
use crate::runtime::{Arbiters, Cell, Kit, Seat, Supervised as Child, supervise};

/// How often it is looked who has rows and no actor: to start whoever was forgotten.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The kind of the delivery actors.
pub const DELIVERY_KIND: &str = "delivery";

/// Keeps the delivery actors.
pub struct DeliveryFleetActor {
    cell: Cell,
    kit: Kit,
    arbiters: Arc<Arbiters>,
    services: Arc<DeliveryServices>,
    configs: Arc<dyn ClientConfigs>,
    /// Outlives this actor's restarts: the unsettled transfers and the actors themselves are not its state to lose.
    clients: HashMap<ClientId, Client>,
    /// What is known of clients without an actor, of the partitions that are ours.
    absent: HashMap<ClientId, Standing>,
    config_cache: Option<Addr<ConfigCacheActor>>,
    /// Actors of partitions that are another's, until they have ended.
    ending: Vec<Cell>,
    quiescing: bool,
}

struct Client {
    inbox: Arc<Inbox>,
    child: Child<WebhookDeliveryActor>,
    /// Its actor gave up.
    rest: Option<Rest>,
}

impl DeliveryFleetActor {
    /// A fleet without actors. They live on `arbiters`.
    pub fn new(
        cell: Cell,
        kit: Kit,
        arbiters: Arc<Arbiters>,
        services: Arc<DeliveryServices>,
        configs: Arc<dyn ClientConfigs>,
    ) -> Self {
        Self {
            cell,
            kit,
            arbiters,
            services,
            configs,
            clients: HashMap::new(),
            absent: HashMap::new(),
            config_cache: None,
            ending: Vec::new(),
            quiescing: false,
        }
    }

    /// Starts the actor of a client that has none. Its partition is ours by `ownership`.
    fn start(&mut self, client: ClientId, ownership: Ownership, ctx: &Context<Self>) {
        let standing = self.absent.remove(&client).unwrap_or_default();
        let windows = self.services.windows.clone();
        let inbox = Arc::new(Inbox::new(client.clone(), ownership, windows, standing));
        let seat = self.seat(&inbox);
        let child = supervise(&self.kit, seat, DELIVERY_KIND, client.as_str(), self.actor(&inbox, ctx));
        self.clients.insert(client, Client { inbox, child, rest: None });
        self.publish();
    }

    /// Makes the actor of an inbox.
    fn actor(
        &self,
        inbox: &Arc<Inbox>,
        ctx: &Context<Self>,
    ) -> impl FnOnce(Cell) -> WebhookDeliveryActor + Send + 'static {
        let (services, inbox, fleet) = (self.services.clone(), inbox.clone(), ctx.address());
        move |cell| WebhookDeliveryActor::new(cell, services, inbox, fleet)
    }

    /// The actors of a partition share a thread.
    fn seat(&self, inbox: &Inbox) -> Seat {
        self.arbiters.pick(u64::from(inbox.ownership().partition))
    }

    /// Ends the actor of a client that has nothing in its inbox; what is known of the client stays, and why its actor broke.
    fn retire(&mut self, client: &ClientId) {
        let Some(idle) = self.clients.remove(client) else { return };
        idle.child.cell.stop();
        let standing = idle.inbox.standing();
        if standing != Standing::default() {
            self.absent.insert(client.clone(), standing);
        }
        self.kit.registry().retire(DELIVERY_KIND, client.as_str());
        self.publish();
    }

    fn wake(client: &Client) {
        if client.inbox.ask_kick() {
            client.child.addr.do_send(Wake);
        }
    }

    fn publish(&self) {
        self.services.metrics.delivery_actors.set(self.clients.len() as i64);
        self.cell.publish(serde_json::json!({ "clients": self.clients.len() }));
    }

    /// Starts the actors of clients that have rows and none: their rows would wait for ever. And of those that are switched on again: they
    /// would be shown as they were.
    fn start_who_waits(&mut self, ctx: &Context<Self>) {
        if self.quiescing {
            return;
        }
        let waiting = self.absent.keys().filter(|client| self.waits(client));
        for client in waiting.cloned().collect::<Vec<_>>() {
            if let Some(ownership) = self.ownership_of(&client) {
                self.start(client, ownership, ctx);
            }
        }
    }

    /// Whether there is something to do for a client without an actor: it has rows to be sent, or (of a client that is gone) to be buried; or it
    /// may have its changes again.
    fn waits(&self, client: &ClientId) -> bool {
        let Some(standing) = self.absent.get(client) else { return false };
        let has_rows = standing.rows.pending;
        let is_off = standing.state.as_ref().is_some_and(|state| state.phase == Phase::Disabled);
        let Some(client) = self.services.configs.get(client) else { return has_rows };
        match client.destination() {
            Destination::Webhook(_) => has_rows || is_off,
            Destination::Gone => has_rows,
            Destination::Blocked(_) | Destination::Unusable(_) | Destination::Inactive => false,
        }
    }

    /// The right to the client's partition, if it is ours.
    fn ownership_of(&self, client: &ClientId) -> Option<Ownership> {
        self.services.windows.ownership(partition_of(client, self.services.partitions))
    }
}

impl Actor for DeliveryFleetActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(LOOK_EVERY, |actor, ctx| {
            actor.look_after_resting(ctx);
            actor.start_who_waits(ctx);
        });
        self.forget_moves();
        for client in self.clients.values() {
            Self::wake(client);
        }
    }
}

impl Supervised for DeliveryFleetActor {}

/// Where to announce a config that this actor changed.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Introduce(pub Addr<ConfigCacheActor>);

impl Handler<Introduce> for DeliveryFleetActor {
    type Result = ();

    fn handle(&mut self, Introduce(cache): Introduce, _: &mut Self::Context) {
        self.config_cache = Some(cache);
    }
}

/// Transfers of one partition, in order. Answered when they are in their inboxes.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Deliver {
    /// By which right they were received: when it has ended they are dropped, for whoever has the next reads them again.
    pub ownership: Ownership,
    /// The transfers.
    pub batch: Vec<Unsettled>,
}

impl Handler<Deliver> for DeliveryFleetActor {
    type Result = ();

    fn handle(&mut self, Deliver { ownership, batch }: Deliver, ctx: &mut Self::Context) {
        self.cell.handling("Deliver");
        if self.quiescing || !self.services.windows.is_ours(ownership) {
            // Unsettled, and read again by the next process, or the next owner.
            return;
        }
        let mut touched: Vec<ClientId> = Vec::new();
        for unsettled in batch {
            let client = unsettled.transfer.client.clone();
            if !self.clients.contains_key(&client) {
                self.start(client.clone(), ownership, ctx);
            }
            self.clients[&client].inbox.put(unsettled);
            if touched.last() != Some(&client) {
                touched.push(client);
            }
        }
        for client in touched {
            match self.clients.get(&client) {
                Some(known) if known.child.cell.is_alive() => Self::wake(known),
                _ => self.rest(&client, ctx),
            }
        }
    }
}

/// A partition was committed further: rows below may be drained.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Committed(pub u32);

impl Handler<Committed> for DeliveryFleetActor {
    type Result = ();

    fn handle(&mut self, Committed(partition): Committed, _: &mut Self::Context) {
        self.cell.handling("Committed");
        for (id, client) in &self.clients {
            if client.inbox.waits_for_commit() && partition_of(id, self.services.partitions) == partition {
                Self::wake(client);
            }
        }
    }
}

/// A client's config is another one.
#[derive(Message)]
#[rtype(result = "()")]
pub struct ConfigChanged(pub ClientId);

impl Handler<ConfigChanged> for DeliveryFleetActor {
    type Result = ();

    fn handle(&mut self, ConfigChanged(client): ConfigChanged, ctx: &mut Self::Context) {
        self.cell.handling("ConfigChanged");
        match self.clients.get(&client) {
            Some(known) => Self::wake(known),
            None if !self.quiescing && self.waits(&client) => {
                if let Some(ownership) = self.ownership_of(&client) {
                    self.start(client, ownership, ctx);
                }
            }
            None => {}
        }
    }
}

/// Try a client's webhook now; of one whose actor was given up the rest ends. Answered with whether its partition is ours.
#[derive(Message)]
#[rtype(result = "bool")]
pub struct TryClient(pub ClientId);

impl Handler<TryClient> for DeliveryFleetActor {
    type Result = bool;

    fn handle(&mut self, TryClient(client): TryClient, ctx: &mut Self::Context) -> bool {
        self.cell.handling("TryClient");
        let Some(ownership) = self.ownership_of(&client) else { return false };
        if !self.clients.contains_key(&client) && self.absent.contains_key(&client) && !self.quiescing {
            self.start(client.clone(), ownership, ctx);
        }
        match self.clients.get(&client) {
            Some(known) if known.child.cell.is_alive() => known.child.addr.do_send(TryNow),
            // It was given up. It tries as it begins.
            Some(_) => self.end_rest(&client, ctx),
            None => {}
        }
        true
    }
}

/// The actor of this inbox has nothing to do: it may go.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Retire(pub Arc<Inbox>);

impl Handler<Retire> for DeliveryFleetActor {
    type Result = ();

    fn handle(&mut self, Retire(inbox): Retire, _: &mut Self::Context) {
        self.cell.handling("Retire");
        // A transfer may have come in meanwhile; only here are inboxes filled, so this look decides.
        let client = inbox.client();
        let same = self.clients.get(client).is_some_and(|known| Arc::ptr_eq(&known.inbox, &inbox));
        if same && inbox.is_empty() {
            self.retire(client);
        }
    }
}

/// The webhook said 410: the client is switched off, if its webhook is still the one that said so.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Gone {
    /// Whose.
    pub client: ClientId,
    /// Which webhook said it.
    pub webhook: url::Url,
}

impl Handler<Gone> for DeliveryFleetActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, Gone { client, webhook }: Gone, _: &mut Self::Context) -> Self::Result {
        self.cell.handling("Gone");
        let (configs, cache, clock) =
            (self.configs.clone(), self.config_cache.clone(), self.services.clock.clone());
        let events = self.services.events.clone();
        Box::pin(async move {
            let disable = async {
                let Some(stored) = configs.get(&client).await? else { return Ok(false) };
                let same = stored.config.delivery.as_ref().is_ok_and(|settings| settings.webhook == webhook);
                if !same {
                    return Ok(false);
                }
                configs.deactivate(&stored.config, clock.now_ms()).await
            };
            match disable.await {
                Ok(true) => {
                    log::warn!("client is disabled: its webhook answered 410 client={client}");
                    let event = OperationalEvent::new(Happening::Disabled, clock.now_ms());
                    events.record(event.of(&client).because("status_410"));
                    if let Some(cache) = cache {
                        // The cache logs its own failure, and reloads within a minute.
                        let _ = cache.send(Refresh(client)).await;
                    }
                }
                Ok(false) => {}
                Err(err) => log::error!("client was not disabled after 410 err={err} client={client}"),
            }
        })
    }
}

/// Asks for the last ordinary deliveries of a client, the newest first: none are known of one that is served elsewhere, or rests.
#[derive(Message)]
#[rtype(result = "Vec<Attempt>")]
pub struct RecentOf(pub ClientId);

impl Handler<RecentOf> for DeliveryFleetActor {
    type Result = ResponseFuture<Vec<Attempt>>;

    fn handle(&mut self, RecentOf(client): RecentOf, _: &mut Self::Context) -> Self::Result {
        self.cell.handling("RecentOf");
        let known = self.clients.get(&client).map(|known| &known.child);
        let asked = known.map(|child| (child.addr.send(RecentDeliveries), child.cell.clone()));
        Box::pin(async move {
            match asked {
                // An actor that ends just now knows nothing any more.
                Some((asked, cell)) => tokio::select! {
                    recent = asked => recent.unwrap_or_default(),
                    _ = cell.ended() => Vec::new(),
                },
                None => Vec::new(),
            }
        })
    }
}

/// No new requests. Answered when nothing is on the wire and every stash write is done.
#[derive(Message)]
#[rtype(result = "()")]
pub struct QuiesceAll;

impl Handler<QuiesceAll> for DeliveryFleetActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: QuiesceAll, _: &mut Self::Context) -> Self::Result {
        self.cell.handling("QuiesceAll");
        self.quiescing = true;
        quiesce(self.clients.values())
    }
}

/// Ready when none of these sends anything any more: of one whose thread is lost nothing counts.
fn quiesce<'a>(clients: impl Iterator<Item = &'a Client>) -> ResponseFuture<()> {
    let asked = clients.map(|client| (client.child.addr.send(Quiesce), client.child.cell.clone()));
    let waiting: Vec<_> = asked
        .map(|(quiet, cell)| async move {
            tokio::select! {
                _ = quiet => {}
                _ = cell.ended() => {}
            }
        })
        .collect();
    Box::pin(async move {
        futures_util::future::join_all(waiting).await;
    })
}
