//! What is in memory at a time.

use std::cell::Cell;
use std::time::Duration;

use dispatcher::domain::config::Status;

use crate::receiver::{Act, Manner};
use crate::world::{Choices, World};

#[test]
fn rows_that_come_back_take_no_more_memory_than_a_client_may() {
    let mut choices = Choices::default();
    // Two or three of the changes below.
    choices.limits.client_bytes = 600;
    let world = World::with(1, choices);
    world.configure("a", Status::Active, "");
    world.receiver.behave("a", Manner::always(Act::Status(503)));
    world.life(async |life| {
        for document in 0..40 {
            world.change("a", &document.to_string(), 1);
        }
        life.until("all wait", || world.rows("a").len() == 40 && world.receiver.book().open("a") == 0).await;
        world.receiver.behave("a", Manner::always(Act::Ok).slow(1_000, 2_000));
        let most = Cell::new(0);
        life.until("most are delivered", || {
            most.set(most.get().max(world.receiver.book().open("a")));
            world.rows("a").len() < 5
        })
        .await;
        assert!(most.get() < 8, "{} requests hold their bodies at a time", most.get());
        world.receiver.heal();
        life.pass(Duration::from_secs(5)).await;
        life.rest().await;
    });
}

#[test]
fn rows_of_all_clients_share_a_bound_and_each_client_has_one_at_least() {
    let clients = ["a", "b", "c", "d", "e", "f"];
    // Four of the changes below, and none of a client's pages is smaller.
    let choices = Choices { memory_bytes: 1_200, ..Choices::default() };
    let world = World::with(1, choices);
    for client in clients {
        world.configure(client, Status::Active, "");
        world.receiver.behave(client, Manner::always(Act::Status(503)));
    }
    world.life(async |life| {
        for document in 0..10 {
            for client in clients {
                world.change(client, &document.to_string(), 1);
            }
        }
        let waiting = || clients.iter().map(|client| world.rows(client).len()).sum::<usize>();
        life.until("all wait", || waiting() == 60).await;
        for client in clients {
            world.receiver.behave(client, Manner::always(Act::Ok).slow(1_000, 2_000));
        }
        let (most, started) = (Cell::new(0), Cell::new(0));
        life.until("all are delivered", || {
            let open: Vec<_> = clients.iter().map(|client| world.receiver.book().open(client)).collect();
            most.set(most.get().max(open.iter().sum()));
            started.set(started.get().max(open.iter().filter(|open| **open > 0).count()));
            waiting() == 0
        })
        .await;
        assert!(most.get() <= clients.len() + 4, "{} requests hold their bodies at a time", most.get());
        assert!(started.get() > 4, "only {} clients had a request at a time", started.get());
        world.receiver.heal();
        life.rest().await;
    });
}
