//! `DisablerActor`: switches off webhooks that stay dead. Its clock is the job `DISABLE` of the client, delayed to the end of the time that a
//! webhook may fail. When it runs the failure clock of the store decides, and one last try.

use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use serde_json::json;

use super::config_cache::{ConfigCacheActor, ConfigTable, Refresh};
use super::operational_events::EventRecorder;
use super::owners::Owners;
use super::retry::{await_state, is_stopped};
use crate::domain::client_state::{ClientState, Phase, Tried};
use crate::domain::config::{ClientConfig, ClientId};
use crate::domain::operational_event::{Happening, OperationalEvent};
use crate::domain::retry::Pacing;
use crate::ports::StoreResult;
use crate::ports::client_configs::ClientConfigs;
use crate::ports::client_states::ClientStates;
use crate::ports::clock::Clock;
use crate::workers::{Handled, JobContext, JobFailure};

/// How long the last try may take: any request ends within 60 s.
const LAST_TRY: Duration = Duration::from_secs(65);

/// While it is rather us than the webhooks: when to look again.
const US: Duration = Duration::from_secs(60);

/// When so many clients fail, and they are more than half of those that tried something lately, nobody is switched off.
const MANY: usize = 3;

/// Switches clients off.
pub struct Disabler {
    /// Their configs, as the store has them.
    pub configs: Arc<dyn ClientConfigs>,
    /// Their configs, as this replica has them.
    pub table: ConfigTable,
    /// Is told of a config that was changed here.
    pub config_cache: Addr<ConfigCacheActor>,
    /// Their states, with the failure clock.
    pub states: Arc<dyn ClientStates>,
    /// Who makes the last try.
    pub owners: Owners,
    /// How long a webhook may fail.
    pub pacing: Pacing,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Where it is told.
    pub events: EventRecorder,
}

impl Disabler {
    /// One look at a client that failed for long.
    ///
    /// # Errors
    /// When a store is away: the job is tried again.
    pub async fn run(&self, client: &ClientId, context: &JobContext) -> Result<Handled, JobFailure> {
        let Some(tried) = self.configs.get(client).await?.filter(|stored| stored.config.is_usable()) else {
            return Ok(done("its config is not active"));
        };
        let state = self.states.get(client).await?;
        let (Some(state), Some(failing_for)) = (state, self.states.failing_for(client).await?) else {
            return Ok(done("it does not fail any more"));
        };
        if is_stopped(&state) {
            return Ok(done(&state.reason));
        }
        // A config that somebody has just changed has its time, too: what failed may have been the one before.
        let stood_ms = self.clock.now_ms().saturating_sub(tried.config.updated_at_ms);
        let stood = Duration::from_millis(u64::try_from(stood_ms).unwrap_or(0));
        if !state.is_given_up(failing_for.min(stood), &self.pacing) {
            let rest = self.pacing.give_up.saturating_sub(failing_for.min(stood));
            // Not often enough yet: until one more failure may count.
            return Ok(Handled::Later(rest.max(self.pacing.give_up / 10).max(Duration::from_millis(100))));
        }
        if self.it_is_us().await? {
            log::warn!("most webhooks fail, nobody is switched off client={client}");
            context.log("most webhooks fail: nobody is switched off").await?;
            return Ok(Handled::Later(US));
        }
        let now_ms = self.clock.now_ms();
        if let Some(until_ms) = state.hold_until_ms.filter(|until_ms| now_ms < *until_ms) {
            // It asked to be left alone. If it was tried when its time was over, that was its last try.
            if state.has_failed_for(self.pacing.give_up) {
                return self.switch_off(&tried.config, &state, failing_for).await;
            }
            return Ok(Handled::Later(Duration::from_millis((until_ms - now_ms).unsigned_abs())));
        }
        self.owners.try_now(client).await;
        let timeout = tried.config.delivery.as_ref().ok().map(|settings| settings.timeout);
        let decided = |after: &ClientState| {
            // More, not others: a replica that left may write late what it knew.
            after.tries > state.tries || after.failing_since_ms != state.failing_since_ms || is_stopped(after)
        };
        let after = await_state(&*self.states, client, last_try(timeout), decided).await?;
        match after {
            Some(after) if after.failing_since_ms != state.failing_since_ms => {
                Ok(done("the last try was taken"))
            }
            Some(after) if is_stopped(&after) => Ok(done(&after.reason)),
            Some(after) if after.last_try == Some(Tried::Failed) => {
                self.switch_off(&tried.config, &after, failing_for).await
            }
            // Nothing was tried: the owner is away, or held up. Or a payload was refused. Neither is the webhook's fault.
            Some(_) | None => Ok(Handled::Later(US)),
        }
    }

    async fn switch_off(
        &self,
        tried: &ClientConfig,
        state: &ClientState,
        failing_for: Duration,
    ) -> Result<Handled, JobFailure> {
        let client = &tried.client;
        if !self.configs.deactivate(tried, self.clock.now_ms()).await? {
            return Ok(done("its config was changed meanwhile"));
        }
        let reason = state.last_failure.as_deref().unwrap_or("failed");
        let seconds = failing_for.as_secs();
        log::warn!("client is disabled: no success for {seconds} s reason={reason} client={client}");
        let event = OperationalEvent::new(Happening::Disabled, self.clock.now_ms());
        self.events.record(event.of(client).because(reason).with("failing_seconds", seconds));
        // The cache logs its own failure, and reloads within a minute.
        let _ = self.config_cache.send(Refresh(client.clone())).await;
        Ok(done("disabled"))
    }

    /// Whether most clients fail: then it is rather this service, or its network, than each of their webhooks. Who has tried nothing for long
    /// says nothing about that.
    async fn it_is_us(&self) -> StoreResult<bool> {
        let table = self.table.snapshot();
        let now_ms = self.clock.now_ms();
        let served = |client: &ClientId| table.get(client).is_some_and(|client| client.is_served());
        let states = self.states.list().await?;
        let (failing, others): (Vec<_>, Vec<_>) = states
            .iter()
            .filter(|(client, _)| served(client))
            .map(|(_, state)| state)
            .partition(|state| fails(state));
        let living = others.iter().filter(|state| state.lives(now_ms, &self.pacing)).count();
        Ok(failing.len() >= MANY && failing.len() > living)
    }
}

/// How long the last try may take, when the config says how long its requests may.
pub(super) fn last_try(timeout: Option<Duration>) -> Duration {
    timeout.map_or(LAST_TRY, |timeout| LAST_TRY.min(timeout + Duration::from_secs(5)))
}

/// Whether a webhook fails, and not just a document.
fn fails(state: &ClientState) -> bool {
    state.phase == Phase::Degraded && state.failing_since_ms.is_some()
}

fn done(why: &str) -> Handled {
    Handled::Done(json!(why))
}
