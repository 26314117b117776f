//! What follows when a thread makes no progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use actix::Addr;

use crate::actors::dashboard::DASHBOARD_KIND;
use crate::actors::delivery_fleet::{ArbiterLost, DELIVERY_KIND, DeliveryFleetActor};
use crate::metrics::Metrics;
use crate::runtime::watchdog::Silent;
use crate::runtime::{Arbiters, Cell, Kit, Life, Shutdown, Watchdog};

/// Ends the process when what everything needs cannot go on: an outage that nobody notices is worse than a restart by the service manager.
/// 70 is `EX_SOFTWARE` of sysexits.h.
pub(super) const EXIT_BROKEN: i32 = 70;

/// With so many threads lost the process ends. Each of them may still hold a core and its memory.
const LOST_AT_MOST: u32 = 3;

/// Starts to look after all actors and threads. Of delivery a thread that is lost is replaced; without the others nothing goes on.
pub(super) fn start(
    kit: &Kit,
    pipeline: &Arc<Arbiters>,
    delivery: &Arc<Arbiters>,
    fleet: Addr<DeliveryFleetActor>,
    metrics: &Metrics,
) -> std::io::Result<Arbiters> {
    let lost_threads = metrics.lost_arbiters.clone();
    let lost = AtomicU32::new(0);
    let replace = move |silent: Silent<'_>| {
        complain(&silent);
        lost_threads.inc();
        let count = lost.fetch_add(1, Ordering::Relaxed) + 1;
        if count >= LOST_AT_MOST {
            end_process(&format!("{count} threads were lost"));
        }
        if let Err(err) = silent.arbiters.replace(silent.number) {
            end_process(&format!("no thread in place of the one that was lost: {err}"));
        }
        fleet.do_send(ArbiterLost);
    };
    let give_up = |silent: Silent<'_>| {
        complain(&silent);
        end_process("a thread that everything needs makes no progress");
    };
    let main = Arc::new(Arbiters::current("main"));
    Watchdog::new(kit.clone())
        .with(delivery.clone(), replace)
        .with(pipeline.clone(), give_up)
        .with(main, give_up)
        .start()
}

/// All actors but those of clients and the dashboard are needed: however one of them ends before the service stops, the process does. Who only
/// shows what others do must not end it.
pub(super) fn end_process_if_one_ends(kit: &Kit) {
    let is_needed = |cell: &Cell| ![DELIVERY_KIND, DASHBOARD_KIND].contains(&cell.kind());
    for cell in kit.registry().cells().into_iter().filter(is_needed) {
        end_process_if_it_ends(cell, kit.shutdown().clone());
    }
}

fn end_process_if_it_ends(cell: Cell, shutdown: Shutdown) {
    actix_rt::spawn(async move {
        let life = cell.ended().await;
        if !shutdown.has_begun() {
            let how = if life == Life::Failed { "was given up" } else { "has ended" };
            end_process(&format!("an actor that everything needs {how}: {}", cell.kind()));
        }
    });
}

fn complain(Silent { arbiters, number, culprit }: &Silent<'_>) {
    let describe = |cell: &Cell| {
        let message = cell.status().last_message.unwrap_or("-".into());
        format!("kind={} id={} last_message={message}", cell.kind(), cell.id())
    };
    let culprit = culprit.as_ref().map_or_else(|| "kind=- id=- last_message=-".to_owned(), describe);
    log::error!("a thread makes no progress, it is lost pool={} number={number} {culprit}", arbiters.name());
}

/// Ends the process at once: nothing that could be waited for is sure to end.
pub(super) fn end_process(why: &str) -> ! {
    log::error!("the process ends code={EXIT_BROKEN} why={why}");
    std::process::exit(EXIT_BROKEN);
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use actix::prelude::*;

    use super::*;
    use crate::runtime::{RestartPolicy, supervise};

    /// Set in the process that is to end.
    const CHILD: &str = "DISPATCHER_TEST_OF_THE_END";

    struct Broken;

    impl Actor for Broken {
        type Context = Context<Self>;

        fn started(&mut self, _: &mut Self::Context) {
            panic!("broken for good");
        }
    }

    impl actix::Supervised for Broken {}

    #[test]
    fn an_actor_that_everything_needs_and_that_is_given_up_ends_the_process() {
        const NAME: &str =
            "app::watch::tests::an_actor_that_everything_needs_and_that_is_given_up_ends_the_process";
        if std::env::var_os(CHILD).is_some() {
            return System::new().block_on(async {
                let policy = RestartPolicy { limit: 2, ..RestartPolicy::default() };
                let kit = Kit::new(Arc::new(|_| {}), policy);
                let seat = Arbiters::current("test").pick(0);
                let broken = supervise(&kit, &seat, "broken", "", |_| Broken);
                end_process_if_it_ends(broken.cell.clone(), kit.shutdown().clone());
                std::future::pending().await
            });
        }
        let mut child = Command::new(std::env::current_exe().unwrap());
        let ended = child.args(["--exact", NAME, "--nocapture"]).env(CHILD, "1").output().unwrap();
        assert_eq!(ended.status.code(), Some(70), "{}", String::from_utf8_lossy(&ended.stderr));
    }
}
