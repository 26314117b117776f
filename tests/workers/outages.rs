//! Redis goes away and comes back, in every way.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use dispatcher::workers::{Handled, JobContext, ScheduleTable};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::redis_world::ask;
use crate::schedules::every;
use crate::services::{Service, own_redis, redis, unique};
use crate::world::{FreedJob, KeptJob, World, does, eventually, soon, tidy, work};

/// A Redis of its own, a worker at work, and what it has done.
struct Scene {
    redis: Service,
    world: World,
    done: mpsc::UnboundedReceiver<String>,
    /// What was done while something else was waited for.
    seen: Vec<String>,
    _worker: Box<dyn dispatcher::ports::job_queue::RunningWorker>,
}

impl Scene {
    async fn new() -> Self {
        let redis = own_redis();
        let world = World::new(&redis, "outages");
        let (tell, done) = mpsc::unbounded_channel();
        let worker = world.start(does(move |_: FreedJob, context: JobContext| {
            let _ = tell.send(context.id);
            async { Ok(Handled::DONE) }
        }));
        let mut scene = Self { redis, world, done, seen: Vec::new(), _worker: worker };
        scene.add("first").await;
        assert_eq!(scene.next().await, "tidy-first");
        scene
    }

    async fn add(&self, room: &str) {
        self.world.producer().add::<FreedJob>(tidy(room)).await.unwrap();
    }

    async fn next(&mut self) -> String {
        soon(self.done.recv()).await.unwrap()
    }

    /// From now on to a job that was added and done.
    async fn is_back(&mut self, room: &str) -> Duration {
        let since = Instant::now();
        self.add(room).await;
        loop {
            let done = self.next().await;
            if done == format!("tidy-{room}") {
                return since.elapsed();
            }
            self.seen.push(done);
        }
    }
}

const BACK: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_was_killed_is_used_again_within_two_seconds() {
    let mut scene = Scene::new().await;
    for (turn, outage) in [300, 8000].into_iter().enumerate() {
        scene.redis.kill();
        sleep(Duration::from_millis(outage)).await;
        scene.redis.start_again();
        let back = scene.is_back(&format!("turn{turn}")).await;
        assert!(back <= BACK, "after {outage} ms away it took {back:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_refused_to_write_is_used_again_within_two_seconds() {
    let mut scene = Scene::new().await;
    ask(&scene.redis, "REPLICAOF 127.0.0.1 1");
    assert!(scene.world.producer().add::<FreedJob>(tidy("refused")).await.is_err());
    sleep(Duration::from_secs(3)).await;
    ask(&scene.redis, "REPLICAOF NO ONE");
    let back = scene.is_back("after").await;
    assert!(back <= BACK, "{back:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_stood_still_is_used_again_within_two_seconds() {
    let mut scene = Scene::new().await;
    scene.redis.freeze();
    assert!(scene.world.producer().add::<FreedJob>(tidy("frozen")).await.is_err());
    scene.redis.thaw();
    let back = scene.is_back("after").await;
    assert!(back <= BACK, "{back:?}");
}

/// Away in each way, and back.
async fn goes_and_comes(redis: &Service) {
    const AWAY: Duration = Duration::from_millis(400);
    redis.kill();
    redis.start_again();
    sleep(AWAY).await;
    redis.kill();
    sleep(AWAY).await;
    redis.start_again();
    for (refuses, takes) in [
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
    ] {
        sleep(AWAY).await;
        assert_eq!(ask(redis, refuses), "+OK\r\n");
        sleep(AWAY).await;
        assert_eq!(ask(redis, takes), "+OK\r\n");
    }
    sleep(AWAY).await;
    redis.freeze();
    sleep(AWAY).await;
    redis.thaw();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_job_is_lost_while_redis_is_killed_refuses_to_write_and_stands_still() {
    let mut scene = Scene::new().await;
    let (stop, producer) = (Arc::new(AtomicBool::new(false)), scene.world.producer());
    let stopped = stop.clone();
    let adding = tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        for n in 0.. {
            if stopped.load(Ordering::Relaxed) {
                break;
            }
            if let Ok(id) = producer.add::<FreedJob>(tidy(&format!("n{n}"))).await {
                acknowledged.push(id.as_str().to_owned());
            }
            sleep(Duration::from_millis(5)).await;
        }
        acknowledged
    });
    goes_and_comes(&scene.redis).await;
    let back = scene.is_back("back").await;
    assert!(back <= BACK, "{back:?}");
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged = adding.await.unwrap();
    println!("{} jobs were acknowledged", acknowledged.len());
    assert!(acknowledged.len() > 20, "{}", acknowledged.len());
    let mut done: HashSet<String> = scene.seen.drain(..).collect();
    acknowledged.retain(|id| !done.contains(id));
    while !acknowledged.is_empty() {
        done.insert(scene.next().await);
        acknowledged.retain(|id| !done.contains(id));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_is_dropped_when_its_lock_is_lost_and_its_job_done_again() {
    let mut scene = Scene::new().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let _worker = scene.world.start(does(move |_: KeptJob, _| {
        let tell = tell.clone();
        async move {
            struct Dropped(mpsc::UnboundedSender<&'static str>);
            impl Drop for Dropped {
                fn drop(&mut self) {
                    let _ = self.0.send("dropped");
                }
            }
            let _ = tell.send("began");
            let _dropped = Dropped(tell);
            std::future::pending::<()>().await;
            Ok(Handled::DONE)
        }
    }));
    scene.world.producer().add::<KeptJob>(work("c")).await.unwrap();
    assert_eq!(soon(told.recv()).await, Some("began"));
    scene.redis.freeze();
    assert_eq!(soon(told.recv()).await, Some("dropped"));
    scene.redis.thaw();
    assert_eq!(soon(told.recv()).await, Some("began"));
    assert!(scene.is_back("after").await < Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_starts_without_redis_waits_for_it() {
    let redis = own_redis();
    redis.kill();
    let world = World::new(&redis, "late");
    let (tell, mut done) = mpsc::unbounded_channel();
    let worker = world.start(does(move |_: FreedJob, context: JobContext| {
        let _ = tell.send(context.id);
        async { Ok(Handled::DONE) }
    }));
    assert!(world.producer().add::<FreedJob>(tidy("t")).await.is_err());
    redis.start_again();
    world.producer().add::<FreedJob>(tidy("t")).await.unwrap();
    assert_eq!(soon(done.recv()).await.unwrap(), "tidy-t");
    redis.kill();
    tokio::time::timeout(Duration::from_secs(10), worker.stop(Duration::from_secs(1))).await.unwrap();
}

/// A way to Redis on which connections can go silent: they stay open, and nothing passes any more. New ones work.
struct Way {
    port: u16,
    /// Connections that were opened before the last silence are of an earlier one.
    silences: Arc<AtomicU32>,
}

impl Way {
    async fn to(redis: &Service) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let way = Self { port: listener.local_addr().unwrap().port(), silences: Arc::default() };
        let (target, silences) = (redis.port(), way.silences.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, target, silences.clone()));
            }
        });
        way
    }

    fn fall_silent(&self) {
        self.silences.fetch_add(1, Ordering::Relaxed);
    }
}

async fn carry(mut client: TcpStream, target: u16, silences: Arc<AtomicU32>) {
    let born = silences.load(Ordering::Relaxed);
    let mut server = TcpStream::connect(("127.0.0.1", target)).await.unwrap();
    let silent = async {
        while silences.load(Ordering::Relaxed) == born {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let ended = tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => true,
        () = silent => false,
    };
    if !ended {
        std::future::pending::<()>().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_went_silent_are_replaced() {
    let way = Way::to(redis()).await;
    let world = World::at(&format!("redis://127.0.0.1:{}", way.port), &unique("silent"));
    let (tell, mut done) = mpsc::unbounded_channel();
    let _worker = world.start(does(move |_: FreedJob, context: JobContext| {
        let _ = tell.send(context.id);
        async { Ok(Handled::DONE) }
    }));
    world.producer().add::<FreedJob>(tidy("before")).await.unwrap();
    soon(done.recv()).await.unwrap();
    let later = dispatcher::workers::When { delay: Duration::from_millis(500), priority: 0 };
    world.producer().add_when::<FreedJob>(tidy("after"), later).await.unwrap();
    way.fall_silent();
    let since = Instant::now();
    assert_eq!(soon(done.recv()).await.unwrap(), "tidy-after");
    assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
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
