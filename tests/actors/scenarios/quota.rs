//! What was dropped beyond the quota is known after a restart, and that there is room again.

use std::time::Duration;

use dispatcher::actors::delivery::StashQuota;
use dispatcher::domain::client_state::ClientState;
use dispatcher::domain::config::{ClientId, Status};

use crate::receiver::{Act, Manner};
use crate::world::{Choices, World};

fn world(rows: u64) -> World {
    let mut choices = Choices { batch: 5, ..Choices::default() };
    choices.limits.quota = StashQuota { rows, bytes: u64::MAX };
    choices.limits.payload_attempts = u32::MAX;
    let world = World::with(1, choices);
    world.configure("a", Status::Active, "");
    world
}

fn state(world: &World) -> ClientState {
    world.states.data()[&ClientId::new("a")].clone()
}

#[test]
fn that_changes_were_dropped_outlives_the_process() {
    let world = world(20);
    world.receiver.behave("a", Manner::always(Act::Status(503)));
    world.life(async |life| {
        for document in 0..60 {
            world.change("a", &document.to_string(), 1);
            life.pass(Duration::from_millis(100)).await;
        }
        life.until("all is committed", || world.log.medium.data().is_committed()).await;
        life.pass(Duration::from_secs(1)).await;
    });
    let dropped = 60 - world.rows("a").len() as u64;
    assert!(dropped > 0);
    assert_eq!(state(&world).dropped, dropped);
    world.life(async |life| life.pass(Duration::from_secs(5)).await);
    assert_eq!(state(&world).missing(), dropped, "it needs a resync still");
}

#[test]
fn there_is_room_again_after_a_restart_just_below_the_quota() {
    let world = world(20);
    let only = |taken: &[&str]| {
        let refused = Manner::always(Act::Status(422));
        world.receiver.behave("a", taken.iter().fold(refused, |manner, one| manner.but(one, Act::Ok)));
    };
    world.receiver.behave("a", Manner::always(Act::Status(503)));
    world.life(async |life| {
        for document in 0..40 {
            world.change("a", &document.to_string(), 1);
            life.pass(Duration::from_millis(100)).await;
        }
        life.until("it is full", || state(&world).overflows).await;
        let waiting = world.rows("a").len();
        let taken: Vec<_> = (0..waiting - 19).map(|document| document.to_string()).collect();
        only(&taken.iter().map(String::as_str).collect::<Vec<_>>());
        life.until("a little room", || world.rows("a").len() == 19).await;
        life.pass(Duration::from_secs(60)).await;
        assert!(state(&world).overflows, "not enough of it");
        only(&[]);
    });
    world.life(async |life| {
        life.pass(Duration::from_secs(60)).await;
        assert!(state(&world).overflows, "it is as before");
        let taken = ["8", "9", "10", "11", "12", "13", "14"];
        only(&taken);
        life.until("much room", || world.rows("a").len() < 18).await;
        life.within(Duration::from_secs(60), "it is said", || !state(&world).overflows).await;
    });
}
