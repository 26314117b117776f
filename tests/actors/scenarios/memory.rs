//! What is in memory at a time.

use std::cell::Cell;
use std::time::Duration;

use dispatcher::domain::config::Status;

use crate::receiver::{Act, Manner};
use crate::world::{Choices, World};

#[test]
fn rows_that_come_back_take_no_more_memory_than_a_client_may() {
    let mut choices = Choices::default();
    // Two or three of the changes below.
    choices.limits.client_bytes = 600;
    let world = World::with(1, choices);
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Status(503)));
    world.life(async |life| {
        for document in 0..40 {
            world.change("a", &document.to_string(), 1);
        }
        life.until("all wait", || world.rows("a").len() == 40 && world.receiver.book().open("a") == 0).await;
        world.receiver.behave("a", Manner::always(Act::Ok).slow(1_000, 2_000));
        let most = Cell::new(0);
        life.until("most are delivered", || {
            most.set(most.get().max(world.receiver.book().open("a")));
            world.rows("a").len() < 5
        })
        .await;
        assert!(most.get() < 8, "{} requests hold their bodies at a time", most.get());
        world.receiver.heal();
        life.pass(Duration::from_secs(5)).await;
        life.rest().await;
    });
}
