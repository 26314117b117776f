//! A client whose delivery actor gives up.

use std::time::Duration;

use dispatcher::actors::delivery_fleet::{RestartActor, TryClient};
use dispatcher::domain::config::{ClientId, Status};
use dispatcher::runtime::ExitReason;

use crate::world::{Choices, Life, World};

const SECOND: Duration = Duration::from_secs(1);

/// `b` keeps its sender all the time: those that are opened break.
fn world() -> World {
    let mut choices = Choices::default();
    choices.limits.idle_after = 3_600 * SECOND;
    let world = World::with(1, choices);
    world.configure("a", Status::Active, "");
    world.configure("b", Status::Active, "");
    world
}

/// Breaks the actor of `a` at every start until it gives up.
async fn break_for_good(life: &Life<'_>) {
    let world = life.world;
    world.change("b", "1", 1);
    life.until("b runs", || !world.receiver.book().arrived("b", "1").is_empty()).await;
    world.receiver.book().panic_at_open = true;
    world.change("a", "1", 3);
    life.until("the actor gives up", || {
        world.receiver.book().panic_at_open = true;
        life.actor("a").is_some_and(|cell| !cell.is_alive())
    })
    .await;
}

#[test]
fn its_work_goes_to_the_stash_and_is_delivered_after_the_rest() {
    let world = world();
    world.life(async |life| {
        break_for_good(life).await;
        life.until("nothing of it is unsettled", || world.log.medium.data().is_committed()).await;
        assert_eq!(world.rows("a").len(), 3);

        // What comes meanwhile starts no actor, and is not held in memory either.
        world.change("a", "1", 2);
        life.until("it is in the stash", || world.rows("a").len() == 5).await;
        life.until("it is committed", || world.log.medium.data().is_committed()).await;
        assert!(life.actor("a").is_some_and(|cell| !cell.is_alive()));
        assert!(world.receiver.book().arrived("a", "1").is_empty());

        world.receiver.heal();
        life.rest().await;
        assert_eq!(world.receiver.book().arrived("a", "1"), [1, 2, 3, 4, 5]);
        assert!(life.actor("a").is_some_and(|cell| cell.is_alive()));
    });
}

#[test]
fn a_stash_that_is_away_loses_nothing_of_it() {
    let world = world();
    world.life(async |life| {
        break_for_good(life).await;
        world.stash.go_away(90 * SECOND);
        world.change("a", "1", 2);
        life.pass(30 * SECOND).await;
        life.restart("fleet", "");
        life.restart("stash", "");
        world.receiver.heal();
        life.rest().await;
    });
    assert_eq!(world.receiver.book().arrived("a", "1"), [1, 2, 3, 4, 5]);
}

#[test]
fn an_operator_ends_the_rest() {
    is_ended(async |life| life.fleet.send(RestartActor(ClientId::new("a"))).await.unwrap());
}

#[test]
fn who_promotes_its_job_or_has_its_webhook_tried_ends_the_rest() {
    is_ended(async |life| life.fleet.send(TryClient(ClientId::new("a"))).await.unwrap());
}

/// The rest of a client ends as soon as somebody wishes it so.
fn is_ended(wish: impl AsyncFnOnce(&Life<'_>) -> bool) {
    let world = world();
    world.life(async |life| {
        break_for_good(life).await;
        life.until("its work is in the stash", || world.rows("a").len() == 3).await;
        world.receiver.heal();
        let asked = world.clock.elapsed();
        assert!(wish(life).await);
        life.rest().await;
        assert!(world.clock.elapsed() - asked < 5 * SECOND);
        let status = life.actor("a").unwrap().status();
        assert_eq!((status.exits[&ExitReason::Panicked], status.exits[&ExitReason::Failed]), (11, 1));
    });
    assert_eq!(world.receiver.book().arrived("a", "1"), [1, 2, 3]);
}
