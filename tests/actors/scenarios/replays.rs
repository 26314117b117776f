//! Replays of what was given up.

use std::time::Duration;

use dispatcher::actors::delivery::StashQuota;
use dispatcher::domain::config::Status;
use dispatcher::domain::stash::RowState;
use dispatcher::domain::transfer::EventId;

use crate::receiver::{Act, Manner};
use crate::world::{Choices, Life, World};

fn world() -> World {
    let mut choices = Choices::default();
    choices.limits.payload_attempts = 2;
    let world = World::with(1, choices);
    world.configure("a", Status::Active, "");
    world
}

/// A change of document 1 that is refused until it is dead; then the receiver is well.
async fn one_dies(world: &World, life: &Life<'_>) -> EventId {
    world.receiver.behave("a", Manner::always(Act::Ok).but("1", Act::Status(422)));
    world.change("a", "1", 1);
    world.change("a", "2", 3);
    life.until("death", || world.rows("a") == [(1, RowState::Dead)]).await;
    world.receiver.heal();
    world.event("a", "1", 1)
}

/// Which requests of document 1 said that they are replays.
fn replayed(world: &World) -> Vec<bool> {
    let book = world.receiver.book();
    book.of("a").filter(|request| request.document == "1").map(|request| request.replayed).collect()
}

#[test]
fn a_dead_letter_arrives_by_a_replay_and_says_so() {
    let world = world();
    world.life(async |life| {
        let event = one_dies(&world, life).await;
        assert!(world.replay("a", &event, false));
        life.until("delivery", || world.rows("a").is_empty()).await;
        life.rest().await;
        assert_eq!(world.receiver.book().arrived("a", "1"), [1]);
        assert_eq!(replayed(&world), [false, false, true]);
        world.change("a", "1", 1);
        life.rest().await;
        assert_eq!(world.receiver.book().arrived("a", "1"), [1, 2]);
        assert_eq!(replayed(&world), [false, false, true, false]);
    });
}

#[test]
fn a_replay_that_is_refused_again_is_dead_at_once() {
    let world = world();
    world.life(async |life| {
        let event = one_dies(&world, life).await;
        world.receiver.behave("a", Manner::always(Act::Status(400)));
        world.replay("a", &event, false);
        life.until("another attempt", || replayed(&world).len() == 3).await;
        life.rest().await;
        let stash = world.stash.data();
        let row = stash.row(&event).unwrap();
        assert_eq!((row.state, row.attempts, row.reason.as_deref()), (RowState::Dead, 3, Some("status_400")));
    });
}

#[test]
fn a_replay_waits_while_the_webhook_is_away() {
    let world = world();
    world.life(async |life| {
        let event = one_dies(&world, life).await;
        world.receiver.behave("a", Manner::always(Act::Status(503)));
        world.change("a", "3", 5);
        life.until("a closed gate", || world.rows("a").len() == 6).await;
        world.replay("a", &event, false);
        life.until("it waits", || world.rows("a").contains(&(1, RowState::Pending))).await;
        world.receiver.heal();
        life.rest().await;
        assert_eq!(world.receiver.book().arrived("a", "1"), [1]);
    });
    assert!(world.rows("a").is_empty());
}

#[test]
fn a_replay_behind_a_change_that_is_on_the_wire_brings_nothing_back() {
    let world = world();
    world.life(async |life| {
        let event = one_dies(&world, life).await;
        world.receiver.behave("a", Manner::always(Act::Ok).slow(900, 900));
        world.change("a", "1", 1);
        life.until("it is on the wire", || world.receiver.book().open("a") == 1).await;
        world.replay("a", &event, false);
        life.rest().await;
        assert_eq!(world.receiver.book().arrived("a", "1"), [2]);
        assert_eq!(world.rows("a"), [(1, RowState::Superseded)]);
        // Again, as if nobody had looked.
        world.replay("a", &event, false);
        life.rest().await;
        assert_eq!(world.receiver.book().arrived("a", "1"), [2]);
    });
}

#[test]
fn a_replay_and_a_change_in_one_batch_keep_their_order() {
    for replay_first in [true, false] {
        let world = world();
        world.life(async |life| {
            let event = one_dies(&world, life).await;
            world.log.medium.go_away(Duration::from_secs(1));
            if replay_first {
                world.replay("a", &event, false);
            }
            world.change("a", "1", 1);
            if !replay_first {
                world.replay("a", &event, false);
            }
            life.rest().await;
            let arrived = world.receiver.book().arrived("a", "1");
            assert_eq!(arrived, if replay_first { vec![1, 2] } else { vec![2] });
            assert_eq!(world.rows("a").is_empty(), replay_first);
        });
    }
}

#[test]
fn a_forced_replay_goes_back_and_later_changes_go_on() {
    let world = world();
    world.life(async |life| {
        let event = one_dies(&world, life).await;
        world.change("a", "1", 2);
        life.rest().await;
        assert_eq!(world.rows("a"), [(1, RowState::Superseded)]);
        world.replay("a", &event, true);
        world.replay("a", &event, true);
        life.until("delivery", || world.rows("a").is_empty()).await;
        world.change("a", "1", 1);
        life.rest().await;
        assert_eq!(world.receiver.book().arrived("a", "1"), [2, 3, 1, 4]);
        let book = world.receiver.book();
        let offsets: Vec<_> = book
            .of("a")
            .filter(|request| request.document == "1" && request.acknowledged)
            .map(|request| request.offset)
            .collect();
        assert!(offsets.is_sorted(), "its sequence is new: {offsets:?}");
    });
}

#[test]
fn replays_of_one_document_keep_its_order() {
    let world = world();
    world.life(async |life| {
        world.receiver.behave("a", Manner::always(Act::Status(422)));
        world.change("a", "1", 4);
        let all_dead = || world.rows("a").iter().filter(|(_, state)| *state == RowState::Dead).count() == 4;
        life.until("death", all_dead).await;
        world.receiver.behave("a", Manner::always(Act::Ok).slow(400, 900));
        for version in [1, 3, 2, 4] {
            world.replay("a", &world.event("a", "1", version), false);
        }
        life.rest().await;
        // The second came when the third waited already.
        assert_eq!(world.receiver.book().arrived("a", "1"), [1, 3, 4]);
        assert_eq!(world.rows("a"), [(2, RowState::Superseded)]);
    });
}

#[test]
fn a_crash_in_the_middle_of_a_replay_loses_nothing_and_turns_nothing_round() {
    for ms in (0..3_000).step_by(37) {
        let world = world();
        let event = world.life(async |life| {
            let event = one_dies(&world, life).await;
            world.stash.set_latency(Duration::from_millis(100));
            world.log.medium.set_latency(Duration::from_millis(100));
            world.receiver.behave("a", Manner::always(Act::Ok).slow(0, 900));
            world.replay("a", &event, false);
            life.pass(Duration::from_millis(ms % 700)).await;
            world.change("a", "1", 1);
            life.pass(Duration::from_millis(ms)).await;
            event
        });
        world.life(async |life| {
            world.heal();
            life.rest().await;
            life.pass(Duration::from_secs(20)).await;
            let arrived = world.receiver.book().arrived("a", "1");
            assert_eq!(arrived.last(), Some(&2), "after {ms} ms: {arrived:?}");
            let row = world.stash.data().row(&event).map(|row| row.state);
            assert!(arrived.contains(&1) || row == Some(RowState::Superseded), "after {ms} ms: {arrived:?}");
            assert!(world.judge().is_empty(), "after {ms} ms: {:?}", world.judge());
        });
    }
}

#[test]
fn a_replay_beyond_the_quota_brings_nothing_back_and_is_asked_for_again() {
    let mut choices = Choices::default();
    choices.limits.payload_attempts = 2;
    choices.limits.quota = StashQuota { rows: 5, bytes: u64::MAX };
    let world = World::with(1, choices);
    world.configure("a", Status::Active, "");
    world.life(async |life| {
        let event = one_dies(&world, life).await;
        world.receiver.behave("a", Manner::always(Act::Status(503)));
        for document in 10..30 {
            world.change("a", &document.to_string(), 1);
            life.pass(Duration::from_millis(50)).await;
        }
        world.replay("a", &event, false);
        life.until("all is committed", || world.log.medium.data().is_committed()).await;
        assert!(world.rows("a").contains(&(1, RowState::Dead)), "{:?}", world.rows("a"));
        world.receiver.heal();
        life.until("what waited is delivered", || world.stash.data().pending() == 0).await;
        life.pass(Duration::from_secs(10)).await;
        world.replay("a", &event, false);
        life.until("delivery", || world.rows("a").is_empty()).await;
        assert_eq!(world.receiver.book().arrived("a", "1"), [1]);
    });
}
