//! What the webhook before this one answers is no news of this one.

use std::time::Duration;

use dispatcher::domain::client_state::Phase;
use dispatcher::domain::config::{ClientId, Status};

use crate::receiver::{Act, Manner};
use crate::world::{Choices, Life, World};

/// Requests are on the wire to the old webhook, as the client gets a new one.
async fn moves(life: &Life<'_>, world: &World, answer: Act) {
    world.receiver.behave("a", Manner::always(answer).slow(3_000, 3_000));
    for document in 0..8 {
        world.change("a", &document.to_string(), 2);
    }
    life.until("eight on the wire", || world.receiver.book().open("a") == 8).await;
    world.receiver.heal();
    world.move_webhook("a");
    life.configure("a", Status::Active, "").await;
}

#[test]
fn what_the_old_webhook_says_does_not_close_the_gate_of_the_new_one() {
    for answer in [
        Act::Wait(503, 3_600),
        Act::Wait(429, 3_600),
        Act::Status(500),
        Act::Status(401),
        Act::Status(404),
        Act::Closed { done: false },
    ] {
        let world = World::new();
        world.configure("a", Status::Active, "");
        world.life(async |life| {
            moves(life, &world, answer).await;
            for _ in 0..40 {
                life.pass(Duration::from_millis(500)).await;
                let state = world.states.data().get(&ClientId::new("a")).cloned();
                assert!(state.is_none_or(|state| state.phase != Phase::Degraded), "{answer:?}");
            }
            assert!(world.is_at_rest(), "{answer:?}\n{}", life.describe());
            life.rest().await;
        });
    }
}

#[test]
fn what_the_old_webhook_refused_counts_for_nothing() {
    let mut choices = Choices::default();
    choices.limits.payload_attempts = 1;
    let world = World::with(1, choices);
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Status(503)));
    world.life(async |life| {
        for document in 0..8 {
            world.change("a", &document.to_string(), 1);
        }
        life.until("they wait", || world.rows("a").len() == 8).await;
        // Rows, which one more refusal makes dead letters.
        world.receiver.behave("a", Manner::always(Act::Status(422)).slow(3_000, 3_000));
        life.until("one on the wire", || world.receiver.book().open("a") > 0).await;
        world.receiver.heal();
        world.move_webhook("a");
        life.configure("a", Status::Active, "").await;
        life.rest().await;
        assert_eq!(world.rows("a"), [], "a dead letter");
    });
}

#[test]
fn what_the_old_webhook_took_is_delivered_and_says_nothing_of_the_new_one() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.life(async |life| {
        world.receiver.behave("a", Manner::always(Act::Ok).slow(10_000, 10_000));
        world.change("a", "slow", 1);
        life.until("one on the wire", || world.receiver.book().open("a") == 1).await;
        world.receiver.behave("a", Manner::always(Act::Status(503)));
        world.move_webhook("a");
        life.configure("a", Status::Active, "").await;
        for document in 0..5 {
            world.change("a", &document.to_string(), 1);
        }
        let state = || world.states.data().get(&ClientId::new("a")).cloned();
        let degraded = || state().is_some_and(|state| state.phase == Phase::Degraded);
        life.until("the new one fails", degraded).await;
        let failing_since_ms = state().unwrap().failing_since_ms;
        life.until("the old one has answered", || !world.receiver.book().arrived("a", "slow").is_empty())
            .await;
        life.pass(Duration::from_secs(30)).await;
        assert!(degraded(), "the gate was opened");
        assert_eq!(state().unwrap().failing_since_ms, failing_since_ms, "its failure clock began anew");
        world.receiver.heal();
        life.rest().await;
    });
    assert_eq!(world.receiver.book().arrived("a", "slow"), [1]);
}
