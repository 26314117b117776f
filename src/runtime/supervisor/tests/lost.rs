//! A thread that makes no progress is left behind, and its actors start anew on another.

use std::sync::mpsc;

use super::*;

/// Keeps its thread until the test lets it go on.
#[derive(Message)]
#[rtype(result = "()")]
struct Hog(mpsc::Receiver<()>);

impl Handler<Hog> for Probe {
    type Result = ();

    fn handle(&mut self, Hog(free): Hog, _: &mut Self::Context) {
        self.cell.handling("Hog");
        let _ = free.recv();
        self.world.log("went on");
    }
}

fn seated(kit: &Kit, pool: &Arbiters, id: &str) -> (Supervised<Probe>, Arc<World>) {
    let world = Arc::new(World::default());
    let inside = Arc::clone(&world);
    let make = move |cell| Probe { world: inside, cell };
    (supervise(kit, pool.pick(0), "probe", id, make), world)
}

/// Another in its place.
fn anew(kit: &Kit, pool: &Arbiters, lost: &Cell) -> (Supervised<Probe>, Arc<World>) {
    let world = Arc::new(World::default());
    let inside = Arc::clone(&world);
    (supervise_again(kit, pool.pick(0), lost, move |cell| Probe { world: inside, cell }), world)
}

#[actix_rt::test]
async fn actors_of_a_lost_thread_start_anew_and_the_one_to_blame_has_failed() {
    let restarts = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&restarts);
    let kit = Kit::new(Arc::new(move |_| _ = counter.fetch_add(1, SeqCst)), EAGER);
    let pool = Arbiters::start("test", NonZeroUsize::MIN).unwrap();
    let (guilty, guilty_world) = seated(&kit, &pool, "guilty");
    let (other, _) = seated(&kit, &pool, "other");
    for actor in [&guilty, &other] {
        actor.addr.send(Note(1)).await.unwrap();
    }
    let (free, hold) = mpsc::channel();
    guilty.addr.do_send(Hog(hold));
    guilty.addr.do_send(Note(2));
    while !guilty.cell.is_at_work() || guilty.cell.status().last_message.as_deref() != Some("Hog") {
        tokio::task::yield_now().await;
    }
    pool.replace(0).unwrap();
    assert!(guilty.cell.is_lost() && other.cell.is_lost());
    assert_eq!(other.cell.ended().await, Life::Stopped, "nobody waits for what is lost");

    let (next, world) = anew(&kit, &pool, &guilty.cell);
    let (other, _) = anew(&kit, &pool, &other.cell);
    next.addr.send(Note(3)).await.unwrap();
    other.addr.send(Note(3)).await.unwrap();
    assert_eq!(world.logged(), ["3"], "the mailbox is another");
    let shown = |id| kit.registry().get("probe", id).unwrap().status();
    for (id, message) in [("guilty", "did not yield its thread"), ("other", "its thread was lost to another")]
    {
        let status = shown(id);
        assert_eq!(
            (status.state, &status.exits),
            (Life::Running, &[(ExitReason::LostArbiter, 1)].into()),
            "{id}"
        );
        assert_eq!(status.last_cause.unwrap().message, message);
    }
    assert_eq!(shown("guilty").last_cause.unwrap().place, "in Hog");
    assert_eq!(restarts.load(SeqCst), 2);
    assert_eq!((shown("guilty").restarts, shown("other").restarts), (1, 1));

    // The thread comes to its senses: what it holds ends.
    drop(free);
    while Arc::strong_count(&guilty_world) > 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(shown("guilty").state, Life::Running);
    assert_eq!(pool.stop_and_join(Duration::from_secs(10)).await, 0);
}

#[actix_rt::test]
async fn whoever_loses_its_thread_again_and_again_is_given_up() {
    let kit = kit(RestartPolicy { limit: 1, ..EAGER });
    let pool = Arbiters::start("test", NonZeroUsize::MIN).unwrap();
    let (mut actor, _) = seated(&kit, &pool, "guilty");
    let mut free = Vec::new();
    for _ in 0..2 {
        let (end, hold) = mpsc::channel();
        free.push(end);
        actor.addr.do_send(Hog(hold));
        while actor.cell.status().last_message.as_deref() != Some("Hog") {
            tokio::task::yield_now().await;
        }
        pool.replace(0).unwrap();
        actor = anew(&kit, &pool, &actor.cell).0;
        actor.cell.handling("nothing yet");
    }
    assert_eq!(actor.cell.ended().await, Life::Failed);
    assert_eq!(actor.cell.status().exits, [(ExitReason::LostArbiter, 2), (ExitReason::Failed, 1)].into());
}
