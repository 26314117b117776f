//! Several replicas in one thread: each has an actix system with a paused clock of its own, and so have the servers (stores, broker
//! and receivers). They take turns, a few milliseconds each, so that all clocks go together. A replica that stands still gets no
//! turn: none of its code runs, and when it goes on its clock jumps, as after a SIGSTOP. One that crashes is dropped.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actix::System;
use actix_rt::SystemRunner;
use dispatcher::domain::config::ClientId;
use dispatcher::ports::client_configs::ConfigNotice;
use dispatcher::ports::clock::Clock;
use fastrand::Rng;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::memory::configs::Notices;
use crate::memory::member::{Link, MemberLog};
use crate::time::ReplicaClock;
use crate::world::{Life, Ports, World};

/// How long a replica may take to stop in order.
const STOP_LIMIT: Duration = Duration::from_secs(25);

pub(crate) struct Cluster<'w> {
    pub(crate) world: &'w World,
    servers: Turns,
    pub(crate) replicas: Vec<Replica<'w>>,
    /// How long a turn is.
    turn: Duration,
    rng: Rng,
    started: u32,
}

/// A system with a clock of its own.
struct Turns {
    system: SystemRunner,
    began: Instant,
    /// How far its clock has gone.
    passed: Duration,
}

impl Turns {
    fn new() -> Self {
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_time().start_paused(true).build().unwrap()
        };
        let system = System::with_tokio_rt(runtime);
        let began = system.block_on(async { Instant::now() });
        Self { system, began, passed: Duration::ZERO }
    }

    /// Runs for so long.
    fn run(&mut self, time: Duration) {
        self.passed += time;
        let until = self.began + self.passed;
        self.system.block_on(async move { tokio::time::sleep_until(until).await });
    }

    /// Stood still for so long: what was due meanwhile is due now.
    fn jump(&mut self, time: Duration) {
        self.passed += time;
        self.system.block_on(tokio::time::advance(time));
    }
}

pub(crate) struct Replica<'w> {
    /// Names it in the story.
    pub(crate) number: u32,
    life: Life<'w>,
    link: Arc<Link>,
    notices: Arc<Notices>,
    block_list: Arc<Notify>,
    /// It stands still, for so long by now.
    stands: Option<Duration>,
    /// When its stop in order is done; and how long that takes by now.
    stopping: Option<(Rc<Cell<bool>>, Duration)>,
    turns: Turns,
}

impl Replica<'_> {
    pub(crate) fn stands(&self) -> bool {
        self.stands.is_some()
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.link.cut.load(Ordering::Relaxed)
    }

    /// Whether it does what it is there for.
    pub(crate) fn is_well(&self) -> bool {
        !self.stands() && !self.is_cut() && self.stopping.is_none()
    }

    pub(crate) fn life(&self) -> &Life<'_> {
        &self.life
    }
}

impl<'w> Cluster<'w> {
    /// No replica yet. All take turns of this length.
    pub(crate) fn new(world: &'w World, turn: Duration, seed: u64) -> Self {
        let servers = Turns::new();
        let handle = servers.system.block_on(async { Handle::current() });
        world.stash.runs_on(handle.clone());
        world.states.runs_on(handle.clone());
        world.configs.runs_on(handle.clone());
        world.decisions.runs_on(handle.clone());
        world.jobs.runs_on(handle.clone());
        world.locks.runs_on(handle.clone());
        world.log.medium.runs_on(handle);
        Self { world, servers, replicas: Vec::new(), turn, rng: Rng::with_seed(seed), started: 0 }
    }

    /// Starts a replica, and waits until it has read the configs.
    pub(crate) fn start(&mut self) -> usize {
        self.started += 1;
        let number = self.started;
        let turns = Turns::new();
        let (world, link, notices) = (self.world, Arc::new(Link::default()), Arc::new(Notices::default()));
        let server = self.servers.system.block_on(async { Handle::current() });
        let block_list = Arc::new(Notify::new());
        let (told, told_block_list, own_link) = (notices.clone(), block_list.clone(), link.clone());
        let begin = async move {
            let clock: Arc<dyn Clock> = Arc::new(ReplicaClock::new(world.clock.clone()));
            let may_send = own_link.watch(world.log.clone(), clock.clone());
            let log = MemberLog {
                log: world.log.clone(),
                link: own_link,
                clock: clock.clone(),
                sim: world.clock.clone(),
                asks_permission: world.choices.asks_permission,
            };
            let senders = world.receiver.new_life().watched(server, may_send);
            let ports = Ports {
                log: Arc::new(log),
                senders: Arc::new(senders),
                clock,
                notices: told,
                block_list: told_block_list,
            };
            Life::begin(world, ports).await
        };
        let mut begin = Box::pin(begin);
        let mut replica = None;
        let mut turns = turns;
        // Its turns begin before it is there: it asks the servers as it begins.
        while replica.is_none() {
            let turn = self.turn;
            self.world.clock.goes_on(turn);
            self.servers.run(turn);
            for other in self.replicas.iter_mut() {
                other.take_turn(turn);
            }
            turns.passed += turn;
            let until = turns.began + turns.passed;
            replica = turns.system.block_on(async {
                tokio::select! {
                    biased;
                    life = &mut begin => Some(life),
                    () = tokio::time::sleep_until(until) => None,
                }
            });
        }
        let Some(life) = replica else { unreachable!("it began") };
        drop(begin);
        let replica =
            Replica { number, life, link, notices, block_list, stands: None, stopping: None, turns };
        self.replicas.push(replica);
        self.replicas.len() - 1
    }

    /// Kills a replica: what it has not made durable is gone.
    pub(crate) fn crash(&mut self, index: usize) {
        let replica = self.replicas.remove(index);
        replica.link.crashed.store(true, Ordering::Relaxed);
    }

    /// Stops a replica where it stands; nothing of it runs until it goes on.
    pub(crate) fn stop(&mut self, index: usize) {
        self.replicas[index].stands.get_or_insert(Duration::ZERO);
    }

    /// Lets a replica go on that stood still.
    pub(crate) fn go_on(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        if let Some(stood) = replica.stands.take() {
            replica.turns.jump(stood);
        }
    }

    /// Cuts a replica off from the coordinator, or connects it again.
    pub(crate) fn cut(&mut self, index: usize, cut: bool) {
        self.replicas[index].link.cut.store(cut, Ordering::Relaxed);
    }

    /// Stops a replica as the service does.
    pub(crate) fn stop_in_order(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        if replica.stopping.is_none() {
            let (done, stop) = (Rc::new(Cell::new(false)), replica.life.stop_in_order());
            let told = done.clone();
            replica.turns.system.block_on(async move {
                actix_rt::spawn(async move {
                    stop.await;
                    told.set(true);
                });
            });
            replica.stopping = Some((done, Duration::ZERO));
        }
    }

    /// Tells all replicas that a config changed.
    pub(crate) fn tell(&self, client: &str) {
        for replica in &self.replicas {
            replica.notices.tell(ConfigNotice::Changed(ClientId::new(client)));
        }
    }

    /// Blocks the owner of a client, or lets him go, and tells all replicas.
    pub(crate) fn block(&self, client: &str, blocked: bool) {
        self.world.block(client, blocked);
        for replica in &self.replicas {
            replica.block_list.notify_one();
        }
    }

    /// Tells all replicas that they may have missed something.
    pub(crate) fn tell_missed(&self) {
        for replica in &self.replicas {
            replica.notices.tell(ConfigNotice::Missed);
        }
    }

    /// Everybody goes on for so long.
    pub(crate) fn pass(&mut self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let turn = self.turn.min(left);
            left -= turn;
            self.world.clock.goes_on(turn);
            self.servers.run(turn);
            let mut order: Vec<usize> = (0..self.replicas.len()).collect();
            self.rng.shuffle(&mut order);
            for index in order {
                self.replicas[index].take_turn(turn);
            }
            let over = |replica: &Replica<'_>| {
                replica.stopping.as_ref().is_some_and(|(done, taken)| done.get() || *taken >= STOP_LIMIT)
            };
            self.replicas.retain(|replica| !over(replica));
        }
    }

    /// Waits until something is so.
    ///
    /// # Panics
    /// When it is not within an hour.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&World) -> bool) {
        for _ in 0..360_000 {
            if is_so(self.world) {
                return;
            }
            self.pass(self.turn);
            if self.world.clock.elapsed() > Duration::from_secs(50_000) {
                break;
            }
        }
        panic!("not within an hour: {what}\n{}", self.describe());
    }

    /// Waits until something is so, for so long at most.
    ///
    /// # Panics
    /// When it is not by then.
    pub(crate) fn within(&mut self, time: Duration, what: &str, is_so: impl Fn(&World) -> bool) {
        let until = self.world.clock.elapsed() + time;
        while !is_so(self.world) {
            assert!(self.world.clock.elapsed() < until, "not within {time:?}: {what}\n{}", self.describe());
            self.pass(self.turn);
        }
    }

    /// Waits for rest, and judges the history.
    #[track_caller]
    pub(crate) fn rest(&mut self) {
        self.until("rest", World::is_at_rest);
        let wrong = self.world.judge();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// For people: where everything stands.
    pub(crate) fn describe(&self) -> String {
        self.replicas
            .iter()
            .map(|replica| format!("replica {}\n{}", replica.number, replica.life.describe()))
            .collect()
    }
}

impl Replica<'_> {
    fn take_turn(&mut self, turn: Duration) {
        match &mut self.stands {
            Some(stood) => *stood += turn,
            None => self.turns.run(turn),
        }
        if let Some((_, taken)) = &mut self.stopping {
            *taken += turn;
        }
    }
}
