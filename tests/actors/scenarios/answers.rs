//! What answers lead to.

use std::time::Duration;

use dispatcher::domain::config::Status;

use crate::receiver::{Act, Manner};
use crate::world::World;

#[test]
fn changes_arrive_in_order() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.life(async |life| {
        world.change("a", "1", 3);
        world.change("a", "2", 3);
        life.rest().await;
    });
    assert_eq!(world.receiver.book().arrived("a", "1"), [1, 2, 3]);
}

#[test]
fn what_the_old_webhook_refused_goes_to_a_new_one_at_once() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Status(404)));
    world.life(async |life| {
        world.change("a", "1", 3);
        life.pass(Duration::from_secs(600)).await;
        assert_eq!(world.rows("a").len(), 3);
        world.receiver.heal();
        life.configure("a", Status::Active, ",\"authorization\":\"new\"").await;
        life.pass(Duration::from_secs(2)).await;
        assert_eq!(world.receiver.book().arrived("a", "1"), [1, 2, 3]);
        life.rest().await;
    });
}

#[test]
fn one_failing_document_does_not_hold_the_others() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Ok).but("bad", Act::Status(422)));
    world.life(async |life| {
        world.change("a", "bad", 3);
        world.change("a", "good", 3);
        life.until("good arrives", || world.receiver.book().arrived("a", "good") == [1, 2, 3]).await;
        assert_eq!(world.rows("a").len(), 3);
        world.receiver.heal();
        life.rest().await;
    });
    assert_eq!(world.receiver.book().arrived("a", "bad"), [1, 2, 3]);
}
