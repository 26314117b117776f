//! The workers of the queues, as far as the roles of this process go.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::own_runtime::OwnRuntime;
use crate::actors::config_cache::ConfigTable;
use crate::actors::retry::RetryActor;
use crate::domain::job::QueueSpec;
use crate::metrics::Metrics;
use crate::ports::clock::Clock;
use crate::ports::decisions::Decisions;
use crate::ports::job_queue::RunningWorker;
use crate::settings::{Role, Settings};
use crate::workers::heavy::{HeavyDesk, HeavyWorker, KeptHeavyJobs};
use crate::workers::queues::Queue;
use crate::workers::schedules::KeptSchedules;
use crate::workers::upkeep::{self, Upkeep};
use crate::workers::{KeptPauses, OpenQueues, QueuePauses, QueueSet, ScheduleTable, WorkerKit};

/// What workers are made of.
pub(super) struct Parts<'a> {
    pub(super) settings: &'a Settings,
    pub(super) queues: &'a OpenQueues<Queue>,
    pub(super) retry: RetryActor,
    /// What operators decided.
    pub(super) decisions: Arc<dyn Decisions>,
    /// Knows whose jobs are not done.
    pub(super) guard: ConfigTable,
    pub(super) upkeep: Upkeep,
    /// Who does heavy jobs, and who puts them back.
    pub(super) heavy: (HeavyWorker, HeavyDesk),
    pub(super) metrics: &'a Metrics,
    pub(super) clock: &'a dyn Clock,
}

/// The running workers, on a runtime of their own: a handler that never yields holds up other handlers only.
pub(super) struct Workers {
    running: Vec<Box<dyn RunningWorker>>,
    schedules: Option<KeptSchedules>,
    pauses: KeptPauses,
    heavy: Option<KeptHeavyJobs>,
    runtime: OwnRuntime,
}

impl Workers {
    /// Starts them. Waits for no store.
    pub(super) fn start(parts: Parts<'_>) -> anyhow::Result<Self> {
        let Parts { settings, queues, retry, decisions, guard, upkeep, heavy, metrics, clock } = parts;
        let runtime = OwnRuntime::start("workers", 2)?;
        let handle = runtime.handle();
        let _entered = handle.enter();
        let guard = Arc::new(guard);
        let kit = WorkerKit { metrics: metrics.clone(), blocked: guard.clone(), paused: guard };
        let (heavy, desk) = heavy;
        let (retry, upkeep, heavy) = (Arc::new(retry), Arc::new(upkeep), Arc::new(heavy));
        let is_ours = |queue: &&Queue| settings.roles.has(Role::of(queue.spec().workload));
        let running = Queue::ALL.iter().filter(is_ours).map(|queue| match queue {
            Queue::Dispatcher => kit.start(queues, retry.clone(), concurrency(settings, queue.spec())),
            Queue::Schedule => kit.start(queues, upkeep.clone(), concurrency(settings, queue.spec())),
            Queue::Heavy => kit.start(queues, heavy.clone(), concurrency(settings, queue.spec())),
        });
        let running = running.collect();
        let schedules = if settings.roles.has(Role::Schedule) {
            Some(ScheduleTable::new(queues, &upkeep::schedules()?, clock.now_ms())?.keep())
        } else {
            None
        };
        let pauses = QueuePauses::new(decisions, queues.iter().cloned().collect()).keep();
        let heavy = settings.roles.has(Role::Heavy).then(|| desk.keep());
        Ok(Self { running, schedules, pauses, heavy, runtime })
    }

    /// No more jobs are taken; those at hand have `grace` to end.
    pub(super) async fn stop(self, grace: Duration) {
        drop((self.schedules, self.pauses, self.heavy));
        join_all(self.running.iter().map(|worker| worker.stop(grace))).await;
        drop(self.runtime);
    }
}

fn concurrency(settings: &Settings, spec: &QueueSpec) -> Option<u32> {
    settings.workers.get(spec.name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Sources;

    #[test]
    fn every_queue_has_its_key_and_variable() {
        let settings = Settings::load(&Sources::default()).unwrap();
        let mut specs: Vec<_> =
            Queue::SPECS.iter().map(|spec| (spec.name.to_owned(), spec.concurrency)).collect();
        specs.sort_unstable();
        let keys: Vec<_> = settings.workers.clone().into_iter().collect();
        assert_eq!(keys, specs, "config/default.toml, [workers]: every queue with its default");
        for spec in Queue::SPECS {
            let environment = [(spec.concurrency_setting.to_owned(), "7".to_owned())].into();
            let set = Settings::load(&Sources { environment, ..Sources::default() }).unwrap();
            let variable = spec.concurrency_setting;
            assert_eq!(concurrency(&set, spec), Some(7), "settings/environment.rs: {variable}");
        }
    }

    #[test]
    fn the_table_of_schedules_has_no_mistake() {
        let table = upkeep::schedules().unwrap();
        for line in &table {
            assert!(line.lock_ttl < line.cadence.shortest_gap(0), "{}", line.id);
        }
    }
}
