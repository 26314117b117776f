//! What answers lead to.

use std::time::Duration;

use dispatcher::domain::config::{ClientId, Status};
use dispatcher::domain::stash::RowState;

use crate::receiver::{Act, Book, Manner};
use crate::world::{Choices, World};

fn world_of_a() -> World {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world
}

#[test]
fn what_the_old_webhook_refused_goes_to_a_new_one_at_once() {
    let world = world_of_a();
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
fn a_failing_document_holds_its_own_changes_and_no_others() {
    let world = world_of_a();
    world.receiver.behave("a", Manner::always(Act::Ok).but("bad", Act::Status(422)));
    world.life(async |life| {
        world.change("a", "bad", 3);
        world.change("a", "good", 3);
        life.until("the good ones arrive", || world.receiver.book().arrived("a", "good") == [1, 2, 3]).await;
        life.until("all the bad ones have rows", || world.rows("a").len() == 3).await;
        assert_eq!(world.receiver.book().of("a").filter(|request| request.document == "bad").count(), 1);
        world.receiver.heal();
        life.rest().await;
    });
    assert_eq!(world.receiver.book().arrived("a", "bad"), [1, 2, 3]);
}

#[test]
fn three_failures_close_the_gate_and_a_canary_opens_it() {
    let world = world_of_a();
    world.receiver.behave("a", Manner::always(Act::Status(500)).slow(10, 10));
    world.life(async |life| {
        for document in ["1", "2", "3", "4", "5", "6"] {
            world.change("a", document, 2);
        }
        life.until("all wait", || world.rows("a").len() == 12).await;
        let before = world.receiver.book().of("a").count();
        assert_eq!(before, 6, "all six were on the wire before the first answer");
        world.change("a", "7", 1);
        life.pass(Duration::from_secs(3)).await;
        assert_eq!(world.receiver.book().of("a").count(), before, "the gate is closed for 4 s at least");

        life.pass(Duration::from_secs(60)).await;
        let started = |book: &Book| book.of("a").skip(before).map(|request| request.started_ms).collect();
        let canaries: Vec<i64> = started(&world.receiver.book());
        assert!((4..=7).contains(&canaries.len()), "after 5 and 10 s, then every 15 s: {canaries:?}");
        let gaps: Vec<_> = canaries.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (7_900..=15_100).contains(gap)), "{gaps:?}");

        world.receiver.behave("a", Manner::always(Act::Ok).slow(1_000, 1_000));
        let failed = world.receiver.book().of("a").count();
        life.until("a canary starts", || world.receiver.book().of("a").count() > failed).await;
        life.pass(Duration::from_millis(900)).await;
        assert_eq!(world.receiver.book().open("a"), 1, "it is alone");
        life.until("the others follow together", || world.receiver.book().open("a") > 1).await;
        life.rest().await;
    });
}

#[test]
fn a_document_that_always_fails_is_not_the_only_canary() {
    let world = world_of_a();
    world.receiver.behave("a", Manner::always(Act::Status(500)));
    world.life(async |life| {
        for document in ["bad", "worse", "good"] {
            world.change("a", document, 3);
        }
        life.until("all wait", || world.rows("a").len() == 9).await;
        let manner = Manner::always(Act::Ok).but("bad", Act::Status(500)).but("worse", Act::Status(500));
        world.receiver.behave("a", manner);
        life.until("the good one arrives", || world.receiver.book().arrived("a", "good") == [1, 2, 3]).await;
        assert!(world.clock.elapsed() < Duration::from_secs(120), "{:?}", world.clock.elapsed());
        world.receiver.heal();
        life.rest().await;
    });
}

#[test]
fn retry_after_is_respected() {
    for status in [429, 503] {
        let world = world_of_a();
        world.receiver.behave("a", Manner::always(Act::Wait(status, 120)));
        world.life(async |life| {
            world.change("a", "1", 1);
            life.until("it was asked to wait", || world.rows("a").len() == 1).await;
            let asked_ms = world.receiver.book().requests[0].ended_ms.unwrap();
            world.receiver.heal();
            world.change("a", "2", 1);
            life.rest().await;
            let book = world.receiver.book();
            let next = book.of("a").nth(1).unwrap().started_ms;
            assert!((120_000..130_000).contains(&(next - asked_ms)), "{status}: {}", next - asked_ms);
        });
    }
}

#[test]
fn a_payload_that_fails_ten_times_is_dead_and_the_next_passes() {
    let world = world_of_a();
    world.receiver.behave("a", Manner::always(Act::Status(422)));
    world.life(async |life| {
        world.change("a", "1", 1);
        life.until("it is dead", || world.rows("a") == [(1, RowState::Dead)]).await;
        assert_eq!(world.receiver.book().of("a").count(), 10);

        world.change("a", "2", 2);
        life.until("two rows more", || world.rows("a").len() == 3).await;
        world.receiver.behave("a", Manner::always(Act::Ok));
        world.change("a", "1", 1);
        life.rest().await;
        assert_eq!(world.rows("a"), [(1, RowState::Superseded)], "a newer change of it was delivered");
    });
}

#[test]
fn the_next_page_of_a_drain_does_not_overtake_what_stands_behind_a_new_dead_letter() {
    let mut choices = Choices::default();
    choices.limits.payload_attempts = 2;
    choices.limits.client_records = 5_000;
    let world = World::with(1, choices);
    world.configure("a", Status::Active, ",\"concurrency\":4");
    world.receiver.behave("a", Manner::always(Act::Status(422)));
    world.life(async |life| {
        world.change("a", "1", 600);
        life.until("all wait", || world.rows("a").len() == 600).await;
        life.until("the first is dead", || world.rows("a")[0].1 == RowState::Dead).await;
        world.receiver.behave("a", Manner::always(Act::Ok));
        life.rest().await;
    });
    let arrived = world.receiver.book().arrived("a", "1");
    assert!(arrived.is_sorted() && arrived.len() > 590);
}

#[test]
fn outages_and_refusals_kill_no_payload() {
    for act in [Act::Status(500), Act::Status(401), Act::Closed { done: true }, Act::Hang { done: true }] {
        let world = world_of_a();
        world.receiver.behave("a", Manner::always(act));
        world.life(async |life| {
            world.change("a", "1", 2);
            world.change("a", "2", 2);
            life.pass(Duration::from_secs(6 * 3600)).await;
            assert!(world.rows("a").iter().all(|(_, state)| *state == RowState::Pending), "{act:?}");
            assert!(world.receiver.book().of("a").count() > 20, "{act:?}");
            world.receiver.heal();
            life.rest().await;
        });
    }
}

#[test]
fn gone_switches_the_client_off() {
    let world = world_of_a();
    world.receiver.behave("a", Manner::always(Act::Status(410)));
    world.life(async |life| {
        world.change("a", "1", 3);
        let is_inactive = || !world.configs.data().is_active(&ClientId::new("a"));
        life.until("it is INACTIVE", is_inactive).await;
        life.until("all wait", || world.rows("a").len() == 3).await;
        let asked = world.receiver.book().of("a").count();
        world.change("a", "2", 1);
        life.pass(Duration::from_secs(600)).await;
        assert_eq!(world.receiver.book().of("a").count(), asked, "no request any more");
        world.receiver.heal();
        life.configure("a", Status::Active, "").await;
        life.rest().await;
    });
}

#[test]
fn a_rate_limit_is_kept() {
    let world = World::new();
    world.configure("a", Status::Active, ",\"rate_limit\":{\"max\":5,\"per_ms\":1000}");
    world.life(async |life| {
        for document in 0..40 {
            world.change("a", &document.to_string(), 1);
        }
        life.rest().await;
    });
    let book = world.receiver.book();
    let starts: Vec<_> = book.of("a").map(|request| request.started_ms).collect();
    assert_eq!(starts.len(), 40);
    assert!(starts.windows(6).all(|six| six[5] - six[0] >= 1_000), "{starts:?}");
    assert!(starts[39] - starts[0] < 10_000, "and no slower than it must be: {starts:?}");
}

#[test]
fn a_thousand_versions_of_one_document_go_one_by_one() {
    let world = world_of_a();
    world.receiver.behave("a", Manner::always(Act::Ok).slow(0, 5));
    world.life(async |life| {
        world.change("a", "1", 1_000);
        life.rest().await;
    });
    assert_eq!(world.receiver.book().arrived("a", "1"), (1..=1_000).collect::<Vec<_>>());
}

#[test]
fn a_sender_that_panics_is_a_failed_attempt() {
    let world = world_of_a();
    world.receiver.behave("a", Manner::always(Act::Ok).but("1", Act::Panic));
    world.life(async |life| {
        world.change("a", "1", 2);
        world.change("a", "2", 2);
        life.until("the other arrives", || world.receiver.book().arrived("a", "2") == [1, 2]).await;
        life.until("all of it wait", || world.rows("a").len() == 2).await;
        world.receiver.heal();
        life.rest().await;
    });
}

/// A crash just then must not find the dead one waiting, and the next one delivered.
#[test]
fn a_change_behind_a_dead_letter_waits_until_that_is_durable() {
    for down_after_ms in 0..60 {
        let mut choices = Choices::default();
        choices.limits.payload_attempts = 2;
        let world = World::with(down_after_ms, choices);
        world.configure("a", Status::Active, "");
        world.receiver.behave("a", Manner::always(Act::Status(422)).slow(10, 10));
        world.life(async |life| {
            world.change("a", "1", 3);
            life.until("they wait", || world.rows("a").len() == 3).await;
            world.stash.set_latency(Duration::from_millis(60));
            life.until("the second attempt", || world.receiver.book().of("a").count() == 2).await;
            world.receiver.heal();
            life.pass(Duration::from_millis(10 + down_after_ms)).await;
        });
        world.heal();
        world.life(async |life| life.rest().await);
    }
}
