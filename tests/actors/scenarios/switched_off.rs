//! Webhooks that stay dead are switched off, and only those; and the jobs that everybody sees of them.

use std::time::Duration;

use dispatcher::domain::config::{ClientId, Status};
use dispatcher::domain::operational_event::Happening;
use dispatcher::domain::retry::{CanarySchedule, Pacing};

use crate::receiver::{Act, Manner};
use crate::world::{Choices, Life, World};

const GIVE_UP: Duration = Duration::from_secs(100);

/// What the time to give up takes at most: with what a last try, and looking, take.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(300);

/// Webhooks are given up after 100 s; canaries every 5 s.
fn world(clients: &[&str]) -> World {
    let mut choices = Choices { whole: true, ..Choices::default() };
    choices.limits.pacing = Pacing {
        canary: CanarySchedule {
            first: Duration::from_secs(1),
            every: Duration::from_secs(5),
            cap: Duration::from_secs(20),
            jitter: 0.2,
        },
        give_up: GIVE_UP,
    };
    let world = World::with(1, choices);
    for client in clients {
        world.configure(client, Status::Active, "");
    }
    world
}

fn is_off(world: &World, client: &str) -> bool {
    !world.configs.data().is_active(&ClientId::new(client))
}

async fn within(life: &Life<'_>, time: Duration, is_so: impl Fn() -> bool) -> bool {
    for _ in 0..time.as_millis() / 100 {
        if is_so() {
            return true;
        }
        life.pass(Duration::from_millis(100)).await;
    }
    false
}

#[test]
fn a_dead_webhook_is_switched_off_and_on_again() {
    let world = world(&["a", "b"]);
    world.receiver.behave("a", Manner::always(Act::Status(503)));
    world.life(async |life| {
        world.change("a", "1", 3);
        assert!(within(life, Duration::from_secs(75), || world.jobs.data().has("retry-a")).await);
        assert!(within(life, GIVEN_UP_WITHIN, || is_off(&world, "a")).await, "{}", life.describe());
        assert!(world.clock.elapsed() >= GIVE_UP);
        life.pass(Duration::from_secs(1)).await;
        let sent = world.receiver.book().of("a").count();
        world.change("a", "2", 2);
        world.change("b", "1", 2);
        life.pass(Duration::from_secs(600)).await;
        assert_eq!(world.receiver.book().of("a").count(), sent, "a request after it was switched off");
        assert_eq!(world.receiver.book().arrived("b", "1"), [1, 2]);

        world.receiver.heal();
        life.configure("a", Status::Active, "").await;
        life.rest().await;
        assert_eq!(world.receiver.book().arrived("a", "1"), [1, 2, 3]);
        assert_eq!(world.receiver.book().arrived("a", "2"), [1, 2]);
        let gone = || !world.jobs.data().has("retry-a") && !world.jobs.data().has("disable-a");
        assert!(within(life, Duration::from_secs(75), gone).await, "{}", life.describe());
    });
    let events = world.events.all();
    let told: Vec<_> = events.iter().map(|event| event.happening).collect();
    use Happening::{Degraded, DisableWarning, Disabled, Enabled};
    let places = [Degraded, DisableWarning, Disabled, Enabled]
        .map(|wanted| told.iter().position(|happening| *happening == wanted));
    assert!(places.is_sorted() && places[0].is_some(), "{told:?}");
}

#[test]
fn a_clock_that_is_due_disables_nobody_who_has_another_config() {
    for moves in [false, true] {
        let world = world(&["a", "b"]);
        world.receiver.behave("a", Manner::always(Act::Status(503)));
        world.life(async |life| {
            world.change("a", "1", 3);
            assert!(within(life, GIVEN_UP_WITHIN, || world.jobs.data().has("disable-a")).await);
            life.pass(GIVE_UP - Duration::from_secs(20)).await;
            assert!(!is_off(&world, "a"));
            // The operator has seen it, and gives it another chance; it fails still, for a while.
            match moves {
                true => world.move_webhook("a"),
                false => life.configure("a", Status::Inactive, "").await,
            }
            life.configure("a", Status::Active, "").await;
            life.pass(GIVE_UP - Duration::from_secs(5)).await;
            assert!(!is_off(&world, "a"), "moves {moves}\n{}", life.describe());
            world.receiver.heal();
            life.rest().await;
            life.pass(GIVEN_UP_WITHIN).await;
            assert!(!is_off(&world, "a"));
        });
    }
}

/// The replica that has the client has not heard of the new config, and goes on failing by the old one.
#[test]
fn nobody_is_disabled_for_what_an_older_config_did() {
    let world = world(&["a", "b"]);
    world.receiver.behave("a", Manner::always(Act::Status(503)));
    world.life(async |life| {
        world.change("a", "1", 3);
        assert!(within(life, GIVEN_UP_WITHIN, || world.jobs.data().has("disable-a")).await);
        life.pass(GIVE_UP - Duration::from_secs(20)).await;
        world.move_webhook("a");
        world.configure("a", Status::Active, "");
        life.pass(Duration::from_secs(55)).await;
        assert!(!is_off(&world, "a"), "{}", life.describe());
        assert!(world.judge().is_empty(), "{:?}", world.judge());
    });
}

#[test]
fn while_most_webhooks_fail_nobody_is_switched_off() {
    let clients = ["a", "b", "c", "d"];
    let world = world(&clients);
    for client in &clients[..3] {
        world.receiver.behave(client, Manner::always(Act::Status(503)));
    }
    world.life(async |life| {
        clients.iter().for_each(|client| world.change(client, "1", 1));
        life.pass(GIVEN_UP_WITHIN * 2).await;
        assert!(clients.iter().all(|client| !is_off(&world, client)), "{}", life.describe());
        world.receiver.behave("a", Manner::always(Act::Ok));
        world.receiver.behave("b", Manner::always(Act::Ok));
        assert!(within(life, GIVEN_UP_WITHIN, || is_off(&world, "c")).await, "{}", life.describe());
        assert!(!is_off(&world, "a") && !is_off(&world, "b"));
    });
}

#[test]
fn jobs_that_were_lost_are_put_back() {
    let world = world(&["a", "b"]);
    world.receiver.behave("a", Manner::always(Act::Status(503)));
    world.life(async |life| {
        world.change("a", "1", 3);
        let jobs = || world.jobs.data().has("retry-a") && world.jobs.data().has("disable-a");
        assert!(within(life, Duration::from_secs(75), jobs).await);
        for _ in 0..3 {
            life.pass(Duration::from_secs(7)).await;
            world.jobs.data().wipe();
            assert!(within(life, Duration::from_secs(75), || is_off(&world, "a") || jobs()).await);
        }
        assert!(within(life, GIVEN_UP_WITHIN, || is_off(&world, "a")).await, "{}", life.describe());
    });
}

/// The job of a client that lives is seen and done again and again; the document that is refused keeps its own pace.
#[test]
fn a_refused_document_keeps_its_pace_whatever_becomes_of_the_job() {
    let world = world(&["a"]);
    world.receiver.behave("a", Manner::always(Act::Ok).but("1", Act::Status(422)));
    world.life(async |life| {
        world.change("a", "1", 1);
        for _ in 0..60 {
            world.change("a", "2", 1);
            life.pass(Duration::from_secs(5)).await;
        }
        let tried = world.receiver.book().of("a").filter(|request| request.document == "1").count();
        // After 5, 10, 20, 40, 80, 160 s, varied by a fifth, and once more when the job was promoted at first.
        assert!((5..=8).contains(&tried), "{tried} attempts in 5 minutes");
    });
}

#[test]
fn the_old_webhook_is_gone_and_the_new_one_stays() {
    let world = world(&["a"]);
    world.receiver.behave("a", Manner::always(Act::Status(410)).slow(2_000, 2_000));
    world.life(async |life| {
        world.change("a", "1", 1);
        life.until("a request", || world.receiver.book().open("a") == 1).await;
        world.receiver.heal();
        world.move_webhook("a");
        life.configure("a", Status::Active, "").await;
        life.rest().await;
        assert!(!is_off(&world, "a"));
        assert_eq!(world.receiver.book().arrived("a", "1"), [1]);
    });
}
