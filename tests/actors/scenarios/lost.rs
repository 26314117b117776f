//! The thread of the delivery actors is lost: others take their places, with all that was unsettled.

use std::sync::Arc;
use std::time::Duration;

use dispatcher::actors::delivery_fleet::RestartActor;
use dispatcher::actors::inbox::Fence;
use dispatcher::actors::stash::{StashActor, write_all};
use dispatcher::domain::config::{ClientId, Status};
use dispatcher::metrics::Metrics;
use dispatcher::ports::StoreError;
use dispatcher::ports::stash::{Stash, StashBatch};
use dispatcher::runtime::{Arbiters, ExitReason, supervise};

use crate::memory::stash::MemoryStash;
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

#[test]
fn the_stash_refuses_what_comes_from_behind_a_fence() {
    let world = World::new();
    world.configure("a", Status::Active, "");
    world.life(async |life| {
        world.change("a", "1", 1); // by then the partitions are taken
        life.rest().await;
        world.stash.set_latency(Duration::from_millis(100));
        let store = Arc::new(MemoryStash(world.stash.clone()));
        let ownership = store.take_ownership(1, 0, 0).await.unwrap();
        let seat = Arbiters::current("test").pick(0);
        let stash = supervise(&life.kit, seat, "stash", "second", move |cell| {
            StashActor::new(cell, store, Metrics::new())
        });
        let batch = || StashBatch { client: ClientId::new("a"), ownership, lease: None, writes: Vec::new() };
        let (fence, next) = (Fence::default(), Fence::default());
        let write = |fence| write_all(&stash.addr, vec![batch()], fence);
        // The first is under way, the second waits behind it.
        let raised = async {
            life.pass(Duration::from_millis(1)).await;
            fence.raise();
        };
        let asked = async {
            let behind = async {
                tokio::task::yield_now().await;
                write(&fence).await
            };
            futures_util::future::join(write(&fence), behind).await
        };
        let ((begun, behind), ()) = futures_util::future::join(asked, raised).await;
        assert_eq!(begun, [Ok(())]);
        for refused in [behind, write(&fence).await] {
            assert!(matches!(&refused[..], [Err(StoreError::Fenced(_))]), "{refused:?}");
        }
        assert_eq!(write(&next).await, [Ok(())]);
    });
}
