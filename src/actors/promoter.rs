//! `PromoterActor`: sees to it that what waits is seen. Every 15 s, by a timer of its own and not by a schedule in Redis, one replica looks at all
//! clients that fail or have rows: their jobs exist (Redis may have lost all), the job of a webhook that lives again is promoted, the clock of
//! one that does not fail any more is taken away, and who is about to be switched off is warned of. It never waits for a webhook.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use tokio::time::Instant;

use super::config_cache::ConfigTable;
use super::operational_events::EventRecorder;
use super::retry::DRAINS;
use crate::domain::client_state::{ClientState, Phase};
use crate::domain::config::ClientId;
use crate::domain::job::JobState;
use crate::domain::operational_event::{Happening, OperationalEvent};
use crate::domain::retry::Pacing;
use crate::domain::stash::Backlog;
use crate::ports::client_states::ClientStates;
use crate::ports::clock::Clock;
use crate::ports::job_queue::{Acted, JobQueue};
use crate::ports::stash::Stash;
use crate::ports::{StoreError, StoreResult};
use crate::runtime::Cell;
use crate::workers::queues::{Disable, DispatcherJob, Queue, Retry};
use crate::workers::{AddError, Exclusive, Jobs, Payload, Producer, Run, When};

/// How often it looks: a 20th of the time after which webhooks are given up, within these bounds.
const EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));

/// Another replica looks when this one was lost for so long.
const LEASE: Duration = Duration::from_secs(45);

/// Rows of a moment need no job.
const SETTLED_MS: i64 = 2_000;

/// A job that was put is put again after this time: the queue may have lost it. With the look after that it is back within a minute.
const PUT_AGAIN: Duration = Duration::from_secs(40);

/// How long the list of clocks counts: what another replica asked for may have come into the queue after it was read.
const CLOCKS_COUNT: Duration = Duration::from_secs(60);

/// Jobs put at once.
const AT_ONCE: usize = 500;

/// Shares of the time to switching off, in percent, at which the operator is warned.
const WARNINGS: [i64; 2] = [50, 90];

/// What it works with.
pub struct PromoterServices {
    /// Which clients have rows.
    pub stash: Arc<dyn Stash>,
    /// Which fail.
    pub states: Arc<dyn ClientStates>,
    /// Which are active.
    pub configs: ConfigTable,
    /// The queue `dispatcher`.
    pub queue: Arc<dyn JobQueue>,
    /// Puts jobs there.
    pub producer: Producer<Queue>,
    /// One replica looks at a time.
    pub exclusive: Exclusive,
    /// When webhooks are given up.
    pub pacing: Pacing,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Where warnings go.
    pub events: EventRecorder,
}

/// Looks again and again.
pub struct PromoterActor {
    cell: Cell,
    services: Arc<PromoterServices>,
    /// What the looks of this replica found; `None` while one is under way.
    memory: Option<Memory>,
    /// The last look failed: said once.
    troubled: bool,
    /// Nobody sends it anything; but an actor that nobody can reach is not restarted.
    own_address: Option<Addr<Self>>,
}

/// What is remembered from one look to the next. Another replica, and a new life of this one, begins without.
#[derive(Default)]
struct Memory {
    /// When jobs were put.
    put: HashMap<DispatcherJob, Instant>,
    /// Clients with a job `DISABLE`; `None`: not looked up yet.
    clocks: Option<Clocks>,
    /// The last warning of each client that fails, in percent.
    warned: HashMap<ClientId, i64>,
}

/// Clients that have a job `DISABLE`, as far as is known.
struct Clocks {
    read: Instant,
    clients: HashSet<ClientId>,
}

impl PromoterActor {
    /// Looks for the first time at once.
    pub fn new(cell: Cell, services: Arc<PromoterServices>) -> Self {
        Self { cell, services, memory: Some(Memory::default()), troubled: false, own_address: None }
    }

    fn tick(&mut self, ctx: &mut Context<Self>) {
        self.cell.handling("Tick");
        let Some(mut memory) = self.memory.take() else { return };
        let services = self.services.clone();
        let look = async move {
            let ran = services.exclusive.run("promoter", LEASE, |_| services.look(&mut memory)).await;
            let looked = match ran {
                Ok(Run::Ran(looked)) => looked,
                Ok(Run::Skipped | Run::Lost) => {
                    // Another looks: what this one remembers grows old.
                    memory = Memory::default();
                    Ok(())
                }
                Err(err) => Err(err),
            };
            (memory, looked)
        };
        ctx.spawn(look.into_actor(self).map(|(memory, looked), actor, _| {
            actor.memory = Some(memory);
            actor.cell.tick();
            let troubled = looked.is_err();
            if let Err(err) = looked
                && !std::mem::replace(&mut actor.troubled, true)
            {
                log::warn!("promoter cannot look err={err}");
            }
            actor.troubled = troubled;
        }));
    }
}

impl Actor for PromoterActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.own_address = Some(ctx.address());
        self.tick(ctx);
        ctx.run_interval(self.services.every(), Self::tick);
    }
}

impl Supervised for PromoterActor {
    fn restarting(&mut self, _: &mut Self::Context) {
        self.memory = Some(Memory::default());
    }
}

impl PromoterServices {
    fn every(&self) -> Duration {
        (self.pacing.give_up / 20).clamp(EVERY.0, EVERY.1)
    }

    async fn look(&self, memory: &mut Memory) -> StoreResult<()> {
        let states: HashMap<ClientId, ClientState> = self.states.list().await?.into_iter().collect();
        let backlogs = self.stash.backlogs().await?;
        let table = self.configs.snapshot();
        let serves = |client: &ClientId, state: &ClientState| {
            table.get(client).is_some_and(|client| client.is_served())
                && !matches!(state.phase, Phase::Paused | Phase::Disabled)
        };
        let now_ms = self.clock.now_ms();
        let with_rows = backlogs.iter().filter(|(_, backlog)| backlog.pending > 0);
        let has_rows: HashSet<&ClientId> = with_rows.map(|(client, _)| client).collect();
        let failing: Vec<_> = states
            .iter()
            .filter(|(client, state)| state.failing_since_ms.is_some() && serves(client, state))
            // With nothing to send there is no last try, and no attempt that would ever end the failure.
            .filter(|(client, _)| has_rows.contains(client))
            .collect();

        let waiting: Vec<_> = backlogs
            .iter()
            .filter(|(_, backlog)| backlog.pending > 0)
            .filter_map(|(client, backlog)| Some((client, backlog, states.get(client)?)))
            .filter(|(client, _, state)| serves(client, state) && now_ms - state.since_ms >= SETTLED_MS)
            .collect();
        let mut jobs: Vec<(DispatcherJob, When)> = Vec::new();
        jobs.extend(waiting.iter().map(|(client, _, state)| self.retry(client, state, now_ms)));
        jobs.extend(failing.iter().map(|(client, state)| self.disable(client, state, now_ms)));
        if let Some(clocks) = &mut memory.clocks {
            // Before they are put: a job may be there although the answer was lost.
            clocks.clients.extend(failing.iter().map(|(client, _)| (*client).clone()));
        }
        self.put(jobs, memory).await?;
        self.promote(&waiting, now_ms).await?;
        self.stop_clocks(&failing, memory).await?;
        self.warn(&failing, memory, now_ms).await
    }

    /// The job of a client that has rows: due with its next attempt.
    fn retry(&self, client: &ClientId, state: &ClientState, now_ms: i64) -> (DispatcherJob, When) {
        let delay = state.wait(now_ms).unwrap_or_default();
        let due_ms = now_ms + i64::try_from(delay.as_millis()).unwrap_or(i64::MAX / 2);
        let job = Retry { client: client.clone(), due_ms: Some(due_ms) };
        (job.into(), When { delay, ..When::default() })
    }

    /// The clock of a client that fails: due when its time has passed.
    fn disable(&self, client: &ClientId, state: &ClientState, now_ms: i64) -> (DispatcherJob, When) {
        let failed_ms = state.failing_since_ms.map_or(0, |since_ms| now_ms - since_ms);
        let failed = Duration::from_millis(u64::try_from(failed_ms).unwrap_or(0));
        let delay = self.pacing.give_up.saturating_sub(failed);
        (Disable { client: client.clone() }.into(), When { delay, ..When::default() })
    }

    /// Puts jobs that are not there. Those that were put lately are taken to be.
    async fn put(&self, jobs: Vec<(DispatcherJob, When)>, memory: &mut Memory) -> StoreResult<()> {
        memory.put.retain(|_, at| at.elapsed() < PUT_AGAIN);
        let key = |job: &DispatcherJob| match job {
            DispatcherJob::Retry(job) => DispatcherJob::from(Retry { due_ms: None, ..job.clone() }),
            DispatcherJob::Disable(job) => job.clone().into(),
        };
        let due: Vec<_> = jobs.into_iter().filter(|(job, _)| !memory.put.contains_key(&key(job))).collect();
        for some in due.chunks(AT_ONCE) {
            self.producer.add_each(some).await.map_err(store_error)?;
            memory.put.extend(some.iter().map(|(job, _)| (key(job), Instant::now())));
        }
        Ok(())
    }

    /// The webhook lives: its job need not wait until the webhook was to be tried. One that looks again soon is let be: to promote it means to
    /// try everything now, and a document that is refused would never keep its own pace.
    async fn promote(&self, waiting: &[(&ClientId, &Backlog, &ClientState)], now_ms: i64) -> StoreResult<()> {
        let soon_ms = now_ms + DRAINS.as_millis() as i64;
        for (client, _, state) in waiting {
            if matches!(state.phase, Phase::Healthy | Phase::Draining) {
                let id = Retry { client: (*client).clone(), due_ms: None }.id();
                let known = self.queue.job(id.as_str()).await?;
                let waits_long = known.and_then(|job| job.due_ms).is_some_and(|due_ms| due_ms > soon_ms);
                if waits_long && self.queue.promote(id.as_str()).await? == Acted::Done {
                    log::debug!("job promoted: the webhook lives job_id={id}");
                }
            }
        }
        Ok(())
    }

    /// Takes the clocks away of clients that do not fail any more.
    async fn stop_clocks(
        &self,
        failing: &[(&ClientId, &ClientState)],
        memory: &mut Memory,
    ) -> StoreResult<()> {
        let mut clocks = match memory.clocks.take().filter(|clocks| clocks.read.elapsed() < CLOCKS_COUNT) {
            Some(clocks) => clocks,
            None => Clocks { read: Instant::now(), clients: self.clocks().await? },
        };
        let failing: HashSet<&ClientId> = failing.iter().map(|(client, _)| *client).collect();
        let over: Vec<_> =
            clocks.clients.iter().filter(|client| !failing.contains(client)).cloned().collect();
        for client in over {
            self.queue.remove(Disable { client: client.clone() }.id().as_str()).await?;
            memory.put.remove(&DispatcherJob::from(Disable { client: client.clone() }));
            clocks.clients.remove(&client);
        }
        memory.clocks = Some(clocks);
        Ok(())
    }

    /// Clients with a job `DISABLE` that waits.
    async fn clocks(&self) -> StoreResult<HashSet<ClientId>> {
        let mut clocks = HashSet::new();
        for page in 0.. {
            let jobs = self.queue.jobs(JobState::Delayed, page * AT_ONCE, AT_ONCE).await?;
            let last = jobs.len() < AT_ONCE;
            clocks.extend(jobs.into_iter().filter_map(|job| {
                match DispatcherJob::read(&job.name, job.data) {
                    Ok(DispatcherJob::Disable(disable)) => Some(disable.client),
                    _ => None,
                }
            }));
            if last {
                break;
            }
        }
        Ok(clocks)
    }

    /// Warns of clients that are about to be switched off, once for each share of the time. A replica that takes over looks first whether
    /// the one before has warned: by what has passed since.
    async fn warn(
        &self,
        failing: &[(&ClientId, &ClientState)],
        memory: &mut Memory,
        now_ms: i64,
    ) -> StoreResult<()> {
        let give_up_ms = i64::try_from(self.pacing.give_up.as_millis()).unwrap_or(i64::MAX).max(1);
        let failing_now: HashSet<&ClientId> = failing.iter().map(|(client, _)| *client).collect();
        memory.warned.retain(|client, _| failing_now.contains(client));
        // Who has failed for much less by the clock here need not be asked about: there may be thousands.
        let may_be_due = |state: &ClientState| {
            state
                .failing_since_ms
                .is_some_and(|since_ms| now_ms - since_ms >= give_up_ms / 100 * (WARNINGS[0] - 10))
        };
        for (client, state) in failing.iter().filter(|(_, state)| may_be_due(state)) {
            let Some(failing_for) = self.states.failing_for(client).await? else { continue };
            let failing_ms = i64::try_from(failing_for.as_millis()).unwrap_or(i64::MAX);
            let passed = |percent: i64| failing_ms.saturating_mul(100) / give_up_ms >= percent;
            let Some(percent) = WARNINGS.into_iter().rev().find(|percent| passed(*percent)) else { continue };
            let first_look = self.every().as_millis() as i64 * 2 + give_up_ms * percent / 100;
            let known = memory.warned.insert((*client).clone(), percent);
            let warned = known.map_or(failing_ms > first_look, |known| known >= percent);
            if !warned {
                let event = OperationalEvent::new(Happening::DisableWarning, now_ms)
                    .of(client)
                    .because(state.last_failure.as_deref().unwrap_or_default())
                    .with("percent", percent)
                    .with("disabled_in_seconds", (give_up_ms - failing_ms).max(0) / 1000);
                self.events.record(event);
            }
        }
        Ok(())
    }
}

fn store_error(err: AddError) -> StoreError {
    match err {
        AddError::Store(err) => err,
        AddError::OwnId(_) | AddError::Payload(_) => StoreError::Refused(err.to_string()),
    }
}
