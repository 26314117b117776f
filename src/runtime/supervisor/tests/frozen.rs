//! An actor that could not take a message for too long is restarted; one that is idle, or busy, is left alone.

use super::*;

fn watched(policy: RestartPolicy) -> Kit {
    pause();
    let kit = kit(policy);
    let watchdog = Watchdog::new(kit.clone());
    actix_rt::spawn(watchdog.run(kit.shutdown().token()));
    kit
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[actix_rt::test]
async fn a_frozen_actor_is_back_within_five_seconds_with_its_mailbox() {
    let kit = watched(EAGER);
    let (Supervised { addr, cell }, world) = start(&kit, "one");
    seconds(60).await;
    let froze = Instant::now();
    addr.do_send(Break::Freezes);
    addr.do_send(Note(1));
    addr.do_send(Note(2));
    generation(&cell, 1).await;
    assert!(froze.elapsed() <= Duration::from_secs(5), "{:?}", froze.elapsed());
    addr.send(Note(3)).await.unwrap();
    assert_eq!(world.logged(), ["1", "2", "3"]);
    let status = cell.status();
    assert_eq!(status.exits, [(ExitReason::Frozen, 1)].into());
    assert_eq!(status.last_message.as_deref(), Some("Note"));
    let cause = status.last_cause.unwrap();
    assert_eq!((cause.reason, cause.message.as_str()), (ExitReason::Frozen, "took no message"));
    assert!((60..=65).contains(&cause.lasted_seconds), "{cause:?}");
}

#[actix_rt::test]
async fn one_that_freezes_again_and_again_is_given_up() {
    let kit = watched(RestartPolicy { limit: 2, ..EAGER });
    let (Supervised { addr, cell }, _) = start(&kit, "one");
    for _ in 0..3 {
        addr.do_send(Break::Freezes);
    }
    assert_eq!(cell.ended().await, Life::Failed);
    assert_eq!(cell.status().exits[&ExitReason::Frozen], 3);
}

#[actix_rt::test]
async fn an_idle_actor_is_left_alone_and_one_that_works_too() {
    let kit = watched(EAGER);
    let (idle, _) = start(&kit, "idle");
    let (busy, world) = start(&kit, "busy");
    for number in 0..100 {
        busy.addr.send(Note(number)).await.unwrap();
        busy.addr.send(Break::Holds(Duration::from_millis(1_900))).await.unwrap();
        seconds(2).await;
    }
    assert_eq!((idle.cell.generation(), busy.cell.generation()), (0, 0));
    assert_eq!(world.logged().len(), 100);
}

#[actix_rt::test]
async fn whoever_may_take_longer_is_left_alone_for_so_long() {
    let kit = watched(EAGER);
    let (Supervised { addr, cell }, world) = start(&kit, "one");
    cell.takes_at_most(Duration::from_secs(60));
    addr.do_send(Break::Holds(Duration::from_secs(59)));
    addr.send(Note(1)).await.unwrap();
    assert_eq!((cell.generation(), world.logged()), (0, vec!["1".to_owned()]));
    addr.do_send(Break::Freezes);
    let froze = Instant::now();
    generation(&cell, 1).await;
    assert!((60..63).contains(&froze.elapsed().as_secs()), "{:?}", froze.elapsed());
}

#[actix_rt::test]
async fn a_wait_that_ends_before_does_not_hide_one_that_does_not() {
    let kit = watched(EAGER);
    let (Supervised { addr, cell }, _) = start(&kit, "one");
    addr.do_send(Break::Holds(Duration::from_millis(10)));
    addr.do_send(Break::Freezes);
    generation(&cell, 1).await;
    addr.send(Note(1)).await.unwrap();
}
