use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use actix::prelude::*;
use actix_rt::Arbiter;
use serde_json::json;
use tokio::time::{Instant, pause};

use super::{Supervised, supervise};
use crate::runtime::{Arbiters, Cell, Kit, Life, RestartPolicy, lock};

/// Restarts fast, and never gives up within a test that does not want it.
const EAGER: RestartPolicy = RestartPolicy {
    base: Duration::from_millis(100),
    cap: Duration::from_secs(30),
    limit: 2_000,
    window: Duration::from_secs(300),
    jitter: 0.0,
};

/// What the probe did, and what it shall break on: both outlive it.
#[derive(Default)]
struct World {
    log: Mutex<Vec<String>>,
    /// How many of the next calls of the hook panic.
    break_started: AtomicU32,
    break_restarting: AtomicU32,
    break_stopped: AtomicU32,
    starts: Mutex<Vec<Instant>>,
}

impl World {
    fn log(&self, what: impl Into<String>) {
        lock(&self.log).push(what.into());
    }

    fn logged(&self) -> Vec<String> {
        lock(&self.log).clone()
    }

    fn break_if(counter: &AtomicU32, hook: &str) {
        if counter.try_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            panic!("broken {hook}");
        }
    }
}

struct Probe {
    world: Arc<World>,
    cell: Cell,
}

impl Actor for Probe {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        lock(&self.world.starts).push(Instant::now());
        let held = Arc::clone(&self.world); // a future of the context that never ends, to find leaks
        ctx.spawn(
            async move {
                std::future::pending::<()>().await;
                drop(held);
            }
            .into_actor(self),
        );
        World::break_if(&self.world.break_started, "started");
    }

    fn stopping(&mut self, _: &mut Self::Context) -> Running {
        self.world.log("stopping");
        Running::Stop
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.world.log("stopped");
        World::break_if(&self.world.break_stopped, "stopped");
    }
}

impl actix::Supervised for Probe {
    fn restarting(&mut self, _: &mut Self::Context) {
        World::break_if(&self.world.break_restarting, "restarting");
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Note(u32);

impl Handler<Note> for Probe {
    type Result = ();

    fn handle(&mut self, note: Note, _: &mut Self::Context) {
        self.cell.handling("Note");
        self.world.log(note.0.to_string());
    }
}

/// Where to break.
#[derive(Message, Clone, Copy, Debug)]
#[rtype(result = "()")]
enum Break {
    Handler,
    Started,
    Restarting,
    Spawned,
    Waited,
    Timer,
    StopsItself,
    Freezes,
}

impl Handler<Break> for Probe {
    type Result = ();

    fn handle(&mut self, place: Break, ctx: &mut Self::Context) {
        self.cell.handling("Break");
        match place {
            Break::Handler => panic!("broken handler"),
            Break::Started => {
                self.world.break_started.store(1, SeqCst);
                panic!("broken handler");
            }
            Break::Restarting => {
                self.world.break_restarting.store(1, SeqCst);
                panic!("broken handler");
            }
            Break::Spawned => {
                ctx.spawn(async { panic!("broken future") }.into_actor(self));
            }
            Break::Waited => ctx.wait(async { panic!("broken wait") }.into_actor(self)),
            Break::Timer => {
                ctx.run_later(Duration::from_millis(1), |_, _| panic!("broken timer"));
            }
            Break::StopsItself => ctx.stop(),
            Break::Freezes => ctx.wait(std::future::pending::<()>().into_actor(self)),
        }
    }
}

#[derive(Message)]
#[rtype(result = "u32")]
struct Ask;

impl Handler<Ask> for Probe {
    type Result = ResponseActFuture<Self, u32>;

    fn handle(&mut self, _: Ask, _: &mut Self::Context) -> Self::Result {
        if self.cell.generation() == 0 {
            return Box::pin(async { panic!("broken answer") }.into_actor(self));
        }
        Box::pin(async { 7 }.into_actor(self))
    }
}

fn kit(policy: RestartPolicy) -> Kit {
    Kit::new(Arc::new(|_| {}), policy)
}

fn start(kit: &Kit, id: &str) -> (Supervised<Probe>, Arc<World>) {
    let world = Arc::new(World::default());
    let probe = start_in(kit, id, &world);
    (probe, world)
}

fn start_in(kit: &Kit, id: &str, world: &Arc<World>) -> Supervised<Probe> {
    let world = Arc::clone(world);
    supervise(kit, &Arbiter::current(), "probe", id, move |cell| Probe { world, cell })
}

/// Waits until the actor runs in this generation or a later one.
async fn generation(cell: &Cell, wanted: u64) {
    let mut phase = cell.watch();
    phase.wait_for(|phase| phase.life == Life::Running && phase.generation >= wanted).await.unwrap();
}

async fn breaks(place: Break, restarts: u64, message: &str) {
    pause();
    let (Supervised { addr, cell }, world) = start(&kit(EAGER), "one");
    addr.send(Note(1)).await.unwrap();
    addr.do_send(place);
    addr.do_send(Note(2));
    addr.do_send(Note(3));
    generation(&cell, restarts).await;
    addr.send(Note(4)).await.unwrap();

    let notes: Vec<_> =
        world.logged().into_iter().filter(|line| line != "stopping" && line != "stopped").collect();
    assert_eq!(notes, ["1", "2", "3", "4"], "{place:?}");
    let status = cell.status();
    assert_eq!((status.state, status.restarts), (Life::Running, restarts), "{place:?}");
    assert_eq!(status.last_cause.unwrap().message, message, "{place:?}");
}

#[actix_rt::test]
async fn a_panic_in_a_handler_loses_only_its_message() {
    breaks(Break::Handler, 1, "broken handler").await;
}

#[actix_rt::test]
async fn a_panic_in_started_is_a_failure_like_any_other() {
    breaks(Break::Started, 2, "broken started").await;
}

#[actix_rt::test]
async fn a_panic_in_restarting_is_a_failure_like_any_other() {
    breaks(Break::Restarting, 2, "broken restarting").await;
}

#[actix_rt::test]
async fn a_panic_in_a_future_of_the_context_restarts() {
    breaks(Break::Spawned, 1, "broken future").await;
}

#[actix_rt::test]
async fn a_panic_in_what_the_context_waits_for_restarts() {
    breaks(Break::Waited, 1, "broken wait").await;
}

#[actix_rt::test]
async fn a_panic_in_a_timer_restarts() {
    breaks(Break::Timer, 1, "broken timer").await;
}

#[actix_rt::test]
async fn a_context_that_stops_unasked_restarts() {
    breaks(Break::StopsItself, 1, "its context stopped").await;
}

#[actix_rt::test]
async fn a_panic_in_an_answer_restarts_and_the_asker_is_told() {
    pause();
    let (Supervised { addr, cell }, _) = start(&kit(EAGER), "one");
    assert_eq!(addr.send(Ask).await, Err(MailboxError::Closed));
    generation(&cell, 1).await;
    assert_eq!(addr.send(Ask).await, Ok(7));
}

#[actix_rt::test]
async fn the_cause_says_where_and_on_what() {
    pause();
    let (Supervised { addr, cell }, _) = start(&kit(EAGER), "one");
    addr.do_send(Break::Handler);
    generation(&cell, 1).await;
    let status = serde_json::to_value(cell.status()).unwrap();
    assert_eq!(status["state"], "running");
    assert_eq!(status["last_message"], "Break");
    let place = status["last_cause"]["place"].as_str().unwrap();
    assert!(place.starts_with(file!()), "{place}");
}

#[actix_rt::test]
async fn a_panic_runs_no_last_hooks_and_a_stop_runs_them_once() {
    pause();
    let (Supervised { addr, cell }, world) = start(&kit(EAGER), "one");
    addr.do_send(Break::Handler);
    generation(&cell, 1).await;
    addr.send(Note(1)).await.unwrap();
    assert_eq!(world.logged(), ["1"]);
    cell.stop();
    assert_eq!(cell.ended().await, Life::Stopped);
    assert_eq!(world.logged(), ["1", "stopping", "stopped"]);
    assert_eq!(Arc::strong_count(&world), 1, "the actor is not dropped");
    assert!(!addr.connected());
    assert!(addr.send(Note(2)).await.is_err());
}

#[actix_rt::test]
async fn a_panic_in_a_last_hook_is_noted_and_ends_like_any_other() {
    let (Supervised { addr, cell }, world) = start(&kit(EAGER), "one");
    addr.send(Note(1)).await.unwrap();
    world.break_stopped.store(1, SeqCst);
    cell.stop();
    assert_eq!(cell.ended().await, Life::Stopped);
    assert_eq!(cell.status().last_cause.unwrap().message, "broken stopped");
    assert_eq!(Arc::strong_count(&world), 1, "the actor is not dropped");
}

#[actix_rt::test]
async fn waits_double_and_after_the_limit_the_actor_has_failed() {
    pause();
    let kit = kit(RestartPolicy { limit: 4, ..EAGER });
    let world = Arc::new(World { break_started: AtomicU32::new(u32::MAX), ..World::default() });
    let Supervised { addr, cell } = start_in(&kit, "one", &world);
    addr.do_send(Note(1));
    assert_eq!(cell.ended().await, Life::Failed);

    let starts = lock(&world.starts).clone();
    let waits: Vec<_> = starts.windows(2).map(|pair| (pair[1] - pair[0]).as_millis() / 100 * 100).collect();
    assert_eq!(waits, [100, 200, 400, 800]);
    assert!(!addr.connected());
    assert!(world.logged().is_empty(), "a broken actor did something: {:?}", world.logged());
    assert_eq!(Arc::strong_count(&world), 1, "the actor is not dropped");

    // It stays to be seen, with its cause, until it is forgotten.
    let status = kit.registry().get("probe", "one").unwrap().status();
    assert_eq!((status.state, status.restarts), (Life::Failed, 4));
    assert_eq!(status.last_cause.unwrap().message, "broken started");
    cell.restart("too late");
    assert!(!cell.is_alive());
    assert!(kit.registry().forget("probe", "one"));
    assert!(kit.registry().list().is_empty());
    assert_eq!(kit.registry().restart_totals()["probe"], 4);
}

#[actix_rt::test]
async fn an_actor_that_recovers_starts_from_the_shortest_wait_again() {
    pause();
    let policy = RestartPolicy { limit: 2, window: Duration::from_secs(10), ..EAGER };
    let (Supervised { addr, cell }, _) = start(&kit(policy), "one");
    for restart in 1..=6 {
        addr.do_send(Break::Handler);
        generation(&cell, restart).await;
        tokio::time::advance(policy.window + Duration::from_millis(1)).await;
    }
    assert_eq!(cell.status().state, Life::Running);
}

#[actix_rt::test]
async fn messages_that_come_during_the_wait_are_kept() {
    pause();
    let (Supervised { addr, cell }, world) = start(&kit(EAGER), "one");
    addr.do_send(Break::Handler);
    cell.watch().wait_for(|phase| phase.life == Life::Restarting).await.unwrap();
    addr.do_send(Note(1));
    addr.do_send(Note(2));
    assert!(addr.connected() && cell.is_alive());
    addr.send(Note(3)).await.unwrap();
    assert_eq!(world.logged(), ["1", "2", "3"]);
}

#[actix_rt::test]
async fn a_stop_during_the_wait_ends_it_at_once_and_runs_no_hooks() {
    pause();
    let (Supervised { addr, cell }, world) = start(&kit(EAGER), "one");
    addr.do_send(Break::Handler);
    cell.watch().wait_for(|phase| phase.life == Life::Restarting).await.unwrap();
    let asked = Instant::now();
    cell.stop();
    assert_eq!(cell.ended().await, Life::Stopped);
    assert_eq!(asked.elapsed(), Duration::ZERO);
    assert!(world.logged().is_empty(), "a broken actor did something: {:?}", world.logged());
}

#[actix_rt::test]
async fn a_stop_before_the_start_starts_nothing() {
    let (Supervised { cell, .. }, world) = start(&kit(EAGER), "one");
    cell.stop();
    assert_eq!(cell.ended().await, Life::Stopped);
    assert!(lock(&world.starts).is_empty() && world.logged().is_empty());
}

#[actix_rt::test]
async fn a_frozen_actor_is_restarted_from_outside() {
    pause();
    let (Supervised { addr, cell }, world) = start(&kit(RestartPolicy { limit: 0, ..EAGER }), "one");
    addr.do_send(Break::Freezes);
    addr.do_send(Note(1));
    assert!(addr.send(Note(2)).timeout(Duration::from_secs(3_600)).await.is_err());
    assert!(world.logged().is_empty());
    assert!(cell.status().progress_seconds_ago >= 3_600);

    cell.restart("asked by a test"); // and it is no failure: the limit is 0
    generation(&cell, 1).await;
    addr.send(Note(3)).await.unwrap();
    assert_eq!(world.logged(), ["1", "3"]);
    let cause = cell.status().last_cause.unwrap();
    assert_eq!(cause.message, "asked by a test");
    assert!(cause.place.starts_with(file!()), "{}", cause.place);
}

#[actix_rt::test]
async fn a_restart_from_outside_cuts_the_wait_short() {
    pause();
    let policy = RestartPolicy { base: Duration::from_secs(30), ..EAGER };
    let (Supervised { addr, cell }, _) = start(&kit(policy), "one");
    addr.do_send(Break::Handler);
    cell.watch().wait_for(|phase| phase.life == Life::Restarting).await.unwrap();
    let asked = Instant::now();
    cell.restart("now");
    generation(&cell, 1).await;
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[actix_rt::test]
async fn what_was_published_outlives_the_actor() {
    pause();
    let (Supervised { addr, cell }, _) = start(&kit(EAGER), "one");
    cell.publish(json!({"queued": 3}));
    addr.do_send(Break::Handler);
    generation(&cell, 1).await;
    assert_eq!(*cell.status().published.unwrap(), json!({"queued": 3}));
    cell.publish(json!({"queued": 4}));
    cell.stop();
    cell.ended().await;
    assert_eq!(*cell.status().published.unwrap(), json!({"queued": 4}));
}

#[actix_rt::test]
async fn a_thousand_panics_leave_nothing_behind() {
    pause();
    let restarts = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&restarts);
    let policy = RestartPolicy { base: Duration::ZERO, ..EAGER };
    let kit = Kit::new(Arc::new(move |_| _ = counter.fetch_add(1, SeqCst)), policy);
    let (Supervised { addr, cell }, world) = start(&kit, "one");
    for number in 0..1_000 {
        addr.do_send(Break::Handler);
        addr.do_send(Note(number));
    }
    generation(&cell, 1_000).await;
    addr.send(Note(1_000)).await.unwrap();
    assert_eq!(world.logged(), (0..=1_000).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(restarts.load(SeqCst), 1_000);
    // The test, the actor, and the one future of its present life.
    assert_eq!(Arc::strong_count(&world), 3);
}

#[actix_rt::test]
async fn an_actor_that_cannot_be_made_has_failed() {
    let kit = kit(EAGER);
    let Supervised { addr, cell } =
        supervise::<Probe, _>(&kit, &Arbiter::current(), "probe", "one", |_| panic!("broken make"));
    assert_eq!(cell.ended().await, Life::Failed);
    assert_eq!(cell.status().last_cause.unwrap().message, "broken make");
    assert!(!addr.connected());
}

#[actix_rt::test]
async fn a_broken_restart_hook_fails_the_actor_and_nothing_else() {
    pause();
    let policy = RestartPolicy { limit: 2, ..EAGER };
    let kit = Kit::new(Arc::new(|_| panic!("broken hook")), policy);
    let (Supervised { addr, cell }, _) = start(&kit, "one");
    addr.do_send(Break::Handler);
    assert_eq!(cell.ended().await, Life::Failed);
    assert_eq!(cell.status().last_cause.unwrap().message, "broken hook");
}

#[actix_rt::test]
async fn an_arbiter_takes_its_actors_along_and_takes_no_new_ones() {
    let kit = kit(EAGER);
    let pool = Arbiters::start("test", std::num::NonZeroUsize::MIN).unwrap();
    let world = Arc::new(World::default());
    let (arbiter, inside) = (pool.pick(0), Arc::clone(&world));
    let before = supervise(&kit, &arbiter, "probe", "before", move |cell| Probe { world: inside, cell });
    before.addr.send(Note(1)).await.unwrap();
    assert_eq!(pool.stop_and_join(Duration::from_secs(10)).await, 0);
    assert_eq!(before.cell.ended().await, Life::Stopped);
    assert_eq!(world.logged(), ["1", "stopping", "stopped"]);

    let inside = Arc::clone(&world);
    let after = supervise(&kit, &arbiter, "probe", "after", move |cell| Probe { world: inside, cell });
    assert_eq!(after.cell.ended().await, Life::Stopped);
    assert!(!after.addr.connected());
}

#[actix_rt::test]
async fn an_actor_that_nobody_can_reach_ends() {
    let (Supervised { addr, cell }, world) = start(&kit(EAGER), "one");
    addr.send(Note(1)).await.unwrap();
    addr.do_send(Break::Handler);
    drop(addr);
    assert_eq!(cell.ended().await, Life::Stopped);
    assert_eq!(world.logged(), ["1"]);

    // One that stops by itself then did not break.
    let (Supervised { addr, cell }, _) = start(&kit(EAGER), "two");
    addr.do_send(Break::StopsItself);
    drop(addr);
    assert_eq!(cell.ended().await, Life::Stopped);
    assert_eq!((cell.status().restarts, cell.status().last_cause), (0, None));
}

#[actix_rt::test]
async fn a_living_actor_is_not_forgotten_and_a_new_one_takes_its_name() {
    let kit = kit(EAGER);
    let (first, _) = start(&kit, "one");
    assert!(!kit.registry().forget("probe", "one"));
    assert!(!kit.registry().forget("probe", "other") && !kit.registry().forget("other", "one"));
    first.cell.stop();
    let (second, _) = start(&kit, "one");
    first.cell.ended().await;
    assert!(!kit.registry().forget("probe", "one"), "forgot the second for the first");
    second.cell.publish(json!("second"));
    let shown = kit.registry().get("probe", "one").unwrap().status();
    assert_eq!((shown.state, shown.published), (Life::Running, Some(Arc::new(json!("second")))));
}

#[actix_rt::test]
async fn a_thousand_actors_are_apart() {
    pause();
    let kit = kit(EAGER);
    let actors: Vec<_> = (0..1_000).map(|number| start(&kit, &format!("{number:04}"))).collect();
    for (number, (actor, _)) in actors.iter().enumerate() {
        actor.addr.do_send(Note(1));
        if number % 10 == 0 {
            actor.addr.do_send(Break::Handler);
        }
        actor.addr.do_send(Note(2));
    }
    for (number, (actor, world)) in actors.iter().enumerate() {
        generation(&actor.cell, u64::from(number % 10 == 0)).await;
        actor.addr.send(Note(3)).await.unwrap();
        assert_eq!(world.logged(), ["1", "2", "3"]);
    }
    let list = kit.registry().list();
    assert_eq!(list.len(), 1_000);
    assert!(list.is_sorted_by_key(|status| status.id.clone()));
    assert_eq!(list.iter().map(|status| status.restarts).sum::<u64>(), 100);
    assert_eq!(kit.registry().restart_totals()["probe"], 100);
}
