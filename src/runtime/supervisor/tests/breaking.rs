//! Whatever breaks in an actor, it comes back, and only what was at work is lost.

use super::*;

async fn breaks(place: Break, restarts: u64, message: &str) {
    pause();
    let (Supervised { addr, cell }, world) = start(&kit(EAGER), "one");
    addr.send(Note(1)).await.unwrap();
    addr.do_send(place);
    addr.do_send(Note(2));
    addr.do_send(Note(3));
    generation(&cell, restarts).await;
    addr.send(Note(4)).await.unwrap();

    let notes: Vec<_> =
        world.logged().into_iter().filter(|line| line != "stopping" && line != "stopped").collect();
    assert_eq!(notes, ["1", "2", "3", "4"], "{place:?}");
    let status = cell.status();
    assert_eq!((status.state, status.restarts), (Life::Running, restarts), "{place:?}");
    assert_eq!(status.last_cause.unwrap().message, message, "{place:?}");
}

#[actix_rt::test]
async fn a_panic_in_a_handler_loses_only_its_message() {
    breaks(Break::Handler, 1, "broken handler").await;
}

#[actix_rt::test]
async fn a_panic_in_started_is_a_failure_like_any_other() {
    breaks(Break::Started, 2, "broken started").await;
}

#[actix_rt::test]
async fn a_panic_in_restarting_is_a_failure_like_any_other() {
    breaks(Break::Restarting, 2, "broken restarting").await;
}

#[actix_rt::test]
async fn a_panic_in_a_future_of_the_context_restarts() {
    breaks(Break::Spawned, 1, "broken future").await;
}

#[actix_rt::test]
async fn a_panic_in_what_the_context_waits_for_restarts() {
    breaks(Break::Waited, 1, "broken wait").await;
}

#[actix_rt::test]
async fn a_panic_in_a_timer_restarts() {
    breaks(Break::Timer, 1, "broken timer").await;
}

#[actix_rt::test]
async fn a_context_that_stops_unasked_restarts() {
    breaks(Break::StopsItself, 1, "its context stopped").await;
}

#[actix_rt::test]
async fn a_panic_in_an_answer_restarts_and_the_asker_is_told() {
    pause();
    let (Supervised { addr, cell }, _) = start(&kit(EAGER), "one");
    assert_eq!(addr.send(Ask).await, Err(MailboxError::Closed));
    generation(&cell, 1).await;
    assert_eq!(addr.send(Ask).await, Ok(7));
}

#[actix_rt::test]
async fn the_cause_says_where_and_on_what() {
    pause();
    let (Supervised { addr, cell }, _) = start(&kit(EAGER), "one");
    addr.do_send(Break::Handler);
    generation(&cell, 1).await;
    let status = serde_json::to_value(cell.status()).unwrap();
    assert_eq!(status["state"], "running");
    assert_eq!(status["last_message"], "Break");
    let place = status["last_cause"]["place"].as_str().unwrap();
    assert!(place.starts_with("src/runtime/supervisor/tests.rs:"), "{place}");
}

#[actix_rt::test]
async fn an_actor_that_recovers_starts_from_the_shortest_wait_again() {
    pause();
    let policy = RestartPolicy { limit: 2, window: Duration::from_secs(10), ..EAGER };
    let (Supervised { addr, cell }, _) = start(&kit(policy), "one");
    for restart in 1..=6 {
        addr.do_send(Break::Handler);
        generation(&cell, restart).await;
        tokio::time::advance(policy.window + Duration::from_millis(1)).await;
    }
    assert_eq!(cell.status().state, Life::Running);
}

#[actix_rt::test]
async fn messages_that_come_during_the_wait_are_kept() {
    pause();
    let (Supervised { addr, cell }, world) = start(&kit(EAGER), "one");
    addr.do_send(Break::Handler);
    cell.watch().wait_for(|phase| phase.life == Life::Restarting).await.unwrap();
    addr.do_send(Note(1));
    addr.do_send(Note(2));
    assert!(addr.connected() && cell.is_alive());
    addr.send(Note(3)).await.unwrap();
    assert_eq!(world.logged(), ["1", "2", "3"]);
}

#[actix_rt::test]
async fn a_frozen_actor_is_restarted_from_outside() {
    pause();
    let (Supervised { addr, cell }, world) = start(&kit(RestartPolicy { limit: 0, ..EAGER }), "one");
    addr.do_send(Break::Freezes);
    addr.do_send(Note(1));
    assert!(addr.send(Note(2)).timeout(Duration::from_secs(3_600)).await.is_err());
    assert!(world.logged().is_empty());
    assert!(cell.status().progress_seconds_ago >= 3_600);

    cell.restart("asked by a test"); // and it is no failure: the limit is 0
    generation(&cell, 1).await;
    addr.send(Note(3)).await.unwrap();
    assert_eq!(world.logged(), ["1", "3"]);
    let cause = cell.status().last_cause.unwrap();
    assert_eq!(cause.message, "asked by a test");
    assert!(cause.place.starts_with(file!()), "{}", cause.place);
    assert_eq!((cause.reason, cause.lasted_seconds), (ExitReason::Asked, 3_600));
}

#[actix_rt::test]
async fn a_restart_from_outside_cuts_the_wait_short() {
    pause();
    let policy = RestartPolicy { base: Duration::from_secs(30), ..EAGER };
    let (Supervised { addr, cell }, _) = start(&kit(policy), "one");
    addr.do_send(Break::Handler);
    cell.watch().wait_for(|phase| phase.life == Life::Restarting).await.unwrap();
    let asked = Instant::now();
    cell.restart("now");
    generation(&cell, 1).await;
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[actix_rt::test]
async fn what_was_published_outlives_the_actor() {
    pause();
    let (Supervised { addr, cell }, _) = start(&kit(EAGER), "one");
    cell.publish(json!({"queued": 3}));
    addr.do_send(Break::Handler);
    generation(&cell, 1).await;
    assert_eq!(*cell.status().published.unwrap(), json!({"queued": 3}));
    cell.publish(json!({"queued": 4}));
    cell.stop();
    cell.ended().await;
    assert_eq!(*cell.status().published.unwrap(), json!({"queued": 4}));
}

#[actix_rt::test]
async fn a_text_that_a_panic_put_together_is_not_shown_and_its_place_is() {
    pause();
    let (Supervised { addr, cell }, _) = start(&kit(EAGER), "one");
    addr.do_send(Break::OnData);
    generation(&cell, 1).await;
    let shown = serde_json::to_value(cell.status()).unwrap();
    assert_eq!(shown["exits"], json!({ "panicked": 1 }));
    assert_eq!(shown["last_cause"]["reason"], "panicked");
    assert!(shown["last_cause"]["place"].as_str().unwrap().contains("supervisor/tests.rs:"), "{shown}");
    assert!(!shown.to_string().contains("broken by"), "{shown}");

    addr.do_send(Break::Handler);
    generation(&cell, 2).await;
    let shown = serde_json::to_value(cell.status()).unwrap();
    assert_eq!(shown["last_cause"]["message"], "broken handler", "it stands in the code");
}
