//! How the life of an actor ends, and what is seen of it then.

use super::*;

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
    assert_eq!(status.exits, [(ExitReason::Panicked, 5), (ExitReason::Failed, 1)].into());
    assert_eq!(status.last_cause.unwrap().message, "broken started");
    cell.restart("too late");
    assert!(!cell.is_alive());
    assert!(kit.registry().forget("probe", "one"));
    assert!(kit.registry().list().is_empty());
    assert_eq!(kit.registry().restart_totals()["probe"], 4);
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
async fn the_observer_is_told_of_what_broke_and_of_nothing_else() {
    pause();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let on_broken = move |cell: &Cell, life: Life| {
        let cause = cell.status().last_cause.unwrap().message;
        tell.lock().unwrap().push((cell.id().to_owned(), life, cause));
        assert!(life != Life::Restarting, "an observer that breaks");
    };
    let policy = RestartPolicy { limit: 1, ..EAGER };
    let kit = Kit::observed(Arc::new(|_| {}), Arc::new(on_broken), policy);
    let (Supervised { addr, cell }, _) = start(&kit, "one");
    addr.send(Note(1)).await.unwrap();
    cell.restart("as somebody wished");
    generation(&cell, 1).await;
    addr.do_send(Break::Handler);
    generation(&cell, 2).await;
    addr.do_send(Break::Handler);
    assert_eq!(cell.ended().await, Life::Failed);
    let (stopped, _) = start(&kit, "two");
    stopped.cell.stop();
    assert_eq!(stopped.cell.ended().await, Life::Stopped);

    let broke = |life| ("one".to_owned(), life, "broken handler".to_owned());
    assert_eq!(*told.lock().unwrap(), [broke(Life::Restarting), broke(Life::Failed)]);
}

#[actix_rt::test]
async fn an_arbiter_takes_its_actors_along_and_takes_no_new_ones() {
    let kit = kit(EAGER);
    let pool = Arbiters::start("test", NonZeroUsize::MIN).unwrap();
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
async fn the_history_of_one_that_retires_passes_to_the_next() {
    pause();
    let kit = kit(EAGER);
    let (first, _) = start(&kit, "one");
    assert!(!kit.registry().retire("probe", "one"), "it lives");
    first.addr.do_send(Break::Handler);
    generation(&first.cell, 1).await;
    first.cell.publish(json!("first"));
    first.cell.stop();
    assert!(kit.registry().retire("probe", "one"));
    first.cell.ended().await;
    assert!(kit.registry().get("probe", "one").is_none());
    let kept = kit.registry().retired("probe", "one").unwrap();
    assert_eq!((kept.state, kept.restarts), (Life::Stopped, 1));
    assert_eq!(kept.last_cause.unwrap().reason, ExitReason::Panicked);

    let (second, _) = start(&kit, "one");
    assert!(kit.registry().retired("probe", "one").is_none());
    let shown = second.cell.status();
    assert_eq!((shown.state, shown.restarts, shown.published), (Life::Running, 1, None));
    assert_eq!(shown.last_cause.unwrap().reason, ExitReason::Panicked);
    assert_eq!(kit.registry().restart_totals()["probe"], 1, "a beginning is no restart");

    // Of one that never broke there is nothing to tell, and of one that is nobody's here nothing is told.
    let (other, _) = start(&kit, "other");
    for cell in [&second.cell, &other.cell] {
        cell.stop();
        assert!(kit.registry().retire("probe", cell.id()));
    }
    assert!(kit.registry().retired("probe", "other").is_none());
    kit.registry().forget_retired("probe", |id| id == "one");
    assert!(kit.registry().retired("probe", "one").is_none());
}

/// Nobody else has its address.
struct Alone {
    began: Arc<tokio::sync::Notify>,
    own_address: Option<Addr<Self>>,
}

impl Actor for Alone {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.own_address = Some(ctx.address());
        self.began.notify_one();
    }
}

impl actix::Supervised for Alone {}

#[actix_rt::test]
async fn who_is_to_begin_anew_before_it_has_begun_begins() {
    let (kit, began) = (kit(EAGER), Arc::new(tokio::sync::Notify::new()));
    let inside = began.clone();
    let make = move |_| Alone { began: inside, own_address: None };
    let cell = supervise(&kit, &Arbiter::current(), "alone", "", make).cell;
    cell.restart("too early");
    began.notified().await;
    assert_eq!((cell.phase().life, cell.generation(), cell.status().exits), (Life::Running, 0, [].into()));
    cell.restart("in time");
    generation(&cell, 1).await;
    began.notified().await;
}
