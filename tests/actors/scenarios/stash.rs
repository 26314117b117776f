//! The stash: insurance, spilling, order across it, and its absence.

use std::time::Duration;

use dispatcher::actors::delivery::StashQuota;
use dispatcher::domain::config::{ClientId, Status};
use dispatcher::domain::transfer::DocumentHash;

use crate::receiver::{Act, Manner};
use crate::world::{Choices, World};

#[test]
fn a_slow_answer_does_not_hold_the_commit() {
    for (act, arrived) in [(Act::Ok, vec![1, 2, 3]), (Act::Status(500), vec![1, 2, 3])] {
        let world = World::new();
        world.configure("a", Status::Active, ",\"timeout_ms\":60000");
        world.receiver.behave("a", Manner::always(act).slow(30_000, 30_000));
        world.life(async |life| {
            world.change("a", "1", 3);
            life.until("committed", || world.log.medium.data().is_committed()).await;
            assert!(world.clock.elapsed() < Duration::from_secs(4), "{:?}", world.clock.elapsed());
            assert_eq!(world.rows("a").len(), 3);
            assert_eq!(world.receiver.book().open("a"), 1, "the rows behind it are held");
            life.pass(Duration::from_secs(20)).await;
            assert_eq!(world.receiver.book().of("a").count(), 1);
            life.pass(Duration::from_secs(10)).await;
            assert_eq!(world.rows("a").len(), if act == Act::Ok { 2 } else { 3 });
            world.receiver.heal();
            life.rest().await;
        });
        assert_eq!(world.receiver.book().arrived("a", "1"), arrived);
    }
}

#[test]
fn what_does_not_fit_is_spilled_and_follows_in_order() {
    let mut choices = Choices::default();
    choices.limits.client_records = 10;
    let world = World::with(1, choices);
    world.configure("a", Status::Active, ",\"concurrency\":1");
    world.receiver.behave("a", Manner::always(Act::Ok).slow(100, 100));
    world.life(async |life| {
        for version in 0..40 {
            world.change("a", ["1", "2", "3"][version % 3], 1);
        }
        life.pass(Duration::from_millis(500)).await;
        assert!(world.stash.data().inserted.len() >= 20);
        life.rest().await;
    });
    assert_eq!(world.receiver.book().requests.len(), 40, "each once");
}

#[test]
fn a_partition_that_is_full_is_paused_and_goes_on() {
    let choices =
        Choices { unsettled_per_partition: 20, batch: 7, memory_bytes: 10_000, ..Choices::default() };
    let world = World::with(1, choices);
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Ok).slow(100, 1_000));
    world.life(async |life| {
        for document in 0..300 {
            world.change("a", &(document % 50).to_string(), 1);
        }
        life.rest().await;
    });
}

#[test]
fn without_a_stash_a_failure_holds_its_lane_and_healthy_clients_go_on() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.configure("b", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Ok).but("bad", Act::Status(500)));
    world.life(async |life| {
        // Both run: an actor that starts has to ask the stash first.
        world.change("a", "0", 1);
        world.change("b", "0", 1);
        life.rest().await;
        world.stash.go_away(Duration::from_secs(10));
        world.change("a", "bad", 2);
        world.change("a", "good", 1);
        world.change("b", "1", 1);
        life.until("good and b arrive", || {
            let book = world.receiver.book();
            book.arrived("a", "good") == [1] && book.arrived("b", "1") == [1]
        })
        .await;
        life.pass(Duration::from_secs(5)).await;
        assert!(!world.log.medium.data().is_committed());
        assert_eq!(world.receiver.book().of("a").filter(|request| request.document == "bad").count(), 1);
        world.receiver.heal();
        life.rest().await;
    });
    assert_eq!(world.receiver.book().arrived("a", "bad"), [1, 2]);
}

#[test]
fn a_row_that_is_being_written_as_a_drain_ends_is_not_forgotten() {
    for seed in 0..200 {
        let world = World::with(seed, Choices::default());
        world.configure("a", Status::Active, "");
        world.stash.set_latency(Duration::from_millis(40));
        world.receiver.behave("a", Manner::mixed(vec![(1, Act::Ok), (1, Act::Status(500))]));
        world.life(async |life| {
            for _ in 0..20 {
                world.change("a", "1", 1);
                world.change("a", "2", 1);
                life.pass(Duration::from_millis(900)).await;
            }
            world.receiver.heal();
            life.rest().await;
        });
    }
}

#[test]
fn rows_of_an_idle_partition_go_although_the_copy_of_its_commit_was_missed() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Status(500)));
    world.life(async |life| {
        world.change("a", "1", 2);
        life.until("they wait", || world.rows("a").len() == 2).await;
        world.stash.go_away(Duration::from_secs(60));
        life.until("committed", || world.log.medium.data().is_committed()).await;
    });
    world.heal();
    world.life(async |life| life.rest().await);
    assert_eq!(world.receiver.book().arrived("a", "1"), [1, 2]);
}

/// The stash is asked about a change; before it answers, an older one of the document fails and gets a row.
#[test]
fn a_row_that_comes_while_the_stash_is_asked_is_not_overtaken() {
    for seed in 0..100 {
        let world = World::with(seed, Choices::default());
        world.configure("a", Status::Active, "");
        let manner = Manner::mixed(vec![(2, Act::Ok), (1, Act::Status(401))]).but("bad", Act::Status(422));
        world.receiver.behave("a", manner);
        world.life(async |life| {
            // With a row that waits, the stash is asked about every batch.
            world.change("a", "bad", 1);
            life.until("it has a row", || world.rows("a").len() == 1).await;
            world.stash.set_latency(Duration::from_millis(100));
            for document in 0..60 {
                world.change("a", &(document % 12).to_string(), 2);
                life.pass(Duration::from_millis(15)).await;
            }
            world.receiver.heal();
            life.rest().await;
        });
    }
}

/// Rows come into the lanes as they are buried; a new change of their document, which has no row that waits by then, comes behind
/// them. Then they leave the lanes: because the config changes, or because the row before it fails.
#[test]
fn a_change_behind_rows_that_are_buried_just_then_is_not_lost() {
    const SETTINGS: &str = ",\"rate_limit\":{\"max\":1,\"per_ms\":1000}";
    for (seed, changes_again) in (0..40).flat_map(|seed| [(seed, false), (seed, true)]) {
        let world = World::with(seed, Choices::default());
        world.configure("a", Status::Inactive, "");
        world.life(async |life| {
            world.change("a", "1", 6);
            life.until("they wait", || world.rows("a").len() == 6).await;
            life.configure("a", Status::Active, SETTINGS).await;
            life.pass(Duration::from_millis(500)).await;
            world.stash.set_latency(Duration::from_millis(40));
            life.delete_config("a").await;
            life.configure("a", Status::Active, SETTINGS).await;
            life.pass(Duration::from_millis(100)).await;
            world.change("a", "1", 2);
            life.pass(Duration::from_millis(200)).await;
            if changes_again {
                life.configure("a", Status::Active, "").await;
            } else {
                world.receiver.behave("a", Manner::always(Act::Status(401)));
                life.pass(Duration::from_millis(2_000)).await;
            }
            world.receiver.heal();
            life.rest().await;
        });
    }
}

/// Who has rows was read when the partitions were taken: nobody else writes any.
#[test]
fn clients_without_rows_are_delivered_while_the_stash_is_away() {
    let world = World::new();
    for client in ["a", "b", "d"] {
        world.configure(client, Status::Active, "");
    }
    world.receiver.behave("d", Manner::always(Act::Status(500)));
    world.life(async |life| {
        world.change("a", "1", 1);
        world.change("d", "1", 1);
        life.until("d waits", || world.rows("d").len() == 1).await;
        // The actor of a has gone by then, b never had one.
        life.pass(Duration::from_secs(100)).await;
        assert!(life.actor("a").is_none() && life.actor("b").is_none());
        world.stash.go_away(Duration::from_secs(600));
        let before = world.clock.elapsed();
        for version in 2..50 {
            world.change("a", "1", 1);
            world.change("b", "1", 1);
            world.change("d", "1", 1);
            let arrived = || {
                let book = world.receiver.book();
                book.arrived("a", "1").last() == Some(&version)
                    && book.arrived("b", "1").last() == Some(&(version - 1))
            };
            life.until("a and b arrive", arrived).await;
            life.pass(Duration::from_secs(5)).await;
        }
        assert!(world.clock.elapsed() - before < Duration::from_secs(300));
        world.receiver.heal();
        life.rest().await;
    });
    assert_eq!(world.receiver.book().arrived("d", "1").last(), Some(&49));
}

#[test]
fn what_the_stash_will_never_take_is_a_dead_letter_and_lets_the_next_pass() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.stash.data().refuses.insert(DocumentHash::of("wnx-test", "things", "bad"));
    world.receiver.behave("a", Manner::always(Act::Status(422)));
    world.life(async |life| {
        for document in ["good", "bad", "other"] {
            world.change("a", document, 2);
        }
        life.until("committed", || world.log.medium.data().is_committed()).await;
        assert_eq!(world.rows("a").len(), 4);
        let dead = world.log.medium.data().dead.clone();
        assert!(dead.iter().all(|letter| letter.reason == "stash_refused"));
        assert_eq!(dead.len(), 2, "{dead:?}");
        world.receiver.heal();
        world.change("a", "bad", 1);
        life.rest().await;
    });
    assert_eq!(world.receiver.book().arrived("a", "bad"), [3]);
}

#[test]
fn what_waits_beyond_the_quota_is_dropped_and_the_client_goes_on() {
    let mut choices = Choices { batch: 10, ..Choices::default() };
    choices.limits.quota = StashQuota { rows: 30, bytes: u64::MAX };
    let world = World::with(1, choices);
    let state = |world: &World| world.states.data().get(&ClientId::new("a")).cloned();
    world.configure("a", Status::Active, "");
    world.configure("b", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Status(503)));
    world.life(async |life| {
        let change = |documents: std::ops::Range<u32>| {
            for document in documents.map(|document| document.to_string()) {
                world.change("a", &document, 1);
                world.change("b", &document, 1);
            }
        };
        change(0..40);
        life.until("it is said", || state(&world).is_some_and(|state| state.overflows)).await;
        change(40..100);
        life.until("all is committed", || world.log.medium.data().is_committed()).await;
        let waiting = world.rows("a").len();
        assert_eq!(waiting, 40, "what was under way as it was asked is kept, and nothing after it");
        assert_eq!(world.receiver.book().of("b").count(), 100, "nobody else loses anything");

        world.receiver.heal();
        life.until("what waited is delivered", || world.stash.data().pending() == 0).await;
        life.until("there is room", || state(&world).is_some_and(|state| !state.overflows)).await;
        assert_eq!(state(&world).unwrap().dropped as usize, 100 - waiting);
        // It goes on like any other client.
        world.change("a", "new", 3);
        life.until("new ones arrive", || world.receiver.book().arrived("a", "new") == [1, 2, 3]).await;
    });
}
