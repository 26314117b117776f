//! A request that has no end, though it has a time-out: its actor is frozen.

use std::time::Duration;

use dispatcher::domain::config::Status;
use dispatcher::domain::operational_event::Happening;
use dispatcher::domain::stash::RowState;
use dispatcher::runtime::ExitReason;

use crate::receiver::{Act, Manner};
use crate::world::World;

fn world() -> World {
    let world = World::new();
    for client in ["a", "b"] {
        world.configure(client, Status::Active, ",\"timeout_ms\":5000");
    }
    world
}

#[test]
fn an_actor_with_an_endless_request_is_restarted_and_delivers_what_it_had() {
    let world = world();
    world.receiver.behave("a", Manner::always(Act::Ok).but("1", Act::Endless));
    world.life(async |life| {
        world.change("a", "1", 2);
        world.change("a", "2", 2);
        life.pass(Duration::from_secs(7)).await;
        world.receiver.heal();
        life.until("it begins anew", || life.actor("a").is_some_and(|cell| cell.generation() == 1)).await;
        assert!((8..=11).contains(&world.clock.elapsed().as_secs()), "{:?}", world.clock.elapsed());
        life.rest().await;
        let status = life.actor("a").unwrap().status();
        assert_eq!(status.exits, [(ExitReason::Frozen, 1)].into());
        assert_eq!(status.last_cause.unwrap().message, "a request does not end");
        assert_eq!(world.receiver.book().arrived("a", "1"), [1, 2]);
        assert!(world.rows("a").is_empty());
    });
}

#[test]
fn what_freezes_its_actor_twice_is_a_dead_letter_and_the_next_of_its_document_goes() {
    let world = world();
    world.receiver.behave("a", Manner::always(Act::Ok).but("1", Act::Endless));
    world.life(async |life| {
        world.change("a", "1", 1);
        world.change("a", "2", 3);
        world.stash.go_away(Duration::from_secs(1));
        life.until("it is dead", || world.rows("a") == [(1, RowState::Dead)]).await;
        assert_eq!(life.actor("a").unwrap().status().exits, [(ExitReason::Frozen, 2)].into());
        world.receiver.heal();
        world.change("a", "1", 1);
        life.rest().await;
        assert_eq!(world.receiver.book().arrived("a", "1"), [2]);
        assert_eq!(world.rows("a"), [(1, RowState::Superseded)]);
    });
    let events = world.events.all();
    let dead = events.iter().find(|event| event.happening == Happening::DeadLetter).unwrap();
    assert_eq!(dead.reason, "kills_actor");
}

#[test]
fn one_that_is_slow_within_its_time_is_left_alone() {
    let world = World::new();
    world.configure("a", Status::Active, ",\"timeout_ms\":60000");
    world.receiver.behave("a", Manner::always(Act::Ok).slow(59_000, 59_900));
    world.life(async |life| {
        world.change("a", "1", 3);
        life.rest().await;
        assert_eq!(life.actor("a").unwrap().generation(), 0);
    });
}

#[test]
fn a_dead_letter_is_durable_before_the_actor_goes_on() {
    let world = world();
    world.receiver.behave("a", Manner::always(Act::Ok).but("1", Act::Endless));
    world.life(async |life| {
        world.change("a", "1", 1);
        life.until("it begins anew", || life.actor("a").is_some_and(|cell| cell.generation() == 1)).await;
        life.pass(Duration::from_secs(6)).await;
        world.stash.go_away(Duration::from_secs(60));
        life.until("again", || life.actor("a").is_some_and(|cell| cell.generation() == 2)).await;
        world.receiver.heal();
        world.change("a", "1", 1);
        world.change("a", "2", 1);
        life.pass(Duration::from_secs(20)).await;
        assert!(
            world.receiver.book().arrived("a", "1").is_empty()
                && world.receiver.book().arrived("a", "2").is_empty()
        );
        life.rest().await;
        assert_eq!(world.receiver.book().arrived("a", "1"), [2]);
    });
}
