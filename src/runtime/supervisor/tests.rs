//! An actor that breaks wherever it is told to.

mod breaking;
mod ending;
mod frozen;
mod lost;
mod many;

use std::{
    num::NonZeroUsize,
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

use super::{Supervised, supervise, supervise_again};
use crate::runtime::{Arbiters, Cell, ExitReason, Kit, Life, Phase, RestartPolicy, Watchdog, lock};

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
    /// With a text that is put together.
    OnData,
    Started,
    Restarting,
    Spawned,
    Waited,
    Timer,
    StopsItself,
    Freezes,
    /// Waits for so long and then goes on.
    Holds(Duration),
}

impl Handler<Break> for Probe {
    type Result = ();

    fn handle(&mut self, place: Break, ctx: &mut Self::Context) {
        self.cell.handling("Break");
        match place {
            Break::Handler => panic!("broken handler"),
            Break::OnData => panic!("broken by {}", self.world.logged().len()),
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
            Break::Holds(time) => ctx.wait(tokio::time::sleep(time).into_actor(self)),
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
    let reached = |phase: &Phase| phase.life == Life::Running && phase.generation >= wanted;
    let mut watch = cell.watch();
    let phase = *watch.wait_for(|phase| reached(phase) || phase.life.is_over()).await.unwrap();
    assert!(reached(&phase), "{phase:?} instead of generation {wanted}");
}
