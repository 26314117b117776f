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
