//! What waits comes back in order.

use std::time::Duration;

use dispatcher::domain::config::Status;

use crate::receiver::{Act, Manner};
use crate::world::{Choices, World};

/// Few rows fit into memory, so that a pass over all of them has many parts and takes long.
fn small() -> Choices {
    let mut choices = Choices::default();
    choices.limits.client_bytes = 600;
    choices
}

#[test]
fn a_document_whose_time_comes_in_the_middle_of_a_pass_waits_for_the_next_one() {
    let world = World::with(1, small());
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Ok).but("x", Act::Status(422)));
    world.life(async |life| {
        world.change("a", "x", 2);
        life.pass(Duration::from_secs(60)).await;
        world.receiver.behave("a", Manner::always(Act::Status(503)));
        for document in 0..200 {
            world.change("a", &document.to_string(), 1);
        }
        world.change("a", "x", 1);
        life.until("all wait", || world.rows("a").len() == 203).await;
        world.receiver.behave("a", Manner::always(Act::Ok).slow(1_000, 2_000));
        life.rest().await;
    });
    assert_eq!(world.receiver.book().arrived("a", "x"), [1, 2, 3]);
}

#[test]
fn a_document_that_is_answered_late_in_the_middle_of_a_pass_waits_for_the_next_one() {
    let world = World::with(1, small());
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Ok).slow(8_000, 8_000));
    world.life(async |life| {
        // On the wire for long: it is insured, and what comes behind it gets rows.
        for _ in 0..10 {
            world.change("a", "x", 1);
            for document in 0..20 {
                world.change("a", &document.to_string(), 1);
            }
            life.pass(Duration::from_secs(3)).await;
        }
        life.rest().await;
    });
    assert_eq!(world.receiver.book().arrived("a", "x"), (1..=10).collect::<Vec<_>>());
}

#[test]
fn what_stands_behind_a_payload_that_dies_in_the_middle_of_a_pass_stays_in_order() {
    let mut choices = small();
    choices.limits.payload_attempts = 1;
    let world = World::with(1, choices);
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Status(503)));
    world.life(async |life| {
        world.change("a", "x", 3);
        for document in 0..20 {
            world.change("a", &document.to_string(), 1);
        }
        world.change("a", "x", 1);
        life.until("all wait", || world.rows("a").len() == 24).await;
        world.receiver.behave("a", Manner::always(Act::Ok).but("x", Act::Status(422)));
        life.until("the first is dead", || {
            world.rows("a").iter().any(|(_, state)| *state == dispatcher::domain::stash::RowState::Dead)
        })
        .await;
        world.receiver.heal();
        life.rest().await;
    });
}

/// One document has very many changes, and they stand before all others.
#[test]
fn a_document_with_very_many_changes_costs_little_while_the_webhook_is_down() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Status(503)));
    world.life(async |life| {
        world.change("a", "hot", 3_200);
        world.change("a", "cold", 1);
        life.until("all wait", || world.rows("a").len() == 3_201).await;
        for _ in 0..3 {
            let (sent, asked) = (world.receiver.book().of("a").count(), world.stash.reads());
            life.until("a canary", || world.receiver.book().of("a").count() > sent).await;
            let asked = world.stash.reads() - asked;
            assert!(asked < 100, "{asked} questions to the stash for one canary");
        }
        // It is the hot one alone that fails: the other is found in the end.
        world.receiver.behave("a", Manner::always(Act::Ok).but("hot", Act::Status(503)));
        let arrived = || world.receiver.book().arrived("a", "cold") == [1];
        life.within(Duration::from_secs(900), "the cold one arrives", arrived).await;
    });
}

/// A row whose time has come cannot be sent before its partition is committed.
#[test]
fn the_stash_is_left_alone_while_nothing_can_be_committed() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Status(422)));
    world.life(async |life| {
        world.log.medium.go_away(Duration::from_secs(120));
        world.change("a", "1", 1);
        life.pass(Duration::from_millis(1)).await;
        world.log.medium.heal();
        life.until("it is on its way", || world.receiver.book().of("a").count() == 1).await;
        world.log.medium.go_away(Duration::from_secs(120));
        life.until("it waits", || world.rows("a").len() == 1).await;
        assert!(!world.log.medium.data().is_committed());
        life.pass(Duration::from_secs(30)).await;
        let asked = world.stash.reads();
        life.pass(Duration::from_secs(20)).await;
        let asked = world.stash.reads() - asked;
        assert!(asked < 100, "{asked} questions to the stash in 20 s");
        world.receiver.heal();
        life.rest().await;
    });
}
