//! Webhooks that stay dead are switched off, and only those; and the jobs that everybody sees of them.

use std::time::Duration;

use dispatcher::domain::client_state::Phase;
use dispatcher::domain::config::{ClientId, Status};
use dispatcher::domain::operational_event::Happening;
use dispatcher::domain::retry::{CanarySchedule, Pacing};
use dispatcher::ports::job_queue::Acted;

use crate::receiver::{Act, Manner};
use crate::world::{Choices, Life, World};

const GIVE_UP: Duration = Duration::from_secs(100);

/// No lease lasts longer.
const LEASE: Duration = Duration::from_secs(30);

/// What the time to give up takes at most: with what a last try, and looking, take.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(300);

/// Webhooks are given up after 100 s; canaries every 5 s.
fn world(clients: &[&str]) -> World {
    world_with(clients, |_| {})
}

fn world_with(clients: &[&str], choose: impl FnOnce(&mut Choices)) -> World {
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
    choose(&mut choices);
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

/// Nothing of a client can be drained.
fn block_drain(world: &World, client: &str) {
    world.stash.data().held_back.insert(ClientId::new(client));
}

fn unblock_drain(world: &World, client: &str) {
    world.stash.data().held_back.remove(&ClientId::new(client));
}

/// Its gate is open, for it is one document alone that it does not know.
#[test]
fn nobody_is_switched_off_without_a_last_try_while_the_gate_is_open() {
    let world = world_with(&["a", "b"], |choices| choices.limits.retry.cap = Duration::from_secs(10));
    world.receiver.behave("a", Manner::always(Act::Status(404)));
    world.life(async |life| {
        world.change("a", "1", 1);
        life.pass(GIVE_UP - LEASE).await;
        assert_eq!(world.states.data()[&ClientId::new("a")].phase, Phase::Draining);
        block_drain(&world, "a");
        life.until("nothing is on the wire", || world.receiver.book().open("a") == 0).await;
        life.pass(GIVEN_UP_WITHIN).await;
        assert!(!is_off(&world, "a"), "without a try\n{}", life.describe());
        let sent = world.receiver.book().of("a").count();
        unblock_drain(&world, "a");
        assert!(within(life, GIVEN_UP_WITHIN, || is_off(&world, "a")).await, "{}", life.describe());
        assert!(world.receiver.book().of("a").count() > sent);
    });
}

#[test]
fn a_pause_is_no_attempt() {
    let world = world(&["a", "b"]);
    world.receiver.behave("a", Manner::always(Act::Status(503)));
    world.life(async |life| {
        world.change("a", "1", 3);
        life.pass(GIVE_UP - LEASE).await;
        block_drain(&world, "a");
        life.until("the last try is waited for", || world.jobs.data().is_active("disable-a")).await;
        life.pass(Duration::from_secs(1)).await;
        life.pause("a", true).await;
        life.pause("a", false).await;
        life.pass(Duration::from_secs(50)).await;
        assert!(!is_off(&world, "a"), "without a try\n{}", life.describe());
    });
}

/// 422 is the payload's own fault, whatever happened before.
#[test]
fn a_refused_payload_is_no_failed_last_try() {
    let world = world_with(&["a", "b"], |choices| choices.limits.retry.cap = Duration::from_secs(10));
    world.receiver.behave("a", Manner::always(Act::Status(404)));
    world.life(async |life| {
        world.change("a", "1", 1);
        life.pass(GIVE_UP - Duration::from_secs(5)).await;
        world.receiver.behave("a", Manner::always(Act::Status(422)));
        life.pass(GIVEN_UP_WITHIN).await;
        assert!(!is_off(&world, "a"), "{}", life.describe());
    });
}

#[test]
fn the_last_try_waits_for_as_long_as_the_webhook_asks() {
    let world = world(&["a", "b"]);
    world.receiver.behave("a", Manner::always(Act::Wait(503, 40)));
    world.life(async |life| {
        world.change("a", "1", 3);
        assert!(within(life, GIVEN_UP_WITHIN, || is_off(&world, "a")).await, "{}", life.describe());
    });
    let book = world.receiver.book();
    let requests: Vec<_> = book.of("a").collect();
    let waits = requests.windows(2).map(|pair| pair[1].started_ms - pair[0].ended_ms.unwrap());
    let waits: Vec<_> = waits.collect();
    assert!(waits.iter().all(|ms| *ms >= 40_000), "{waits:?}");
}

/// The way out is broken: who has nothing to send does not notice.
#[test]
fn who_tries_nothing_says_nothing_about_us() {
    let names: Vec<_> = (0..20).map(|number| format!("c{number}")).collect();
    let clients: Vec<_> = names.iter().map(String::as_str).collect();
    let world = world(&clients);
    let (failing, idle) = clients.split_at(5);
    world.life(async |life| {
        for client in idle {
            world.change(client, "1", 1);
        }
        life.pass(GIVE_UP).await;
        for client in failing {
            world.receiver.behave(client, Manner::always(Act::Status(503)));
            world.change(client, "1", 1);
        }
        life.pass(GIVEN_UP_WITHIN).await;
        assert!(clients.iter().all(|client| !is_off(&world, client)), "{}", life.describe());
        // Others get theirs: it is not us.
        for _ in 0..60 {
            idle.iter().for_each(|client| world.change(client, "1", 1));
            life.pass(Duration::from_secs(5)).await;
        }
        assert!(failing.iter().all(|client| is_off(&world, client)), "{}", life.describe());
        assert!(idle.iter().all(|client| !is_off(&world, client)));
    });
}

/// Its gate is open; what an operator sees of a document that is refused is the job, and why it failed.
#[test]
fn a_promoted_job_shows_the_attempt_of_a_client_that_drains() {
    let world = world(&["a", "b"]);
    world.receiver.behave("a", Manner::always(Act::Status(422)));
    world.life(async |life| {
        world.change("a", "1", 1);
        assert!(within(life, Duration::from_secs(75), || world.jobs.data().has("retry-a")).await);
        // The first ones are promoted by the service.
        life.pass(Duration::from_secs(120)).await;
        let (sent, before) = (world.receiver.book().of("a").count(), world.jobs.data().attempts("retry-a"));
        let waits_long = || {
            world.jobs.data().due_ms("retry-a").is_some_and(|due_ms| due_ms > world.clock.now_ms() + 5_000)
        };
        assert!(within(life, Duration::from_secs(30), waits_long).await);
        assert_eq!(world.jobs.data().promote("retry-a"), Acted::Done);
        life.pass(Duration::from_secs(4)).await;
        assert_eq!(world.receiver.book().of("a").count(), sent + 1);
        assert_eq!(world.jobs.data().attempts("retry-a"), before + 1);
        let reason = world.jobs.data().reason("retry-a").unwrap_or_default();
        assert!(reason.contains("status_422"), "{reason}");
    });
}
