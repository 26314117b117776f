//! `DeliveryFleetActor`: client -> delivery actor. Starts them, retires them, and owns what they have not settled.

mod resting;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;

use self::resting::Rest;
use super::config_cache::{ConfigCacheActor, Refresh};
use super::delivery::{DeliveryServices, Quiesce, Wake, WebhookDeliveryActor};
use super::inbox::Inbox;
use super::windows::Unsettled;
use crate::domain::config::ClientId;
use crate::domain::transfer::partition_of;
use crate::ports::client_configs::ClientConfigs;
use crate::ports::stash::Ownership;
use crate::runtime::{Arbiters, Cell, Kit, Supervised as Child, supervise};

/// How often the stash is asked who has rows: to start whoever was forgotten.
const SURVEY_EVERY: Duration = Duration::from_secs(5);

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
    config_cache: Option<Addr<ConfigCacheActor>>,
    /// Actors of partitions that were lost, until they have ended.
    ending: Vec<Cell>,
    surveying: bool,
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
            config_cache: None,
            ending: Vec::new(),
            surveying: false,
            quiescing: false,
        }
    }

    /// What is kept of a client; its actor is started when there is none.
    fn client(&mut self, client: &ClientId, ctx: &Context<Self>) -> &Client {
        if !self.clients.contains_key(client) {
            self.start(client.clone(), ctx);
        }
        &self.clients[client]
    }

    fn start(&mut self, client: ClientId, ctx: &Context<Self>) {
        let inbox = Arc::new(Inbox::new(client.clone(), self.services.windows.clone()));
        let (services, own_inbox, fleet) = (self.services.clone(), inbox.clone(), ctx.address());
        let partition = partition_of(&client, self.services.partitions);
        let arbiter = self.arbiters.pick(u64::from(partition));
        let child = supervise(&self.kit, &arbiter, DELIVERY_KIND, client.as_str(), move |cell| {
            WebhookDeliveryActor::new(cell, services, own_inbox, partition, fleet)
        });
        self.clients.insert(client, Client { inbox, child, rest: None });
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

    /// Asks the stash who has rows, and wakes them: rows whose client has no actor would wait for ever.
    fn survey(&mut self, ctx: &mut Context<Self>) {
        if self.surveying || self.quiescing {
            return;
        }
        self.surveying = true;
        let stash = self.services.stash.clone();
        let backlogs = async move { stash.backlogs().await }.into_actor(self);
        ctx.spawn(backlogs.map(|backlogs, actor, ctx| {
            actor.surveying = false;
            let backlogs = match backlogs {
                Ok(backlogs) => backlogs,
                Err(err) => {
                    log::warn!("stash cannot be surveyed err={err}");
                    actor.services.metrics.store_errors.with_label_values(&["stash"]).inc();
                    return;
                }
            };
            for (client, backlog) in backlogs {
                // Rows of a client that is gone are its actor's to bury.
                let concerned = || {
                    let config = actor.services.configs.get(&client);
                    config.is_none_or(|config| config.deleted || config.is_usable())
                };
                let known = actor.clients.contains_key(&client);
                let partition = partition_of(&client, actor.services.partitions);
                let ours = actor.services.windows.ownership(partition).is_some();
                if backlog.pending > 0 && ours && !known && concerned() {
                    actor.client(&client, ctx);
                }
            }
        }));
    }
}

impl Actor for DeliveryFleetActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.surveying = false;
        ctx.run_interval(SURVEY_EVERY, |actor, ctx| {
            actor.look_after_resting(ctx);
            actor.survey(ctx);
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

/// These partitions are not ours any more, or begin anew. Answered when nothing of them is sent: what is unsettled of them is
/// forgotten, for whoever has them next reads it again.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Lost(pub Vec<u32>);

impl Handler<Lost> for DeliveryFleetActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, Lost(partitions): Lost, _: &mut Self::Context) -> Self::Result {
        self.cell.handling("Lost");
        let count = self.services.partitions;
        let (registry, ending) = (self.kit.registry(), &mut self.ending);
        self.clients.retain(|id, client| {
            let lost = partitions.contains(&partition_of(id, count));
            if lost {
                client.child.cell.stop();
                registry.forget(DELIVERY_KIND, id.as_str());
                ending.push(client.child.cell.clone());
            }
            !lost
        });
        self.publish();
        let ending = self.ending.clone();
        let ended = async move {
            for cell in ending {
                cell.ended().await;
            }
        };
        AtomicResponse::new(Box::pin(ended.into_actor(self).map(|(), actor, _| actor.ending.clear())))
    }
}

/// These partitions are ours: their clients with rows are started.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Assigned(pub Vec<Ownership>);

impl Handler<Assigned> for DeliveryFleetActor {
    type Result = ();

    fn handle(&mut self, _: Assigned, ctx: &mut Self::Context) {
        self.cell.handling("Assigned");
        self.survey(ctx);
    }
}

/// Transfers of one partition, in order. Answered when they are in their inboxes.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Deliver(pub Vec<Unsettled>);

impl Handler<Deliver> for DeliveryFleetActor {
    type Result = ();

    fn handle(&mut self, Deliver(batch): Deliver, ctx: &mut Self::Context) {
        self.cell.handling("Deliver");
        if self.quiescing {
            // Unsettled, and read again by the next process.
            return;
        }
        let mut touched: Vec<ClientId> = Vec::new();
        for unsettled in batch {
            let client = unsettled.transfer.client.clone();
            self.client(&client, ctx).inbox.put(unsettled);
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
            None => self.survey(ctx),
        }
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
        if same
            && inbox.is_empty()
            && let Some(idle) = self.clients.remove(client)
        {
            idle.child.cell.stop();
            self.kit.registry().forget(DELIVERY_KIND, client.as_str());
            self.publish();
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

/// No new requests. Answered when nothing is on the wire and every stash write is done.
#[derive(Message)]
#[rtype(result = "()")]
pub struct QuiesceAll;

impl Handler<QuiesceAll> for DeliveryFleetActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: QuiesceAll, _: &mut Self::Context) -> Self::Result {
        self.cell.handling("QuiesceAll");
        self.quiescing = true;
        let waiting: Vec<_> = self.clients.values().map(|client| client.child.addr.send(Quiesce)).collect();
        Box::pin(async move {
            futures_util::future::join_all(waiting).await;
        })
    }
}
