//! Several replicas: who sends, and who does not any more.

use std::collections::BTreeSet;
use std::time::Duration;

use dispatcher::domain::config::Status;

use crate::cluster::Cluster;
use crate::receiver::{Act, Manner};
use crate::world::{Choices, World};

const CLIENTS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const TURN: Duration = Duration::from_millis(10);

fn world() -> World {
    let world = World::with(1, Choices { partitions: 4, ..Choices::default() });
    CLIENTS.iter().for_each(|client| world.configure(client, Status::Active, ""));
    world
}

/// Every client gets some changes.
fn change_all(world: &World, count: usize) {
    for client in CLIENTS {
        for document in ["1", "2"] {
            world.change(client, document, count);
        }
    }
}

/// Which processes sent something since this request.
fn senders(world: &World, since: usize) -> BTreeSet<u32> {
    world.receiver.book().requests[since..].iter().map(|request| request.life).collect()
}

fn sent(world: &World) -> usize {
    world.receiver.book().requests.len()
}

#[test]
fn replicas_share_the_clients_and_a_new_one_gets_its_part() {
    let world = world();
    let mut cluster = Cluster::new(&world, TURN, 1);
    cluster.start();
    cluster.start();
    cluster.pass(Duration::from_secs(5));
    change_all(&world, 5);
    cluster.rest();
    assert_eq!(senders(&world, 0), BTreeSet::from([1, 2]));
    cluster.start();
    for _ in 0..10 {
        change_all(&world, 5);
        cluster.pass(Duration::from_secs(1));
    }
    cluster.rest();
    let before = sent(&world);
    change_all(&world, 1);
    cluster.rest();
    assert!(senders(&world, before).contains(&3));
    let changes = CLIENTS.len() * 2 * (5 + 50 + 1);
    assert_eq!(sent(&world), changes, "partitions were let go of in order: nothing came twice");
}

#[test]
fn a_replica_that_stood_still_starts_nothing_of_what_it_had() {
    let world = world();
    for client in CLIENTS {
        world.receiver.behave(client, Manner::always(Act::Ok).slow(200, 400));
        world.configure(client, Status::Active, ",\"concurrency\":1");
    }
    let mut cluster = Cluster::new(&world, TURN, 1);
    cluster.start();
    cluster.start();
    cluster.pass(Duration::from_secs(5));
    change_all(&world, 40);
    cluster.pass(Duration::from_secs(2));
    cluster.stop(0);
    let before = sent(&world);
    cluster.pass(Duration::from_secs(30));
    assert_eq!(senders(&world, before), BTreeSet::from([2]));
    cluster.until("the other has sent all", World::is_at_rest);
    let before = sent(&world);
    cluster.go_on(0);
    // It is a member again, and gets its part again.
    cluster.pass(Duration::from_secs(10));
    assert_eq!(sent(&world), before, "nothing of what it had in hand");
    change_all(&world, 1);
    cluster.rest();
    assert_eq!(senders(&world, before), BTreeSet::from([1, 2]));
}

#[test]
fn a_replica_that_is_cut_off_from_the_coordinator_stops_and_another_takes_over() {
    let world = world();
    let mut cluster = Cluster::new(&world, TURN, 1);
    cluster.start();
    cluster.start();
    cluster.pass(Duration::from_secs(5));
    cluster.cut(0, true);
    let cut_ms = world.clock.now_ms();
    for _ in 0..60 {
        change_all(&world, 1);
        cluster.pass(Duration::from_millis(500));
    }
    let book = world.receiver.book();
    let last =
        book.requests.iter().filter(|request| request.life == 1).map(|request| request.started_ms).max();
    drop(book);
    assert!(last.is_some_and(|last| last < cut_ms + 10_000), "{last:?} after {cut_ms}");
    cluster.until("the other has sent all", World::is_at_rest);
    cluster.cut(0, false);
    cluster.pass(Duration::from_secs(10));
    let before = sent(&world);
    change_all(&world, 1);
    cluster.rest();
    assert_eq!(senders(&world, before), BTreeSet::from([1, 2]));
}

#[test]
fn without_permission_nothing_starts_and_with_it_all_goes() {
    let world = world();
    let mut cluster = Cluster::new(&world, TURN, 1);
    cluster.start();
    cluster.pass(Duration::from_secs(5));
    world.log.medium.go_away(Duration::from_secs(60));
    cluster.pass(Duration::from_secs(9));
    // It was read before: what is in hand waits, too.
    change_all(&world, 3);
    cluster.pass(Duration::from_secs(50));
    assert_eq!(sent(&world), 0);
    cluster.rest();
    assert_eq!(sent(&world), CLIENTS.len() * 2 * 3);
}

#[test]
fn what_is_on_the_wire_ends_before_its_partition_is_left_and_the_others_go_on() {
    let world = world();
    for client in CLIENTS {
        world
            .receiver
            .behave(client, Manner::always(Act::Ok).slow(1, 20).but("slow", Act::Hang { done: true }));
    }
    let mut cluster = Cluster::new(&world, TURN, 1);
    cluster.start();
    cluster.pass(Duration::from_secs(5));
    CLIENTS.iter().for_each(|client| world.change(client, "slow", 1));
    cluster.pass(Duration::from_secs(1));
    assert_eq!(sent(&world), CLIENTS.len());
    cluster.start();
    let before = sent(&world);
    for _ in 0..10 {
        change_all(&world, 1);
        cluster.pass(Duration::from_secs(1));
    }
    assert_eq!(senders(&world, before), BTreeSet::from([1]), "what the first keeps goes on");
    assert!(world.receiver.book().requests[..before].iter().all(|request| request.ended_ms.is_none()));
    world.receiver.heal();
    cluster.rest();
    assert!(senders(&world, before).contains(&2));
}

#[test]
fn a_crashed_replica_is_replaced() {
    let world = world();
    for client in CLIENTS {
        world.receiver.behave(client, Manner::mixed(vec![(3, Act::Ok), (1, Act::Status(500))]).slow(10, 100));
    }
    let mut cluster = Cluster::new(&world, TURN, 1);
    cluster.start();
    cluster.start();
    cluster.pass(Duration::from_secs(5));
    for _ in 0..3 {
        change_all(&world, 10);
        cluster.pass(Duration::from_millis(700));
        cluster.crash(0);
        cluster.start();
    }
    world.receiver.heal();
    cluster.rest();
}

#[test]
fn a_changed_config_counts_within_a_second() {
    let world = world();
    let mut cluster = Cluster::new(&world, TURN, 1);
    cluster.start();
    cluster.pass(Duration::from_secs(5));
    world.configure("a", Status::Inactive, "");
    cluster.tell("a");
    cluster.pass(Duration::from_secs(1));
    world.change("a", "1", 1);
    cluster.pass(Duration::from_secs(5));
    assert_eq!((sent(&world), world.rows("a").len()), (0, 1));
    world.configure("a", Status::Active, "");
    world.configs.go_away(Duration::from_secs(10));
    cluster.tell_missed();
    cluster.rest();
    assert!(world.clock.elapsed() < Duration::from_secs(40), "{:?}", world.clock.elapsed());
}
