//! Many panics, many actors, many threads.

use super::*;

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

#[actix_rt::test]
async fn actors_on_threads_of_their_own_keep_order_through_their_panics() {
    let kit = kit(RestartPolicy { base: Duration::ZERO, ..EAGER });
    let pool = Arbiters::start("test", NonZeroUsize::new(3).unwrap()).unwrap();
    let actors: Vec<_> = (0..30)
        .map(|number| {
            let world = Arc::new(World::default());
            let inside = Arc::clone(&world);
            let make = move |cell| Probe { world: inside, cell };
            (supervise(&kit, pool.pick(number), "probe", number.to_string(), make), world)
        })
        .collect();
    for number in 0..100 {
        for (actor, _) in &actors {
            actor.addr.do_send(Note(number));
            if number % 10 == 0 {
                actor.addr.do_send(Break::Handler);
            }
        }
    }
    for (actor, world) in &actors {
        actor.addr.send(Note(100)).await.unwrap();
        assert_eq!(actor.cell.generation(), 10);
        assert_eq!(world.logged(), (0..=100).map(|number| number.to_string()).collect::<Vec<_>>());
    }
    assert_eq!(pool.stop_and_join(Duration::from_secs(10)).await, 0);
    assert!(kit.registry().list().iter().all(|status| status.state == Life::Stopped));
}
