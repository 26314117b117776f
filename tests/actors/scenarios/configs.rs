//! What configs lead to.

use std::time::Duration;

use dispatcher::domain::config::Status;
use dispatcher::domain::stash::RowState;

use crate::receiver::{Act, Manner};
use crate::world::World;

const UNUSABLE: &str = ",\"concurrency\":\"many\"";

#[test]
fn changes_of_an_inactive_or_unusable_client_wait_and_then_go_in_order() {
    for (status, settings) in [(Status::Inactive, ""), (Status::Active, UNUSABLE)] {
        let world = World::new();
        world.configure("a", status, settings);
        world.configure("b", Status::Active, "");
        world.life(async |life| {
            world.change("a", "1", 5);
            world.change("b", "1", 1);
            life.until("they wait", || world.rows("a").len() == 5).await;
            life.until("b has its own", || world.receiver.book().arrived("b", "1") == [1]).await;
            // Long enough for the actor to retire.
            life.pass(Duration::from_secs(100)).await;
            assert!(life.actor("a").is_none());
            world.change("a", "1", 5);
            life.until("those, too", || world.rows("a").len() == 10).await;
            assert_eq!(world.receiver.book().of("a").count(), 0);
            life.configure("a", Status::Active, "").await;
            life.rest().await;
        });
        assert_eq!(world.receiver.book().arrived("a", "1"), (1..=10).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_on_the_wire_as_the_client_goes_inactive_is_not_lost() {
    for act in [Act::Ok, Act::Status(500), Act::DoneBut(500)] {
        let world = World::new();
        world.configure("a", Status::Active, "");
        world.receiver.behave("a", Manner::always(act).slow(5_000, 5_000));
        world.life(async |life| {
            world.change("a", "1", 3);
            world.change("a", "2", 3);
            life.until("two on the wire", || world.receiver.book().open("a") == 2).await;
            life.configure("a", Status::Inactive, "").await;
            life.until("the others wait", || world.rows("a").len() >= 4).await;
            life.pass(Duration::from_secs(60)).await;
            assert_eq!(world.receiver.book().of("a").count(), 2, "{act:?}");
            world.receiver.heal();
            life.configure("a", Status::Active, "").await;
            life.rest().await;
        });
    }
}

#[test]
fn rows_of_a_client_that_is_gone_are_dead_letters() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Status(500)));
    world.life(async |life| {
        world.change("a", "1", 2);
        life.until("they wait", || world.rows("a").len() == 2).await;
        // The stash cannot be asked just then.
        world.stash.go_away(Duration::from_secs(20));
        life.delete_config("a").await;
        life.until("they are dead", || world.rows("a").iter().all(|(_, state)| *state == RowState::Dead))
            .await;
        assert!(world.clock.elapsed() < Duration::from_secs(60));
        world.change("a", "1", 1);
        life.until("the late one, too", || {
            world.rows("a") == [(1, RowState::Dead), (2, RowState::Dead), (3, RowState::Dead)]
        })
        .await;
        // The client comes back: what is new goes, what is dead stays.
        world.receiver.heal();
        life.configure("a", Status::Active, "").await;
        world.change("a", "1", 1);
        life.rest().await;
        assert_eq!(world.receiver.book().arrived("a", "1"), [4]);
        assert!(world.rows("a").iter().all(|(_, state)| *state == RowState::Superseded));
    });
}

#[test]
fn rows_of_a_client_that_goes_while_its_actor_rests_are_dead_letters() {
    let world = World::new();
    world.configure("a", Status::Inactive, "");
    world.life(async |life| {
        world.change("a", "1", 2);
        life.until("they wait", || world.rows("a").len() == 2).await;
        life.pass(Duration::from_secs(100)).await;
        assert!(life.actor("a").is_none());
        life.delete_config("a").await;
        life.until("they are dead", || world.rows("a").iter().all(|(_, state)| *state == RowState::Dead))
            .await;
        assert!(world.clock.elapsed() < Duration::from_secs(120));
    });
}

#[test]
fn a_new_webhook_is_tried_at_once() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Status(500)));
    world.life(async |life| {
        world.change("a", "1", 2);
        life.pass(Duration::from_secs(1_000)).await;
        world.receiver.heal();
        let before = world.clock.elapsed();
        life.configure("a", Status::Active, ",\"timeout_ms\":5000").await;
        life.rest().await;
        let took = world.clock.elapsed() - before;
        assert!(took < Duration::from_secs(20), "{took:?}");
    });
}

/// Long enough to be seen in the middle of it.
fn slow_burial(world: &World) {
    world.stash.set_latency(Duration::from_millis(200));
}

#[test]
fn a_client_that_comes_back_while_its_rows_are_buried_keeps_the_rest() {
    let world = World::new();
    world.configure("a", Status::Inactive, "");
    world.life(async |life| {
        for document in 0..60 {
            world.change("a", &document.to_string(), 1);
        }
        life.until("they wait", || world.rows("a").len() == 60).await;
        slow_burial(&world);
        life.delete_config("a").await;
        let dead = || world.rows("a").iter().filter(|(_, state)| *state == RowState::Dead).count();
        life.until("some are dead", || dead() > 0).await;
        life.configure("a", Status::Active, "").await;
        world.stash.heal();
        life.rest().await;
        assert!(dead() < 30, "{} are dead", dead());
        assert_eq!(world.receiver.book().of("a").count(), 60 - dead());
    });
}

#[test]
fn a_client_that_is_gone_and_buried_has_no_actor_any_more() {
    let world = World::new();
    world.configure("a", Status::Inactive, "");
    world.life(async |life| {
        world.change("a", "1", 10);
        life.until("they wait", || world.rows("a").len() == 10).await;
        slow_burial(&world);
        life.delete_config("a").await;
        // One that comes while the others are buried is buried, too.
        world.change("a", "2", 1);
        let all_dead = || {
            let rows = world.rows("a");
            rows.len() == 11 && rows.iter().all(|(_, state)| *state == RowState::Dead)
        };
        life.until("they are dead", all_dead).await;
        life.until("its actor has retired", || life.actor("a").is_none()).await;
        for _ in 0..60 {
            life.pass(Duration::from_secs(1)).await;
            assert!(life.actor("a").is_none(), "it was started again");
        }
    });
}

/// A request of a row has not started, for the connection takes longer than the lease, as the client asks for another order.
#[test]
fn another_order_while_a_row_connects_leaves_nothing_behind() {
    for settings in [",\"timeout_ms\":60000", ",\"timeout_ms\":60000,\"ordering\":\"client\""] {
        let world = World::new();
        world.configure("a", Status::Active, settings);
        world.receiver.behave("a", Manner::always(Act::Status(503)));
        world.life(async |life| {
            world.change("a", "1", 3);
            world.change("a", "2", 1);
            life.until("they wait", || world.rows("a").len() == 4).await;
            world.receiver.behave("a", Manner::always(Act::Ok).connects_in(40_000));
            let connects = || {
                let published = life.actor("a").and_then(|cell| cell.status().published);
                published.is_some_and(|state| state["in_flight"] == 1)
            };
            life.until("one connects", connects).await;
            world.receiver.heal();
            let other = if settings.contains("ordering") { "" } else { ",\"ordering\":\"client\"" };
            life.configure("a", Status::Active, other).await;
            life.within(Duration::from_secs(100), "rest", || world.is_at_rest()).await;
            life.rest().await;
        });
    }
}
