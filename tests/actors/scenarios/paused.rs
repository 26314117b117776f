//! A client that an operator paused.

use std::time::Duration;

use dispatcher::domain::config::Status;

use crate::receiver::{Act, Manner};
use crate::world::World;

#[test]
fn a_paused_client_gets_nothing_and_then_everything_in_order() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.configure("b", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Ok).slow(100, 300));
    world.life(async |life| {
        for document in ["1", "2", "3"] {
            world.change("a", document, 3);
        }
        life.until("some are on the wire", || world.receiver.book().open("a") > 0).await;
        life.pause("a", true).await;
        world.change("a", "1", 3);
        world.change("b", "1", 3);
        life.until("all waits", || world.log.medium.data().is_committed()).await;
        let sent = world.receiver.book().of("a").count();
        life.pass(Duration::from_secs(120)).await;
        assert_eq!(world.receiver.book().of("a").count(), sent, "nothing is sent while it is paused");
        assert_eq!(world.receiver.book().arrived("b", "1"), [1, 2, 3], "others go on");

        life.pause("a", false).await;
        life.rest().await;
    });
    assert_eq!(world.receiver.book().arrived("a", "1").last(), Some(&6));
}

#[test]
fn a_pause_outlives_the_process() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.life(async |life| {
        life.pause("a", true).await;
        world.change("a", "1", 2);
        life.until("they wait", || world.rows("a").len() == 2).await;
    });
    world.life(async |life| {
        world.change("a", "1", 1);
        life.until("it waits, too", || world.rows("a").len() == 3).await;
        life.pass(Duration::from_secs(60)).await;
        assert_eq!(world.receiver.book().of("a").count(), 0);
        life.pause("a", false).await;
        life.rest().await;
    });
    assert_eq!(world.receiver.book().arrived("a", "1"), [1, 2, 3]);
}
