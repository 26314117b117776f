//! Slow answers.

use std::time::Duration;

use dispatcher::domain::config::Status;

use crate::receiver::{Act, Manner};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_newer_change_waits_until_the_row_of_a_slow_one_is_gone() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Ok).slow(3_000, 3_000));
    world.life(async |life| {
        world.change("a", "1", 1);
        life.pass(SECOND * 3 / 2).await;
        // In the lane behind it, and too young to be insured when the answer comes.
        world.change("a", "1", 1);
        life.until("the slow one has a row", || world.rows("a").len() == 1).await;
        // The answer comes; that its row is gone cannot be written.
        world.stash.go_away(60 * SECOND);
        world.receiver.behave("a", Manner::always(Act::Ok));
        life.until("the slow one arrives", || world.receiver.book().open("a") == 0).await;
        life.pass(SECOND).await;
        assert_eq!(world.receiver.book().arrived("a", "1"), [1]);
    });
    // The process crashed: the row is sent again, and the newer change after it.
    world.heal();
    world.life(async |life| life.rest().await);
    assert_eq!(world.receiver.book().arrived("a", "1").last(), Some(&2));
}
