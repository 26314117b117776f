//! The table of schedules, and the store that follows it.

use std::time::Duration;

use dispatcher::domain::job::Cadence;
use dispatcher::workers::{Handled, JobContext, Schedule, ScheduleError, ScheduleTable};
use tokio::sync::mpsc;

use crate::services::{own_redis, redis, unique};
use crate::world::{FreedJob, World, ask, does, eventually, soon, tidy};

fn every(id: &'static str, seconds: u64) -> Schedule<FreedJob> {
    Schedule {
        id,
        cadence: Cadence::every(Duration::from_secs(seconds)).unwrap(),
        job: tidy(id).into(),
        lock_ttl: Duration::from_millis(seconds * 1000 - 1),
    }
}

fn world() -> World {
    World::new(redis(), &unique("schedules"))
}

#[tokio::test]
async fn a_mistake_in_the_table_is_named() {
    let world = world();
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

#[tokio::test]
async fn the_store_follows_the_table() {
    let world = world();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_store_has_its_schedules_again() {
    let redis = own_redis();
    let world = World::new(&redis, "emptied");
    let (tell, mut ticks) = mpsc::unbounded_channel();
    let _worker = world.start(does(move |job: FreedJob, context: JobContext| {
        let _ = tell.send((job, context.tick_ms));
        async { Ok(Handled::DONE) }
    }));
    let table = ScheduleTable::new(&world.queues, &[every("a", 1)], 0).unwrap();
    table.put().await.unwrap();
    let (job, tick) = soon(ticks.recv()).await.unwrap();
    assert_eq!(job, tidy("a").into());
    assert!(tick.is_some());
    assert_eq!(ask(&redis, "FLUSHALL"), "+OK\r\n");
    eventually(async || world.freed().schedules().await.unwrap().is_empty().then_some(())).await;
    while ticks.try_recv().is_ok() {}
    // What the table does every minute.
    table.put().await.unwrap();
    soon(ticks.recv()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_share_the_ticks_of_a_schedule() {
    let world = world();
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
