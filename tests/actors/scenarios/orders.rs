//! What a client may choose: the order of everything it gets, and the newest state only.

use std::time::Duration;

use dispatcher::domain::config::Status;
use fastrand::Rng;

use crate::random::some_manner;
use crate::receiver::{Act, Manner};
use crate::world::{Choices, World};

const DOCUMENTS: [&str; 4] = ["1", "2", "3", "4"];
const BY_CLIENT: &str = ",\"ordering\":\"client\"";
const COALESCE: &str = ",\"coalesce\":true";

fn world(settings: &str) -> World {
    let world = World::new();
    world.configure("a", Status::Active, settings);
    world
}

/// The offsets in the order of their first arrival.
fn first_arrivals(world: &World) -> Vec<i64> {
    let book = world.receiver.book();
    let mut seen = Vec::new();
    for index in &book.arrivals {
        let offset = book.requests[*index].offset;
        if !seen.contains(&offset) {
            seen.push(offset);
        }
    }
    seen
}

#[test]
fn in_the_order_of_the_client_one_failure_holds_everything_behind_it() {
    let world = world(BY_CLIENT);
    world.receiver.behave("a", Manner::always(Act::Ok).but("2", Act::Status(422)).slow(1, 5));
    world.life(async |life| {
        for _ in 0..3 {
            for document in DOCUMENTS {
                world.change("a", document, 1);
            }
        }
        life.until("the second one failed", || world.rows("a").len() == 11).await;
        life.pass(Duration::from_secs(3)).await;
        assert_eq!(world.receiver.book().of("a").count(), 2, "nothing behind it was sent");
        assert_eq!(world.receiver.book().arrived("a", "1"), [1]);
        world.receiver.heal();
        life.rest().await;
    });
    assert!(first_arrivals(&world).is_sorted(), "{:?}", first_arrivals(&world));
}

#[test]
fn in_the_order_of_the_client_a_dead_letter_lets_the_next_pass() {
    let world = world(BY_CLIENT);
    world.receiver.behave("a", Manner::always(Act::Ok).but("2", Act::Status(422)));
    world.life(async |life| {
        for document in DOCUMENTS {
            world.change("a", document, 1);
        }
        life.rest().await;
        assert_eq!(world.receiver.book().arrived("a", "4"), [1]);
        assert_eq!(world.rows("a").len(), 1, "the refused one is dead");
    });
}

#[test]
fn histories_in_the_order_of_the_client() {
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let mut choices = Choices::default();
        choices.limits.client_records = rng.usize(1..=20);
        choices.limits.insurance_after = Duration::from_millis([200, 2_000][rng.usize(0..2)]);
        choices.limits.payload_attempts = u32::MAX;
        let world = World::with(seed, choices);
        let settings = if rng.bool() { BY_CLIENT } else { ",\"ordering\":\"client\",\"coalesce\":true" };
        world.configure("a", Status::Active, settings);
        world.life(async |life| {
            for _ in 0..rng.usize(1..25) {
                match rng.u8(0..10) {
                    0..5 => (0..rng.usize(1..12))
                        .for_each(|_| world.change("a", DOCUMENTS[rng.usize(0..DOCUMENTS.len())], 1)),
                    5..8 => world.receiver.behave("a", some_manner(&mut rng, "gone", &DOCUMENTS)),
                    _ => life.restart("delivery", "a"),
                }
                assert!(world.receiver.book().open("a") <= 1, "SEED={seed}: two at once");
                life.pass(Duration::from_millis(rng.u64(0..8_000))).await;
            }
            world.heal();
            life.rest().await;
        });
        let arrived = first_arrivals(&world);
        assert!(arrived.is_sorted(), "SEED={seed}: {arrived:?}");
    }
}

#[test]
fn an_order_that_is_changed_under_way_turns_nothing_round() {
    let world = world("");
    world.receiver.behave("a", Manner::always(Act::Ok).slow(500, 1_500));
    world.life(async |life| {
        for settings in [BY_CLIENT, "", COALESCE, BY_CLIENT] {
            for document in DOCUMENTS {
                world.change("a", document, 4);
            }
            life.until("some are on the wire", || world.receiver.book().open("a") > 0).await;
            life.configure("a", Status::Active, settings).await;
            world.change("a", "1", 2);
        }
        life.rest().await;
        let open = |world: &World| world.receiver.book().open("a");
        for document in DOCUMENTS {
            world.change("a", document, 2);
        }
        life.until("one is on the wire", || open(&world) == 1).await;
        life.pass(Duration::from_millis(100)).await;
        assert_eq!(open(&world), 1, "the order of the client counts now");
        life.rest().await;
    });
}

#[test]
fn of_what_waits_only_the_newest_goes_when_the_client_wants_that() {
    let world = world(COALESCE);
    world.receiver.behave("a", Manner::always(Act::Status(503)));
    world.life(async |life| {
        for document in DOCUMENTS {
            world.change("a", document, 50);
        }
        life.until("all wait", || world.rows("a").len() == 200).await;
        let before = world.receiver.book().of("a").count();
        world.receiver.heal();
        life.rest().await;
        let sent = world.receiver.book().of("a").count() - before;
        assert!(sent <= 12, "{sent} requests: the canary, then the newest of each document and page");
        for document in DOCUMENTS {
            assert_eq!(world.receiver.book().arrived("a", document).last(), Some(&50));
        }
    });
}

#[test]
fn a_webhook_that_came_back_is_not_run_over() {
    let world = world(",\"concurrency\":32");
    world.receiver.behave("a", Manner::always(Act::Status(503)));
    world.life(async |life| {
        for document in 0..200 {
            world.change("a", &document.to_string(), 1);
        }
        life.until("all wait", || world.rows("a").len() == 200).await;
        world.receiver.behave("a", Manner::always(Act::Ok).slow(1_000, 1_000));
        let failed = world.receiver.book().of("a").count();
        let done = |world: &World| {
            let book = world.receiver.book();
            book.of("a").skip(failed).filter(|request| request.acknowledged).count()
        };
        life.until("thirty are delivered", || {
            let open = world.receiver.book().open("a");
            let done = done(&world);
            assert!(open <= done + 1, "{open} at once after {done} answers");
            done >= 30
        })
        .await;
        life.rest().await;
    });
}
