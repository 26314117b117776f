//! Actors and processes that end: by a panic, a crash, an order, or for want of work.

use std::time::Duration;

use dispatcher::domain::config::Status;

use crate::receiver::{Act, Manner};
use crate::world::{Choices, World};

#[test]
fn an_actor_that_is_restarted_gets_its_own_back() {
    for how in ["restart", "panic"] {
        let world = World::new();
        world.configure("a", Status::Active, "");
        world.receiver.behave("a", Manner::always(Act::Ok).slow(500, 1_500));
        world.life(async |life| {
            for change in 0..130 {
                world.change("a", &(change % 40).to_string(), 1);
            }
            life.until("32 on the wire", || world.receiver.book().open("a") == 32).await;
            match how {
                "restart" => life.restart("delivery", "a"),
                _ => world.clock.panic_in(0),
            }
            life.until("it began anew", || life.actor("a").is_some_and(|cell| cell.generation() > 0)).await;
            life.rest().await;
        });
    }
}

#[test]
fn rows_come_first_after_a_restart() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Status(422)).slow(100, 100));
    world.life(async |life| {
        world.change("a", "1", 3);
        life.until("they wait", || world.rows("a").len() == 3).await;
        world.receiver.heal();
        world.change("a", "1", 3);
        life.restart("delivery", "a");
        world.change("a", "1", 3);
        life.rest().await;
    });
    assert_eq!(world.receiver.book().arrived("a", "1"), (1..=9).collect::<Vec<_>>());
}

/// The write of the first life arrives at the stash while the second looks at it.
#[test]
fn a_row_that_an_earlier_life_asked_for_is_seen() {
    for latency in (0..100).step_by(5) {
        let world = World::with(latency, Choices::default());
        world.configure("a", Status::Active, "");
        world.life(async |life| {
            world.change("a", "0", 1);
            life.rest().await;
            world.receiver.behave("a", Manner::always(Act::DoneBut(500)).slow(10, 10));
            world.stash.set_latency(Duration::from_millis(100));
            world.change("a", "1", 3);
            life.until("answered", || world.receiver.book().arrived("a", "1") == [1]).await;
            life.pass(Duration::from_millis(6 + latency)).await;
            world.receiver.heal();
            life.restart("delivery", "a");
            life.pass(Duration::from_secs(1)).await;
            world.change("a", "1", 3);
            life.rest().await;
        });
    }
}

#[test]
fn an_actor_that_gave_up_is_tried_again() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.life(async |life| {
        world.change("a", "0", 1);
        life.rest().await;
        life.configure("a", Status::Active, ",\"timeout_ms\":5000").await;
        world.receiver.book().panic_at_open = true;
        world.change("a", "1", 2);
        for _ in 0..11 {
            let broke = || !world.receiver.book().panic_at_open;
            life.until("it broke", broke).await;
            world.receiver.book().panic_at_open = true;
        }
        life.until("it gave up", || life.actor("a").is_none_or(|cell| !cell.is_alive())).await;
        world.receiver.book().panic_at_open = false;
        life.rest().await;
    });
}

#[test]
fn crashes_at_any_moment_lose_nothing_and_turn_nothing_round() {
    for seed in 0..150 {
        let world = World::with(seed, Choices::default());
        world.configure("a", Status::Active, "");
        world.stash.set_latency(Duration::from_millis(20));
        world.log.medium.set_latency(Duration::from_millis(20));
        let manner = Manner::mixed(vec![(3, Act::Ok), (1, Act::Status(500)), (1, Act::DoneBut(422))]);
        world.receiver.behave("a", manner);
        for life in 0..4_u64 {
            world.life(async |process| {
                for document in ["1", "2", "3"] {
                    world.change("a", document, 4);
                }
                process.pass(Duration::from_millis((seed * 37 + life * 211) % 400)).await;
            });
        }
        world.heal();
        world.life(async |life| life.rest().await);
    }
}

#[test]
fn an_ingest_stage_that_is_restarted_turns_nothing_round() {
    for seed in 0..50 {
        let world = World::with(seed, Choices::default());
        world.configure("a", Status::Active, ",\"concurrency\":2");
        world.receiver.behave("a", Manner::always(Act::Ok).slow(1, 80));
        world.life(async |life| {
            for _ in 0..8 {
                for document in ["1", "2", "3", "4"] {
                    world.change("a", document, 5);
                }
                life.pass(Duration::from_millis(30 + seed)).await;
                life.restart("ingest-transfer", "");
            }
            life.rest().await;
        });
    }
}

#[test]
fn an_idle_actor_retires_and_comes_back() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.life(async |life| {
        world.change("a", "1", 1);
        life.rest().await;
        life.pass(Duration::from_secs(29)).await;
        assert!(life.actor("a").is_some());
        life.pass(Duration::from_secs(3)).await;
        assert!(life.actor("a").is_none());
        world.change("a", "1", 1);
        life.rest().await;
    });
    assert_eq!(world.receiver.book().arrived("a", "1"), [1, 2]);
}

#[test]
fn stopping_in_order_waits_for_answers_and_repeats_nothing() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Ok).slow(500, 900));
    world.life(async |life| {
        for change in 0..100 {
            world.change("a", &(change % 40).to_string(), 1);
        }
        life.until("some on the wire", || world.receiver.book().open("a") == 32).await;
        life.stop_in_order().await;
        assert_eq!(world.receiver.book().open("a"), 0);
    });
    let sent = world.receiver.book().requests.len();
    assert!((32..100).contains(&sent), "{sent}");
    world.life(async |life| life.rest().await);
    // What was answered before the stop, behind one that was not sent, may come again; not more.
    assert!(world.receiver.book().requests.len() <= 100 + sent);
}

#[test]
fn an_actor_that_restarts_while_the_service_stops_sends_nothing_more() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Ok).slow(500, 900));
    world.life(async |life| {
        for change in 0..100 {
            world.change("a", &(change % 40).to_string(), 1);
        }
        life.until("some on the wire", || world.receiver.book().open("a") == 32).await;
        let stopped = life.stop_in_order();
        let restarted = async {
            life.pass(Duration::from_millis(100)).await;
            life.actor("a").unwrap().restart("told to");
        };
        futures_util::future::join(stopped, restarted).await;
        let sent = world.receiver.book().requests.len();
        life.pass(Duration::from_secs(10)).await;
        assert_eq!(world.receiver.book().requests.len(), sent);
    });
    world.life(async |life| life.rest().await);
}

/// What an earlier run of the stage would commit belongs to records that the next one has already taken up again.
#[test]
fn a_crash_after_a_restart_of_the_ingest_stage_turns_nothing_round() {
    for seed in 0..200 {
        let world = World::with(seed, Choices::default());
        world.configure("a", Status::Active, "");
        world.log.medium.set_latency(Duration::from_millis(30));
        world.receiver.behave("a", Manner::always(Act::Ok).slow(1, 40));
        world.life(async |life| {
            world.change("a", "1", 20);
            life.pass(Duration::from_millis(150 + seed)).await;
            life.restart("ingest-transfer", "");
            life.pass(Duration::from_millis(20 + seed % 150)).await;
        });
        world.heal();
        world.life(async |life| life.rest().await);
    }
}

#[test]
fn why_an_actor_broke_is_known_while_it_has_nothing_to_do_and_when_it_is_back() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.life(async |life| {
        world.receiver.book().panic_at_open = true;
        world.change("a", "1", 1);
        life.rest().await;
        let broke = life.actor("a").unwrap().status();
        assert_eq!((broke.restarts, broke.last_cause.is_some()), (1, true));
        for retired in 1..=3 {
            life.until("it has retired", || life.actor("a").is_none()).await;
            let kept = life.kit.registry().retired("delivery", "a").unwrap();
            assert_eq!(kept.restarts, 1);
            assert_eq!(kept.last_cause.unwrap().reason, broke.last_cause.as_ref().unwrap().reason);
            world.change("a", "1", 1);
            life.rest().await;
            let back = life.actor("a").unwrap().status();
            assert_eq!(back.restarts, 1, "after {retired}");
            assert_eq!(back.last_cause.unwrap().reason, broke.last_cause.as_ref().unwrap().reason);
            assert!(life.kit.registry().retired("delivery", "a").is_none());
        }
        // Of one that never broke there is nothing to tell.
        world.configure("b", Status::Active, "");
        life.configure("b", Status::Active, "").await;
        world.change("b", "1", 1);
        life.rest().await;
        life.until("it has retired", || life.actor("b").is_none()).await;
        assert!(life.kit.registry().retired("delivery", "b").is_none());
    });
}
