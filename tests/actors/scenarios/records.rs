//! What the operator is told, and what is remembered of attempts.

use std::time::Duration;

use dispatcher::actors::delivery_fleet::{DELIVERY_KIND, RecentOf};
use dispatcher::domain::config::{ClientId, Status};
use dispatcher::domain::operational_event::Happening;

use crate::receiver::{Act, Manner};
use crate::world::{Choices, World};

const SHORT: Duration = Duration::from_secs(2);

fn happened(world: &World) -> Vec<(Happening, String)> {
    world.events.all().into_iter().map(|event| (event.happening, event.reason)).collect()
}

fn world_of_a() -> World {
    let mut choices = Choices::default();
    choices.limits.payload_attempts = 3;
    let world = World::with(1, choices);
    world.configure("a", Status::Active, "");
    world
}

#[test]
fn failing_and_recovering_is_told_once_whatever_the_attempts() {
    let world = world_of_a();
    world.receiver.behave("a", Manner::always(Act::Status(503)));
    world.life(async |life| {
        for document in ["1", "2", "3", "4"] {
            world.change("a", document, 1);
        }
        life.pass(Duration::from_secs(300)).await;
        assert_eq!(happened(&world), [(Happening::Degraded, "status_503".to_owned())]);
        world.receiver.heal();
        life.rest().await;
        life.pass(SHORT).await;
    });
    let expected = [Happening::Degraded, Happening::Recovered].map(|event| (event, "status_503".to_owned()));
    assert_eq!(happened(&world), expected);
    // Whoever recovers after a restart was degraded before it.
    world.receiver.behave("a", Manner::always(Act::Status(500)));
    world.life(async |life| {
        world.change("a", "1", 1);
        world.change("a", "2", 1);
        world.change("a", "3", 1);
        life.until("it is degraded", || happened(&world).len() == 3).await;
        life.pass(SHORT).await;
    });
    world.receiver.heal();
    world.life(async |life| {
        life.rest().await;
        life.pass(SHORT).await;
    });
    let last = &happened(&world)[2..];
    assert_eq!(
        last,
        [Happening::Degraded, Happening::Recovered].map(|event| (event, "status_500".to_owned()))
    );
}

#[test]
fn a_dead_letter_is_told_with_what_identifies_it() {
    let world = world_of_a();
    world.receiver.behave("a", Manner::always(Act::Ok).but("bad", Act::Status(422)));
    world.life(async |life| {
        world.change("a", "bad", 1);
        world.change("a", "good", 1);
        life.until("it is told", || !world.events.all().is_empty()).await;
        life.pass(SHORT).await;
    });
    let events = world.events.all();
    assert_eq!(happened(&world), [(Happening::DeadLetter, "status_422".to_owned())]);
    assert_eq!(
        (&events[0].details["document"], &events[0].details["attempts"]),
        (&"test.things:bad".into(), &3.into())
    );
    let attempts = world.attempts.all();
    let found: Vec<_> = attempts
        .iter()
        .filter(|attempt| &*attempt.document == "test.things:bad")
        .map(|attempt| (attempt.attempt, attempt.delivered, attempt.status))
        .collect();
    assert_eq!(found, [1, 2, 3].map(|number| (number, false, Some(422))));
}

#[test]
fn a_client_that_is_gone_and_comes_back_is_told_also_when_nothing_waits_for_it() {
    let world = world_of_a();
    world.receiver.behave("a", Manner::always(Act::Status(410)));
    world.life(async |life| {
        world.change("a", "1", 1);
        life.until("it is switched off", || !world.events.all().is_empty()).await;
        world.receiver.heal();
        life.configure("a", Status::Active, "").await;
        life.rest().await;
        life.configure("a", Status::Inactive, "").await;
        // Its actor has nothing to do, and goes.
        life.until("it is retired", || life.actor("a").is_none()).await;
        life.configure("a", Status::Active, "").await;
        life.pass(SHORT).await;
    });
    let off = || "config is not active".to_owned();
    let expected = [
        (Happening::Disabled, "status_410".to_owned()),
        (Happening::Enabled, off()),
        (Happening::Enabled, off()),
    ];
    assert_eq!(happened(&world), expected);
}

#[test]
fn failures_and_what_follows_them_are_recorded_and_ordinary_deliveries_only_remembered() {
    let world = world_of_a();
    world.configure("a", Status::Active, ",\"concurrency\":1");
    world.life(async |life| {
        let recent = async || {
            let asked = life.fleet.send(RecentOf(ClientId::new("a"))).await.unwrap();
            asked.into_iter().map(|attempt| attempt.document.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(recent().await, [""; 0]);
        for number in 0..30 {
            world.change("a", &number.to_string(), 1);
        }
        life.rest().await;
        life.pass(SHORT).await;
        assert_eq!(world.attempts.all(), []);
        let last: Vec<String> = (10..30).rev().map(|number| format!("test.things:{number}")).collect();
        assert_eq!(recent().await, last);

        world.receiver.behave("a", Manner::always(Act::Status(429)));
        world.change("a", "x", 1);
        life.until("it failed", || !world.attempts.all().is_empty()).await;
        world.receiver.heal();
        life.rest().await;
        life.pass(SHORT).await;
        let attempts = world.attempts.all();
        let found: Vec<_> = attempts
            .iter()
            .map(|attempt| (attempt.attempt, attempt.delivered, attempt.status, attempt.reason.as_str()))
            .collect();
        assert_eq!(found, [(1, false, Some(429), "status_429"), (2, true, Some(200), "")]);
        // It outlives a restart of the actor.
        life.restart(DELIVERY_KIND, "a");
        life.pass(SHORT).await;
        assert_eq!(recent().await.len(), 20);
    });
}
