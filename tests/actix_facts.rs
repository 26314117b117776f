//! What actix really does, where the actor kit and the actors rely on it. A failure here after an update of
//! actix says which of our assumptions fell, and so what to look at in `src/runtime`.

use std::{
    cell::RefCell,
    future::{Future, pending},
    pin::Pin,
    rc::Rc,
    sync::{Arc, mpsc},
    task::{self, Poll, Waker},
    time::Duration,
};

use actix::{
    dev::{ContextFut, channel},
    prelude::*,
};
use futures_util::FutureExt as _;
use tokio::{sync::oneshot, time::pause};

type Log = Rc<RefCell<Vec<&'static str>>>;

/// Notes what is done to it.
#[derive(Default)]
struct Probe {
    log: Log,
    goes_on_when_stopping: bool,
    at_start: Option<fn(&mut Probe, &mut Context<Probe>)>,
}

impl Probe {
    fn note(&self, what: &'static str) {
        self.log.borrow_mut().push(what);
    }
}

impl Actor for Probe {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.note("started");
        if let Some(at_start) = self.at_start {
            at_start(self, ctx);
        }
    }

    fn stopping(&mut self, _: &mut Self::Context) -> Running {
        self.note("stopping");
        if std::mem::take(&mut self.goes_on_when_stopping) { Running::Continue } else { Running::Stop }
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.note("stopped");
    }
}

impl Supervised for Probe {
    fn restarting(&mut self, _: &mut Self::Context) {
        self.note("restarting");
    }
}

/// Runs inside the actor, as its handler.
#[derive(Message)]
#[rtype(result = "()")]
struct Do(fn(&mut Probe, &mut Context<Probe>));

impl Handler<Do> for Probe {
    type Result = ();

    fn handle(&mut self, Do(work): Do, ctx: &mut Self::Context) {
        work(self, ctx);
    }
}

/// Answers with a future that actix runs as a task of its own.
#[derive(Message)]
#[rtype(result = "()")]
struct BreakApart;

impl Handler<BreakApart> for Probe {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: BreakApart, _: &mut Self::Context) -> Self::Result {
        Box::pin(async { panic!("provoked") })
    }
}

fn note(what: &'static str) -> Do {
    match what {
        "1" => Do(|probe, _| probe.note("1")),
        "2" => Do(|probe, _| probe.note("2")),
        _ => Do(|probe, _| probe.note("3")),
    }
}

fn breaks() -> Do {
    Do(|_, _| panic!("provoked"))
}

/// An actor that nobody polls but the test.
fn held(probe: Probe) -> (Addr<Probe>, ContextFut<Probe, Context<Probe>>, Log) {
    let log = Rc::clone(&probe.log);
    let (sender, receiver) = channel::channel(0);
    (Addr::new(sender), Context::with_receiver(receiver).into_future(probe), log)
}

/// Polls once; `None` when it panicked.
fn poll(context: &mut ContextFut<Probe, Context<Probe>>) -> Option<Poll<()>> {
    let mut task = task::Context::from_waker(Waker::noop());
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Pin::new(context).poll(&mut task))).ok()
}

#[test]
fn a_panic_unwinds_in_every_profile() {
    assert!(std::panic::catch_unwind(|| panic!("provoked")).is_err());
    assert!(
        !include_str!("../Cargo.toml").contains("panic = \"abort\""),
        "there would be nothing to supervise"
    );
}

// Why we have a supervisor of our own.

#[actix_rt::test]
async fn the_stock_supervisor_dies_of_a_panic_with_its_mailbox() {
    let probe = Probe::default();
    let log = Rc::clone(&probe.log);
    let addr = Supervisor::start(|_| probe);
    addr.do_send(breaks());
    addr.do_send(note("1"));
    assert_eq!(addr.send(note("2")).await, Err(MailboxError::Closed));
    assert!(!addr.connected());
    // The last hooks ran while the panic unwound: one that panics there aborts the process.
    assert_eq!(*log.borrow(), ["started", "stopping", "stopped"]);
}

#[actix_rt::test]
async fn the_stock_supervisor_restarts_an_actor_that_stops_itself() {
    let probe = Probe::default();
    let log = Rc::clone(&probe.log);
    let addr = Supervisor::start(|_| probe);
    addr.do_send(Do(|_, ctx| ctx.stop()));
    addr.send(note("1")).await.unwrap();
    assert_eq!(*log.borrow(), ["started", "stopping", "stopped", "restarting", "started", "1"]);
}

// What our supervisor is made of.

#[actix_rt::test]
async fn a_context_that_panicked_restarts_with_mailbox_and_address() {
    let (addr, mut context, log) = held(Probe::default());
    addr.do_send(note("1"));
    addr.do_send(breaks());
    addr.do_send(note("2"));
    addr.do_send(note("3"));
    assert_eq!(poll(&mut context), None);
    assert!(context.restart());
    assert_eq!(poll(&mut context), Some(Poll::Pending));
    assert_eq!(*log.borrow(), ["started", "1", "restarting", "started", "2", "3"]);
    assert!(addr.connected());
}

#[actix_rt::test]
async fn a_restart_drops_the_futures_and_notifications_of_the_context() {
    let (addr, mut context, log) = held(Probe::default());
    addr.do_send(Do(|probe, ctx| {
        ctx.notify(note("1"));
        ctx.spawn(async {}.into_actor(probe).map(|(), probe, _| probe.note("2")));
        ctx.wait(pending().into_actor(probe));
    }));
    assert_eq!(poll(&mut context), Some(Poll::Pending));
    assert!(context.restart());
    assert_eq!(poll(&mut context), Some(Poll::Pending));
    assert_eq!(*log.borrow(), ["started", "restarting", "started"]);
}

#[actix_rt::test]
async fn a_context_without_address_does_not_restart() {
    let (addr, mut context, log) = held(Probe::default());
    drop(addr);
    assert!(!context.restart());
    assert!(log.borrow().is_empty());
}

#[actix_rt::test]
async fn an_idle_actor_without_address_ends_but_a_timer_keeps_it() {
    let (addr, mut context, log) = held(Probe::default());
    drop(addr);
    assert_eq!(poll(&mut context), Some(Poll::Ready(())));
    assert_eq!(*log.borrow(), ["started", "stopping", "stopped"]);

    let at_start = |_: &mut Probe, ctx: &mut Context<Probe>| {
        ctx.run_interval(Duration::from_secs(1), |_, _| {});
    };
    let (addr, mut context, _) = held(Probe { at_start: Some(at_start), ..Probe::default() });
    drop(addr);
    assert_eq!(poll(&mut context), Some(Poll::Pending));
}

#[actix_rt::test]
async fn a_context_that_is_dropped_alive_runs_its_hooks_and_a_terminated_one_does_not() {
    let (_addr, mut context, log) = held(Probe::default());
    assert_eq!(poll(&mut context), Some(Poll::Pending));
    drop(context);
    assert_eq!(*log.borrow(), ["started", "stopping", "stopped"]);

    let (_addr, mut context, log) = held(Probe::default());
    assert_eq!(poll(&mut context), Some(Poll::Pending));
    context.ctx().terminate();
    drop(context);
    assert_eq!(*log.borrow(), ["started"]);
}

#[actix_rt::test]
async fn a_hook_that_says_continue_in_the_end_handles_the_whole_mailbox() {
    let (addr, mut context, log) = held(Probe { goes_on_when_stopping: true, ..Probe::default() });
    assert_eq!(poll(&mut context), Some(Poll::Pending));
    addr.do_send(note("1"));
    addr.do_send(note("2"));
    drop(context);
    assert_eq!(*log.borrow(), ["started", "stopping", "1", "2"]);
    assert!(!addr.connected());
}

#[actix_rt::test]
async fn a_handle_cancelled_by_the_handler_that_panics_cancels_its_namesake_of_the_next_life() {
    let at_start = |probe: &mut Probe, ctx: &mut Context<Probe>| {
        ctx.spawn(async {}.into_actor(probe).map(|(), probe, _| probe.note("first future")));
    };
    let cancels_and_breaks = Do(|_, ctx| {
        ctx.cancel_future(SpawnHandle::default().next()); // the first handle of a life
        panic!("provoked");
    });
    for (message, next_life) in [
        (breaks(), &["restarting", "started", "first future"][..]),
        (cancels_and_breaks, &["restarting", "started"]),
    ] {
        let (addr, mut context, log) = held(Probe { at_start: Some(at_start), ..Probe::default() });
        assert_eq!(poll(&mut context), Some(Poll::Pending));
        log.borrow_mut().clear();
        addr.do_send(message);
        assert_eq!(poll(&mut context), None);
        assert!(context.restart());
        assert_eq!(poll(&mut context), Some(Poll::Pending));
        assert_eq!(*log.borrow(), next_life);
    }
}

#[actix_rt::test]
async fn a_panic_in_a_response_future_leaves_the_actor_alone() {
    let addr = Probe::default().start();
    assert_eq!(addr.send(BreakApart).await, Err(MailboxError::Closed));
    assert_eq!(addr.send(note("1")).await, Ok(()));
}

// Why senders need permits, and how handlers must behave.

#[actix_rt::test]
async fn do_send_has_no_limit_and_every_clone_of_an_address_has_a_place_of_its_own() {
    let (sender, receiver) = channel::channel(2);
    let addr = Addr::<Probe>::new(sender);
    for _ in 0..1_000 {
        addr.do_send(note("1"));
    }
    for addr in [addr.clone(), addr.clone()] {
        assert!(addr.try_send(note("1")).is_ok());
        assert!(matches!(addr.try_send(note("1")), Err(SendError::Full(_))));
    }
    // A request holds a clone: asking does not wait for room.
    let asked = addr.send(note("2"));
    let mut context = Context::with_receiver(receiver).into_future(Probe::default());
    assert_eq!(poll(&mut context), Some(Poll::Pending));
    asked.await.unwrap();
}

#[actix_rt::test]
async fn a_request_that_is_dropped_is_not_handled() {
    let (addr, mut context, log) = held(Probe::default());
    drop(addr.send(note("1")));
    addr.do_send(note("2"));
    assert_eq!(poll(&mut context), Some(Poll::Pending));
    assert_eq!(*log.borrow(), ["started", "2"]);
}

#[actix_rt::test]
async fn the_whole_mailbox_goes_before_the_futures_of_the_context() {
    let (addr, mut context, log) = held(Probe::default());
    addr.do_send(Do(|probe, ctx| {
        ctx.spawn(async {}.into_actor(probe).map(|(), probe, _| probe.note("future")));
    }));
    for _ in 0..1_000 {
        addr.do_send(note("1"));
    }
    assert_eq!(poll(&mut context), Some(Poll::Pending));
    let log = log.borrow();
    assert_eq!((log.len(), log.last()), (1_002, Some(&"future")));
}

#[actix_rt::test]
async fn a_wait_holds_up_timers_and_messages() {
    pause();
    let at_start = |probe: &mut Probe, ctx: &mut Context<Probe>| {
        ctx.run_interval(Duration::from_millis(20), |probe, _| probe.note("tick"));
        ctx.wait(actix::clock::sleep(Duration::from_secs(60)).into_actor(probe));
    };
    let probe = Probe { at_start: Some(at_start), ..Probe::default() };
    let log = Rc::clone(&probe.log);
    let addr = probe.start();
    actix::clock::sleep(Duration::from_secs(59)).await;
    assert!(addr.send(note("1")).timeout(Duration::from_millis(500)).await.is_err());
    assert_eq!(*log.borrow(), ["started"]);
    addr.send(note("2")).await.unwrap();
    actix::clock::sleep(Duration::from_millis(40)).await;
    assert!(log.borrow().contains(&"tick"));
}

#[actix_rt::test]
async fn an_address_is_connected_however_stuck_the_actor_is() {
    let addr = Probe::default().start();
    addr.send(Do(|probe, ctx| ctx.wait(pending().into_actor(probe)))).await.unwrap();
    assert!(addr.send(note("1")).now_or_never().is_none());
    assert!(addr.connected());
}

// Stopping.

/// Ends only when the test lets it.
struct SlowToStop {
    free: mpsc::Receiver<()>,
    _alive: Arc<()>,
}

impl Actor for SlowToStop {
    type Context = Context<Self>;

    fn stopped(&mut self, _: &mut Self::Context) {
        let _ = self.free.recv();
    }
}

#[test]
fn the_end_of_the_system_does_not_wait_for_arbiters() {
    let (free, wait) = mpsc::channel();
    let alive = Arc::new(());
    let held = Arc::clone(&alive);
    let system = System::new();
    let arbiter = system.block_on(async {
        let arbiter = Arbiter::new();
        let (started_in, started) = oneshot::channel();
        arbiter.spawn_fn(move || {
            // The address has to live as long as the arbiter, or the actor ends before it is stopped.
            let addr = SlowToStop { free: wait, _alive: held }.start();
            let _ = started_in.send(addr);
        });
        let addr = started.await.unwrap();
        assert!(addr.connected());
        System::current().stop();
        (arbiter, addr)
    });
    system.run().unwrap();
    assert_eq!(Arc::strong_count(&alive), 2, "the actor was waited for");
    drop(free);
    arbiter.0.join().unwrap();
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[actix_rt::test]
async fn work_for_an_arbiter_that_has_ended_is_dropped() {
    let arbiter = Arbiter::new();
    let handle = arbiter.handle();
    handle.stop();
    arbiter.join().unwrap();
    let (sender, receiver) = oneshot::channel::<()>();
    assert!(!handle.spawn_fn(move || sender.send(()).unwrap()));
    assert!(receiver.await.is_err());
}

// Time in tests.

#[actix_rt::test]
async fn a_paused_clock_jumps_when_all_is_idle() {
    pause();
    let before = std::time::Instant::now();
    let addr = Probe::default().start();
    addr.send(Do(|probe, ctx| ctx.wait(actix::clock::sleep(Duration::from_secs(3_600)).into_actor(probe))))
        .await
        .unwrap();
    addr.send(note("1")).await.unwrap();
    assert!(before.elapsed() < Duration::from_secs(60));
}
