//! `ConfigCacheActor`: the configs of all clients, and the block list, in memory, for routing and delivery.

mod table;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;

pub use self::table::{ConfigSnapshot, ConfigTable, ConfigTableWriter, config_table};
use super::delivery_fleet::ConfigChanged;
use crate::domain::config::ClientId;
use crate::domain::decision::DecisionKind;
use crate::domain::guard::{Decided, DecisionList};
use crate::metrics::Metrics;
use crate::ports::client_configs::{ClientConfigs, ConfigNotice, StoredConfig};
use crate::ports::clock::Clock;
use crate::ports::decisions::Decisions;
use crate::ports::{StoreError, StoreResult};
use crate::runtime::Cell;

/// How long one read of all configs may take: many of them, from a store that has trouble.
const LONGEST_READ: Duration = Duration::from_secs(120);

/// How often everything is read again, in case a notification was missed.
const RELOAD_EVERY: Duration = Duration::from_secs(60);

/// The wait before the store is asked again about what a notice told of; it doubles up to the second.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Keeps the table equal to the stores.
pub struct ConfigCacheActor {
    cell: Cell,
    store: Arc<dyn ClientConfigs>,
    decisions: Arc<dyn Decisions>,
    table: ConfigTableWriter,
    changes: Recipient<ConfigChanged>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    /// What cannot be read: said once.
    said_away: HashSet<&'static str>,
}

impl ConfigCacheActor {
    /// `changes` hears of every client whose config, or the decision about its owner, is another.
    pub fn new(
        cell: Cell,
        store: Arc<dyn ClientConfigs>,
        decisions: Arc<dyn Decisions>,
        table: ConfigTableWriter,
        changes: Recipient<ConfigChanged>,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
    ) -> Self {
        cell.takes_at_most(LONGEST_READ);
        Self { cell, store, decisions, table, changes, clock, metrics, said_away: HashSet::new() }
    }

    /// Puts what was read of these clients into the table, and tells which are others now. `asked`: `None`: all were read.
    fn replace(&self, asked: Option<&[ClientId]>, read: Vec<StoredConfig>, read_at_ms: i64) {
        let changed = self.table.put(asked, read, read_at_ms);
        self.tell(changed);
    }

    fn tell(&self, changed: Vec<ClientId>) {
        let snapshot = self.table.snapshot();
        let blocked = snapshot.blocked().len();
        self.metrics.blocked_owners.set(i64::try_from(blocked).unwrap_or(i64::MAX));
        self.cell.publish(serde_json::json!({ "clients": snapshot.clients(), "blocked_owners": blocked }));
        for client in changed {
            self.changes.do_send(ConfigChanged(client));
        }
    }

    fn take_decided(&mut self, read: StoreResult<Decided>) -> StoreResult<()> {
        match read {
            Ok(decided) => {
                let changed = self.table.decide(decided);
                self.tell(changed);
                self.was_read("decisions");
                Ok(())
            }
            Err(err) => {
                self.not_read("decisions", &err);
                Err(err)
            }
        }
    }

    fn not_read(&mut self, what: &'static str, err: &StoreError) {
        self.metrics.store_errors.with_label_values(&[what]).inc();
        if self.said_away.insert(what) {
            log::warn!("{what} were not read again, the ones in memory stay err={err}");
        }
    }

    fn was_read(&mut self, what: &'static str) {
        if self.said_away.remove(what) {
            log::info!("{what} are read again");
        }
    }

    /// Reads again what other replicas say has changed, for ever.
    fn follow_notices(&self, ctx: &mut Context<Self>) {
        let (store, actor) = (self.store.clone(), ctx.address());
        let follow = async move {
            loop {
                let done = match store.next_notice().await {
                    ConfigNotice::Changed(client) => until_read(&actor, || Refresh(client.clone())).await,
                    ConfigNotice::Missed => until_read(&actor, || Reload).await,
                };
                if done.is_err() {
                    return;
                }
            }
        };
        ctx.spawn(follow.into_actor(self));
        let (decisions, actor) = (self.decisions.clone(), ctx.address());
        let follow = async move {
            loop {
                decisions.changed().await;
                if until_read(&actor, || ReloadDecisions).await.is_err() {
                    return;
                }
            }
        };
        ctx.spawn(follow.into_actor(self));
    }
}

/// Asks until the answer is good. An error: the actor ends.
async fn until_read<M>(actor: &Addr<ConfigCacheActor>, message: impl Fn() -> M) -> Result<(), MailboxError>
where
    M: Message<Result = StoreResult<()>> + Send + 'static,
    ConfigCacheActor: Handler<M>,
{
    let mut wait = ASK_AGAIN.0;
    while actor.send(message()).await?.is_err() {
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(ASK_AGAIN.1);
    }
    Ok(())
}

impl Actor for ConfigCacheActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(RELOAD_EVERY, |_, ctx| ctx.notify(Reload));
        ctx.notify(Reload);
        self.follow_notices(ctx);
    }
}

impl Supervised for ConfigCacheActor {}

/// Reads what is decided about clients, their owners, and queues.
async fn decided(decisions: &dyn Decisions) -> StoreResult<Decided> {
    let (blocked, paused, queues) = tokio::try_join!(
        decisions.list(DecisionKind::BlockedOwner),
        decisions.list(DecisionKind::PausedClient),
        decisions.list(DecisionKind::PausedQueue)
    )?;
    let [blocked, paused, queues] = [blocked, paused, queues].map(DecisionList::new);
    Ok(Decided { blocked, paused, queues })
}

/// Reads all configs and what is decided again. Answered when the table has them.
#[derive(Message)]
#[rtype(result = "StoreResult<()>")]
pub struct Reload;

impl Handler<Reload> for ConfigCacheActor {
    type Result = AtomicResponse<Self, StoreResult<()>>;

    fn handle(&mut self, _: Reload, _: &mut Self::Context) -> Self::Result {
        self.cell.handling("Reload");
        let (store, decisions, read_at_ms) =
            (self.store.clone(), self.decisions.clone(), self.clock.now_ms());
        let read = async move {
            // What is not known to be blocked must not be taken for free: one without the other is no answer.
            tokio::join!(store.load(), decided(&*decisions))
        };
        AtomicResponse::new(Box::pin(read.into_actor(self).map(move |(configs, decided), actor, _| {
            let decided = actor.take_decided(decided);
            let configs = match configs {
                Ok(configs) => {
                    actor.replace(None, configs, read_at_ms);
                    actor.was_read("configs");
                    Ok(())
                }
                Err(err) => {
                    actor.not_read("configs", &err);
                    Err(err)
                }
            };
            configs.and(decided)
        })))
    }
}

/// Reads what is decided again. Answered when the table has it.
#[derive(Message)]
#[rtype(result = "StoreResult<()>")]
pub struct ReloadDecisions;

impl Handler<ReloadDecisions> for ConfigCacheActor {
    type Result = AtomicResponse<Self, StoreResult<()>>;

    fn handle(&mut self, _: ReloadDecisions, _: &mut Self::Context) -> Self::Result {
        self.cell.handling("ReloadDecisions");
        let decisions = self.decisions.clone();
        let read = async move { decided(&*decisions).await };
        AtomicResponse::new(Box::pin(
            read.into_actor(self).map(|decided, actor, _| actor.take_decided(decided)),
        ))
    }
}

/// One client's config changed in the store. Answered when the table has it.
#[derive(Message)]
#[rtype(result = "StoreResult<()>")]
pub struct Refresh(pub ClientId);

impl Handler<Refresh> for ConfigCacheActor {
    type Result = AtomicResponse<Self, StoreResult<()>>;

    fn handle(&mut self, Refresh(client): Refresh, _: &mut Self::Context) -> Self::Result {
        self.cell.handling("Refresh");
        let (store, read_at_ms) = (self.store.clone(), self.clock.now_ms());
        let read = async move {
            let read = store.get(&client).await;
            (client, read)
        };
        AtomicResponse::new(Box::pin(read.into_actor(self).map(move |(client, read), actor, _| match read {
            Ok(config) => {
                actor.replace(Some(&[client]), config.into_iter().collect(), read_at_ms);
                Ok(())
            }
            Err(err) => {
                actor.metrics.store_errors.with_label_values(&["configs"]).inc();
                Err(err)
            }
        })))
    }
}

/// Configs that somebody read from the store. Answered when the table has them, unless it has newer ones.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Learn {
    /// What was read.
    pub configs: Vec<StoredConfig>,
    /// When it was asked for, milliseconds since 1970.
    pub read_at_ms: i64,
}

impl Handler<Learn> for ConfigCacheActor {
    type Result = ();

    fn handle(&mut self, Learn { mut configs, read_at_ms }: Learn, _: &mut Self::Context) {
        self.cell.handling("Learn");
        let snapshot = self.table.snapshot();
        configs.retain(|stored| snapshot.read_at_ms(&stored.config.client) <= read_at_ms);
        let clients: Vec<_> = configs.iter().map(|stored| stored.config.client.clone()).collect();
        self.replace(Some(&clients), configs, read_at_ms);
    }
}
