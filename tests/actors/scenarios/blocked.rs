//! Owners that are blocked: their webhooks get nothing, and what is there for them waits.

use std::time::Duration;

use dispatcher::domain::client_state::Phase;
use dispatcher::domain::config::{ClientId, Status};

use crate::cluster::Cluster;
use crate::receiver::{Act, Manner};
use crate::world::World;

/// Two clients with an owner each.
fn world() -> World {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.configure("b", Status::Active, "");
    world
}

fn sent(world: &World, client: &str) -> usize {
    world.receiver.book().of(client).count()
}

#[test]
fn changes_of_a_blocked_owner_wait_and_then_go_in_order() {
    let world = world();
    world.block("a", true);
    world.life(async |life| {
        world.change("a", "1", 5);
        world.change("b", "1", 1);
        life.until("they wait", || world.rows("a").len() == 5).await;
        life.until("b has its own", || world.receiver.book().arrived("b", "1") == [1]).await;
        let state = world.states.data()[&ClientId::new("a")].clone();
        assert_eq!(
            (state.phase, state.reason.as_str()),
            (Phase::Disabled, "its owner is blocked by ops: unpaid")
        );
        // Long enough for the actor to retire.
        life.pass(Duration::from_secs(100)).await;
        assert!(life.actor("a").is_none());
        world.change("a", "1", 5);
        life.until("those, too", || world.rows("a").len() == 10).await;
        life.pass(Duration::from_secs(100)).await;
        assert_eq!(sent(&world, "a"), 0);
    });
    // Another process, which finds rows and the block.
    world.life(async |life| {
        life.pass(Duration::from_secs(100)).await;
        assert_eq!(sent(&world, "a"), 0);
        life.block("a", false).await;
        life.rest().await;
    });
    assert_eq!(world.receiver.book().arrived("a", "1"), (1..=10).collect::<Vec<_>>());
}

#[test]
fn a_block_ends_what_is_under_way_and_nothing_begins() {
    for act in [Act::Ok, Act::Status(500), Act::DoneBut(500)] {
        let world = world();
        world.receiver.behave("a", Manner::always(act).slow(5_000, 5_000));
        world.life(async |life| {
            world.change("a", "1", 3);
            world.change("a", "2", 3);
            life.until("two on the wire", || world.receiver.book().open("a") == 2).await;
            life.block("a", true).await;
            life.until("the others wait", || world.rows("a").len() >= 4).await;
            life.pass(Duration::from_secs(60)).await;
            assert_eq!(sent(&world, "a"), 2, "{act:?}");
            world.receiver.heal();
            life.block("a", false).await;
            life.rest().await;
        });
    }
}

#[test]
fn a_drain_stops_when_the_owner_is_blocked() {
    let world = world();
    world.receiver.behave("a", Manner::always(Act::Status(500)));
    world.life(async |life| {
        for document in 0..50 {
            world.change("a", &document.to_string(), 4);
        }
        life.until("all wait", || world.rows("a").len() == 200).await;
        world.receiver.behave("a", Manner::always(Act::Ok).slow(1_000, 1_000));
        let before = sent(&world, "a");
        life.until("it drains", || sent(&world, "a") > before + 40).await;
        life.block("a", true).await;
        let then = sent(&world, "a");
        life.pass(Duration::from_secs(200)).await;
        assert_eq!(sent(&world, "a"), then);
        assert!(!world.rows("a").is_empty());
        life.block("a", false).await;
        life.rest().await;
    });
}

#[test]
fn the_start_waits_for_the_block_list_and_a_later_outage_keeps_it() {
    let world = world();
    world.block("a", true);
    world.change("a", "1", 1);
    world.change("b", "1", 1);
    world.decisions.go_away(Duration::from_secs(20));
    world.life(async |life| {
        assert!(world.clock.elapsed() >= Duration::from_secs(20));
        life.until("b has its own", || world.receiver.book().arrived("b", "1") == [1]).await;
        world.decisions.go_away(Duration::from_secs(600));
        life.pass(Duration::from_secs(500)).await;
        world.change("a", "1", 1);
        world.change("b", "1", 1);
        life.until("b goes on", || world.receiver.book().arrived("b", "1") == [1, 2]).await;
        assert_eq!(sent(&world, "a"), 0);
        // Nobody tells the process: it looks by itself.
        world.decisions.heal();
        world.block("a", false);
        life.rest().await;
    });
}

#[test]
fn every_replica_knows_within_a_second() {
    let world = world();
    let mut cluster = Cluster::new(&world, Duration::from_millis(10), 1);
    cluster.start();
    cluster.start();
    cluster.pass(Duration::from_secs(5));
    for client in ["a", "b"] {
        cluster.block(client, true);
        cluster.pass(Duration::from_secs(1));
        world.change(client, "1", 3);
        cluster.pass(Duration::from_secs(30));
        assert_eq!((sent(&world, client), world.rows(client).len()), (0, 3));
        cluster.block(client, false);
        cluster.rest();
        assert_eq!(world.receiver.book().arrived(client, "1"), [1, 2, 3]);
    }
}
