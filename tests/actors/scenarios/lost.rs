//! The thread of the delivery actors is lost: others take their places, with all that was unsettled.

use std::time::Duration;

use dispatcher::actors::delivery_fleet::RestartActor;
use dispatcher::domain::config::{ClientId, Status};
use dispatcher::runtime::ExitReason;

use crate::receiver::{Act, Manner};
use crate::world::{Choices, World};

#[test]
fn its_clients_start_anew_and_nothing_is_lost_or_turned_round() {
    for seed in 0..60 {
        let world = World::with(seed, Choices::default());
        for client in ["a", "b", "c"] {
            world.configure(client, Status::Active, "");
        }
        world.stash.set_latency(Duration::from_millis(20));
        let manner = Manner::mixed(vec![(6, Act::Ok), (1, Act::Status(500)), (1, Act::DoneBut(422))]);
        world.receiver.behave("a", manner.slow(1, 60));
        world.receiver.behave("b", Manner::always(Act::Ok).slow(2_000, 5_000));
        world.life(async |life| {
            for round in 0..4_u64 {
                for client in ["a", "b", "c"] {
                    for document in ["1", "2", "3"] {
                        world.change(client, document, 5);
                    }
                }
                life.pass(Duration::from_millis((seed * 37 + round * 211) % 3_000)).await;
                life.lose_thread();
            }
            world.heal();
            life.rest().await;
            for client in ["a", "b", "c"] {
                let Some(cell) = life.actor(client) else { continue };
                let status = cell.status();
                assert!(status.exits[&ExitReason::LostArbiter] >= 3, "{status:?}");
                assert_eq!(status.restarts, status.exits.values().sum::<u64>());
            }
        });
    }
}

#[test]
fn a_thread_that_is_lost_while_the_service_stops_holds_up_nothing() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Ok).slow(5_000, 9_000));
    world.life(async |life| {
        world.change("a", "1", 3);
        life.until("one is on the wire", || world.receiver.book().open("a") == 1).await;
        let stopped = life.stop_in_order();
        let lost = async {
            life.pass(Duration::from_millis(100)).await;
            life.lose_thread();
        };
        futures_util::future::join(stopped, lost).await;
        assert!(world.clock.elapsed() < Duration::from_secs(2), "{:?}", world.clock.elapsed());
        let sent = world.receiver.book().requests.len();
        life.pass(Duration::from_secs(20)).await;
        assert_eq!(world.receiver.book().requests.len(), sent);
    });
    world.life(async |life| life.rest().await);
}

#[test]
fn an_operator_restarts_an_actor_and_only_one_that_is() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.life(async |life| {
        world.change("a", "1", 1);
        life.rest().await;
        assert!(life.fleet.send(RestartActor(ClientId::new("a"))).await.unwrap());
        life.until("it began anew", || life.actor("a").is_some_and(|cell| cell.generation() == 1)).await;
        assert_eq!(life.actor("a").unwrap().status().exits, [(ExitReason::Asked, 1)].into());
        assert!(!life.fleet.send(RestartActor(ClientId::new("b"))).await.unwrap());
        world.change("a", "1", 1);
        life.rest().await;
    });
}
