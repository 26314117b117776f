//! The table of schedules, and the store that follows it.

use std::time::Duration;

use dispatcher::domain::job::Cadence;
use dispatcher::workers::{Handled, JobContext, Schedule, ScheduleError, ScheduleTable};
use tokio::sync::mpsc;

use crate::world::{FreedJob, World, does, eventually, soon, tidy};

pub(crate) fn every(id: &'static str, seconds: u64) -> Schedule<FreedJob> {
    Schedule {
        id,
        cadence: Cadence::every(Duration::from_secs(seconds)).unwrap(),
        job: tidy(id).into(),
        lock_ttl: Duration::from_millis(seconds * 1000 - 1),
    }
}

pub(crate) async fn a_mistake_in_the_table_is_named(world: World) {
    let fault = |table: &[Schedule<FreedJob>]| ScheduleTable::new(&world.queues, table, 0).err();
    let second = Duration::from_secs(1);
    for ttl in [Duration::ZERO, second, second * 2] {
        let wrong = Schedule { lock_ttl: ttl, ..every("a", 1) };
        assert!(matches!(fault(&[wrong]), Some(ScheduleError::LockTtl { id: "a", .. })), "{ttl:?}");
    }
    let cron = Cadence::cron("0,1 * * * *", "UTC").unwrap();
    let wrong = Schedule { cadence: cron, lock_ttl: second * 60, ..every("a", 1) };
    assert!(matches!(fault(&[wrong]), Some(ScheduleError::LockTtl { id: "a", .. })));
    assert!(matches!(fault(&[every("a", 1), every("a", 2)]), Some(ScheduleError::Id("a"))));
    assert!(matches!(fault(&[every("a:b", 1)]), Some(ScheduleError::Id("a:b"))));
    assert!(fault(&[every("a", 1), every("b", 1)]).is_none());
}

pub(crate) async fn the_store_follows_the_table(world: World) {
    let ids = async || {
        let schedules = world.freed().schedules().await.unwrap();
        let mut ids: Vec<String> = schedules.into_iter().map(|schedule| schedule.id).collect();
        ids.sort();
        ids
    };
    let old = ScheduleTable::new(&world.queues, &[every("a", 60), every("b", 60)], 0).unwrap();
    old.put().await.unwrap();
    assert_eq!(ids().await, ["a", "b"]);
    let new = ScheduleTable::new(&world.queues, &[every("b", 60), every("c", 60)], 0).unwrap();
    let _kept = new.keep();
    eventually(async || (ids().await == ["b", "c"]).then_some(())).await;
}

pub(crate) async fn two_workers_share_the_ticks_of_a_schedule(world: World) {
    let (tell, mut ticks) = mpsc::unbounded_channel();
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let tell = tell.clone();
            world.start(does(move |_: FreedJob, context: JobContext| {
                let _ = tell.send(context.tick_ms.unwrap());
                async { Ok(Handled::DONE) }
            }))
        })
        .collect();
    let table = ScheduleTable::new(&world.queues, &[every("a", 1)], 0).unwrap();
    table.put().await.unwrap();
    let mut before = 0;
    for _ in 0..4 {
        let tick = soon(ticks.recv()).await.unwrap();
        assert!(tick > before, "tick {tick} after {before}");
        before = tick;
        table.put().await.unwrap();
    }
    drop(workers);
}
