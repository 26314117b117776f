use proptest::prelude::*;

use super::*;
use crate::domain::retry::CanarySchedule;

/// Without jitter: 5 s, 10 s, 15 s …; given up after 100 s.
const SCHEDULE: Pacing = Pacing {
    canary: CanarySchedule {
        first: Duration::from_secs(5),
        every: Duration::from_secs(15),
        cap: Duration::from_secs(120),
        jitter: 0.0,
    },
    give_up: Duration::from_secs(100),
};

fn failed() -> ClientEvent {
    ClientEvent::EndpointFailed { reason: "status_500".to_owned(), retry_after: None }
}

fn told_to_wait(seconds: u64) -> ClientEvent {
    let retry_after = Some(Duration::from_secs(seconds));
    ClientEvent::EndpointFailed { reason: "status_429".to_owned(), retry_after }
}

fn pause() -> ClientEvent {
    ClientEvent::Pause { by: "ann".to_owned() }
}

fn unusable() -> ClientEvent {
    ClientEvent::ConfigUnusable { reason: "webhook: is required".to_owned() }
}

/// The state after events at given seconds.
fn after(events: &[(i64, ClientEvent)]) -> ClientState {
    let step = |state: ClientState, (second, event): &(i64, ClientEvent)| {
        state.apply(event, second * 1000, &SCHEDULE, 0.5)
    };
    events.iter().fold(ClientState::new(0), step)
}

/// Phase, failed rounds, and the second of the next attempt.
fn told(state: &ClientState) -> (Phase, u32, Option<i64>) {
    (state.phase, state.failed_rounds, state.next_attempt_at_ms.map(|ms| ms / 1000))
}

#[test]
fn rounds_follow_the_schedule() {
    use ClientEvent::{Delivered, RowsWaiting};
    for (events, expected) in [
        (vec![], (Phase::Healthy, 0, None)),
        (vec![(1, Delivered)], (Phase::Healthy, 0, None)),
        (vec![(1, failed())], (Phase::Degraded, 1, Some(6))),
        (vec![(1, failed()), (6, failed())], (Phase::Degraded, 2, Some(16))),
        (vec![(1, failed()), (6, failed()), (16, failed())], (Phase::Degraded, 3, Some(31))),
        (vec![(1, failed()), (6, Delivered)], (Phase::Healthy, 0, None)),
        (vec![(1, failed()), (2, RowsWaiting), (6, Delivered)], (Phase::Draining, 0, None)),
        (vec![(1, failed()), (6, Delivered), (7, failed())], (Phase::Degraded, 1, Some(12))),
    ] {
        assert_eq!(told(&after(&events)), expected, "{events:?}");
    }
}

#[test]
fn requests_that_fail_together_are_one_round() {
    let state = after(&[(1, failed()), (1, failed()), (3, failed()), (5, failed())]);
    assert_eq!(told(&state), (Phase::Degraded, 1, Some(6)));
    assert_eq!((state.failing_since_ms, state.last_failure_ms), (Some(1000), Some(5000)));
}

#[test]
fn retry_after_only_makes_the_wait_longer() {
    for (events, expected) in [
        (vec![(1, told_to_wait(60))], (Phase::Degraded, 1, Some(61))),
        (vec![(1, told_to_wait(2))], (Phase::Degraded, 1, Some(6))),
        (vec![(1, failed()), (2, told_to_wait(60))], (Phase::Degraded, 1, Some(62))),
        (vec![(1, told_to_wait(60)), (2, told_to_wait(10))], (Phase::Degraded, 1, Some(61))),
        (vec![(1, told_to_wait(60)), (61, failed())], (Phase::Degraded, 2, Some(71))),
    ] {
        assert_eq!(told(&after(&events)), expected, "{events:?}");
    }
}

#[test]
fn a_success_that_was_on_its_way_does_not_end_a_hold() {
    use ClientEvent::Delivered;
    let held = after(&[(1, told_to_wait(60)), (2, Delivered)]);
    assert_eq!(told(&held), (Phase::Degraded, 0, Some(61)));
    assert_eq!(held.reason, "status_429");
    assert_eq!((held.failing_since_ms, held.last_success_ms), (None, Some(2000)));
    assert!(!held.may_send(60_999) && held.may_send(61_000) && held.is_probing());
    let ended = held.apply(&Delivered, 61_000, &SCHEDULE, 0.5);
    assert_eq!(told(&ended), (Phase::Healthy, 0, None));
}

#[test]
fn the_gate_opens_for_one_request_at_a_time() {
    let state = after(&[(1, failed())]);
    assert!(!state.may_send(5999));
    assert!(state.may_send(6000) && state.is_probing());
    assert_eq!(state.wait(2500), Some(Duration::from_millis(3500)));
    assert_eq!(state.wait(7000), Some(Duration::ZERO));
    let healthy = state.apply(&ClientEvent::Delivered, 6000, &SCHEDULE, 0.5);
    assert!(healthy.may_send(6000) && !healthy.is_probing());
}

#[test]
fn rows_decide_between_draining_and_healthy() {
    use ClientEvent::{RowsGone, RowsWaiting};
    assert_eq!(after(&[(1, RowsWaiting)]).phase, Phase::Draining);
    assert_eq!(after(&[(1, RowsWaiting), (2, RowsGone)]).phase, Phase::Healthy);
    assert_eq!(after(&[(1, failed()), (2, RowsWaiting)]).phase, Phase::Degraded);
    assert_eq!(after(&[(1, failed()), (2, RowsGone)]).phase, Phase::Degraded);
}

#[test]
fn what_is_stopped_sends_nothing_and_goes_on_afresh() {
    use ClientEvent::{ConfigInactive, ConfigUsable, Resume, RowsWaiting};
    for (events, stopped, reason, release, phase) in [
        (vec![(1, pause())], Phase::Paused, "paused by ann", Resume, Phase::Healthy),
        (vec![(1, RowsWaiting), (2, pause())], Phase::Paused, "paused by ann", Resume, Phase::Draining),
        (vec![(1, failed()), (2, pause())], Phase::Paused, "paused by ann", Resume, Phase::Healthy),
        (vec![(1, pause()), (2, failed())], Phase::Paused, "paused by ann", Resume, Phase::Healthy),
        (vec![(1, ConfigInactive)], Phase::Disabled, "config is not active", ConfigUsable, Phase::Healthy),
        (vec![(1, unusable())], Phase::Disabled, "webhook: is required", ConfigUsable, Phase::Healthy),
        (
            vec![(1, RowsWaiting), (2, unusable())],
            Phase::Disabled,
            "webhook: is required",
            ConfigUsable,
            Phase::Draining,
        ),
        (
            vec![(1, told_to_wait(60)), (2, unusable())],
            Phase::Disabled,
            "webhook: is required",
            ConfigUsable,
            Phase::Healthy,
        ),
        (vec![(1, unusable()), (2, pause())], Phase::Paused, "paused by ann", Resume, Phase::Disabled),
        (
            vec![(1, pause()), (2, ConfigInactive)],
            Phase::Paused,
            "paused by ann",
            ConfigUsable,
            Phase::Paused,
        ),
    ] {
        let state = after(&events);
        assert_eq!((state.phase, state.reason.as_str()), (stopped, reason), "{events:?}");
        assert!(!state.may_send(i64::MAX), "{events:?}");
        assert_eq!((state.wait(0), state.next_attempt_at_ms), (None, None), "{events:?}");
        assert_eq!(state.apply(&release, 9000, &SCHEDULE, 0.5).phase, phase, "{events:?}");
    }
}

#[test]
fn a_success_or_failure_that_comes_late_does_not_restart_what_is_stopped() {
    for event in
        [ClientEvent::Delivered, failed(), told_to_wait(5), ClientEvent::TryNow, ClientEvent::RowsWaiting]
    {
        assert_eq!(after(&[(1, pause()), (2, event.clone())]).phase, Phase::Paused, "{event:?}");
        assert_eq!(after(&[(1, unusable()), (2, event.clone())]).phase, Phase::Disabled, "{event:?}");
    }
}

#[test]
fn a_usable_config_that_comes_again_changes_nothing() {
    let state = after(&[(1, told_to_wait(60))]);
    assert_eq!(state.apply(&ClientEvent::ConfigUsable, 2000, &SCHEDULE, 0.5), state);
    assert_eq!(state.apply(&ClientEvent::Resume, 2000, &SCHEDULE, 0.5), state);
}

#[test]
fn try_now_opens_the_gate_for_a_probe() {
    let state = after(&[(1, failed()), (6, told_to_wait(600)), (20, ClientEvent::TryNow)]);
    assert_eq!(told(&state), (Phase::Degraded, 2, Some(20)));
    assert!(state.may_send(20_000) && state.is_probing());
    let again = state.apply(&failed(), 21_000, &SCHEDULE, 0.5);
    assert_eq!(told(&again), (Phase::Degraded, 3, Some(36)));
    assert_eq!(after(&[(1, ClientEvent::TryNow)]).phase, Phase::Healthy);
}

#[test]
fn the_failure_clock_runs_from_the_first_failure_to_a_success() {
    let failing = after(&[(1, failed()), (6, failed()), (16, failed())]);
    assert_eq!((failing.failing_since_ms, failing.last_success_ms), (Some(1000), None));
    let paused = failing.apply(&pause(), 17_000, &SCHEDULE, 0.5);
    assert_eq!(paused.failing_since_ms, Some(1000));
    let delivered = failing.apply(&ClientEvent::Delivered, 36_000, &SCHEDULE, 0.5);
    assert_eq!((delivered.failing_since_ms, delivered.last_success_ms), (None, Some(36_000)));
}

#[test]
fn a_webhook_is_given_up_after_failures_that_lie_apart() {
    let long = Duration::from_secs(1000);
    let every =
        |seconds: i64, count: i64| -> Vec<_> { (0..count).map(|i| (i * seconds, failed())).collect() };
    for (events, given_up) in [
        (every(10, 5), true),
        (every(10, 4), false),
        // They lie a tenth of the time apart, or do not count.
        (every(1, 40), false),
        (every(1, 41), true),
        // The service was away, or its clock jumped, between the first failure and the second.
        (vec![(1, failed()), (900, failed())], false),
    ] {
        let state = after(&events);
        assert_eq!(state.is_given_up(long, &SCHEDULE), given_up, "{} failures", events.len());
        assert!(!state.is_given_up(Duration::from_secs(99), &SCHEDULE));
        for event in [ClientEvent::Delivered, pause(), ClientEvent::ConfigInactive] {
            let state = state.apply(&event, 950_000, &SCHEDULE, 0.5);
            assert!(!state.is_given_up(long, &SCHEDULE), "{event:?}");
        }
    }
}

#[test]
fn whoever_is_switched_on_or_changed_has_all_the_time_again() {
    use ClientEvent::{ConfigChanged, ConfigInactive, ConfigUsable, RowsWaiting};
    let long = Duration::from_secs(1000);
    let failing: Vec<_> = (0..6).map(|round| (round * 20, failed())).collect();
    let dead = after(&failing);
    assert!(dead.is_given_up(long, &SCHEDULE));
    for (what, events, phase) in [
        (
            "disabled while draining",
            vec![RowsWaiting, ClientEvent::Delivered, ConfigInactive],
            Phase::Disabled,
        ),
        ("a disable job waits while it is disabled", vec![ConfigInactive], Phase::Disabled),
        ("enabled while a disable job waits", vec![ConfigInactive, ConfigUsable], Phase::Healthy),
        (
            "enabled while rows and a disable job wait",
            vec![RowsWaiting, ConfigInactive, ConfigUsable],
            Phase::Draining,
        ),
        ("its webhook is another", vec![ConfigChanged], Phase::Degraded),
    ] {
        let step = |state: ClientState, event| state.apply(event, 130_000, &SCHEDULE, 0.5);
        let state = events.iter().fold(dead.clone(), step);
        assert_eq!(state.phase, phase, "{what}");
        assert!(!state.is_given_up(long, &SCHEDULE), "{what}");
        assert_eq!(state.may_send(130_000), phase != Phase::Disabled, "{what}");
        if phase != Phase::Disabled {
            assert_eq!((state.failing_since_ms, state.counted_failures), (None, 0), "{what}");
        }
        let again = step(state, &failed());
        assert!(!again.is_given_up(long, &SCHEDULE), "{what}: one more failure is not enough");
    }
    // What is on its way as it is switched off neither goes on with the drain nor opens a gate.
    let draining = after(&[(1, RowsWaiting), (2, ConfigInactive), (3, ClientEvent::Delivered)]);
    assert_eq!((told(&draining), draining.rows_waiting), ((Phase::Disabled, 0, None), true));
    assert_eq!(draining.apply(&ConfigUsable, 4000, &SCHEDULE, 0.5).phase, Phase::Draining);
}

#[test]
fn a_payload_that_is_refused_for_ever_gives_no_webhook_up() {
    let refused =
        |class| move |i: i64| (i * 20, ClientEvent::RequestFailed { class, reason: "status_422".to_owned() });
    let of = |class| after(&(0..10).map(refused(class)).collect::<Vec<_>>());
    let payload = of(FailureClass::Payload);
    assert_eq!((payload.failing_since_ms, payload.counted_failures), (None, 0));
    assert!(payload.last_failure_ms.is_some());
    // A webhook that has moved answers the one document that changes with 404, and closes no gate.
    assert!(of(FailureClass::Config).is_given_up(Duration::from_secs(101), &SCHEDULE));
}

#[test]
fn since_moves_with_the_phase_only() {
    let state = after(&[(1, failed()), (6, told_to_wait(1)), (7, ClientEvent::RowsWaiting)]);
    assert_eq!((state.since_ms, state.reason.as_str()), (1000, "status_429"));
    assert_eq!(after(&[(1, failed()), (6, ClientEvent::Delivered)]).since_ms, 6000);
}

#[test]
fn a_clock_that_is_set_back_does_not_close_the_gate_for_days() {
    let day = 86_400;
    let state = after(&[(3 * day, told_to_wait(3600))]);
    assert!(state.may_send(60_000) && state.is_probing());
    let failed_again = state.apply(&failed(), 60_000, &SCHEDULE, 0.5);
    assert_eq!(told(&failed_again), (Phase::Degraded, 2, Some(70)));
    let delivered = state.apply(&ClientEvent::Delivered, 60_000, &SCHEDULE, 0.5);
    assert_eq!(told(&delivered), (Phase::Healthy, 0, None));
    let small_step = after(&[(100, told_to_wait(60)), (50, failed())]);
    assert_eq!(told(&small_step), (Phase::Degraded, 1, Some(160)));
}

#[test]
fn a_state_that_was_stored_with_fewer_fields_is_read() {
    let stored = r#"{"phase": "degraded", "since_ms": 1, "reason": "timeout", "next_attempt_at_ms": 5,
        "failing_since_ms": 1, "last_success_ms": null, "failed_rounds": 1}"#;
    let state: ClientState = serde_json::from_str(stored).unwrap();
    assert_eq!(told(&state), (Phase::Degraded, 1, Some(0)));
    assert!(state.may_send(5) && !state.may_send(4));
}

#[test]
fn a_failure_that_leaves_the_gate_open_shows() {
    use ClientEvent::{Delivered, RowsGone, RowsWaiting};
    let refused = ClientEvent::RequestFailed { class: FailureClass::Config, reason: "status_404".to_owned() };
    let state = after(&[(1, RowsWaiting), (2, refused.clone())]);
    assert_eq!(told(&state), (Phase::Draining, 0, None));
    assert_eq!(state.reason, "changes wait in the stash, the last failure was status_404");
    assert_eq!((state.failing_since_ms, state.last_failure_ms), (Some(2000), Some(2000)));
    let over =
        after(&[(1, RowsWaiting), (2, refused.clone()), (3, Delivered), (3, RowsGone), (4, RowsWaiting)]);
    assert_eq!((over.failing_since_ms, over.reason.as_str()), (None, "changes wait in the stash"));
    let closed = after(&[(1, failed()), (2, refused)]);
    assert_eq!((told(&closed), closed.reason.as_str()), ((Phase::Degraded, 1, Some(6)), "status_500"));
}

fn event() -> impl Strategy<Value = ClientEvent> {
    let retry_after = prop::option::of((0..7200_u64).prop_map(Duration::from_secs));
    prop_oneof![
        3 => Just(ClientEvent::Delivered),
        5 => retry_after.prop_map(|retry_after| ClientEvent::EndpointFailed {
            reason: "status_503".to_owned(), retry_after,
        }),
        2 => Just(ClientEvent::RequestFailed { class: FailureClass::Payload, reason: "status_422".to_owned() }),
        1 => Just(ClientEvent::RequestFailed { class: FailureClass::Config, reason: "status_404".to_owned() }),
        1 => Just(ClientEvent::Overflow),
        1 => (0..9_u64).prop_map(|dropped| ClientEvent::Resynced { dropped }),
        1 => Just(ClientEvent::RoomAgain),
        1 => Just(ClientEvent::Dropped { count: 3 }),
        1 => Just(ClientEvent::RowsWaiting),
        1 => Just(ClientEvent::RowsGone),
        1 => Just(ClientEvent::ConfigUsable),
        1 => Just(ClientEvent::ConfigChanged),
        1 => Just(unusable()),
        1 => Just(ClientEvent::ConfigInactive),
        1 => Just(ClientEvent::TryNow),
        1 => Just(ClientEvent::Tried(Tried::Refused)),
        1 => Just(pause()),
        1 => Just(ClientEvent::Resume),
    ]
}

/// Events with the time that passes before each; the clock may be set back.
fn history() -> impl Strategy<Value = Vec<(i64, ClientEvent)>> {
    prop::collection::vec((prop_oneof![9 => 0..100_000_i64, 1 => -10_000_000..0_i64], event()), 0..40)
}

#[test]
fn a_resync_makes_good_what_was_dropped_before_it() {
    let pacing = Pacing::default();
    let apply = |state: &ClientState, event| state.apply(&event, 1, &pacing, 0.5);
    let state = apply(&ClientState::new(0), ClientEvent::Dropped { count: 5 });
    assert_eq!(state.missing(), 5);
    let state =
        apply(&apply(&state, ClientEvent::Dropped { count: 2 }), ClientEvent::Resynced { dropped: 5 });
    assert_eq!(state.missing(), 2, "what was dropped while it ran needs another");
    let state = apply(&state, ClientEvent::Resynced { dropped: 3 });
    assert_eq!(state.missing(), 2, "an older one takes nothing back");
}

#[test]
fn a_try_that_was_asked_for_is_counted_with_what_became_of_it() {
    let events =
        [(1, failed()), (2, ClientEvent::TryNow), (3, failed()), (3, ClientEvent::Tried(Tried::Failed))];
    let state = after(&events);
    assert_eq!((state.tries, state.last_try), (1, Some(Tried::Failed)));
    let none = after(&events[..3]);
    assert_eq!(
        (none.tries, none.last_try),
        (0, None),
        "by whom an attempt was wanted does not show by itself"
    );
    assert_eq!(ClientState { tries: 0, last_try: None, ..state }, none, "and it changes nothing else");
}

#[test]
fn a_webhook_lives_while_it_took_something_lately() {
    let state = after(&[(100, ClientEvent::Delivered)]);
    // A tenth of the time to giving up is 10 s.
    for (second, lives) in [(100, true), (119, true), (120, false), (500, false)] {
        assert_eq!(state.lives(second * 1000, &SCHEDULE), lives, "second {second}");
    }
    assert!(!ClientState::new(0).lives(0, &SCHEDULE));
}

#[test]
fn a_webhook_has_failed_for_as_long_as_it_was_tried() {
    let state = after(&[(1, failed()), (6, failed()), (61, failed())]);
    assert!(state.has_failed_for(Duration::from_secs(60)));
    assert!(!state.has_failed_for(Duration::from_millis(60_001)));
    assert!(!after(&[(1, failed()), (61, ClientEvent::Delivered)]).has_failed_for(Duration::ZERO));
}

fn live(
    history: &[(i64, ClientEvent)],
    random: f64,
    mut each: impl FnMut(&ClientState, &ClientState),
) -> (ClientState, i64) {
    let schedule = Pacing::default();
    let mut now_ms = 1_767_225_600_000;
    let mut state = ClientState::new(now_ms);
    for (passed, event) in history {
        now_ms += passed;
        let next = state.apply(event, now_ms, &schedule, random);
        each(&state, &next);
        state = next;
    }
    (state, now_ms)
}

proptest! {
    #[test]
    fn every_state_says_what_happens_next(history in history(), random in 0.0..1.0_f64) {
        live(&history, random, |before, state| {
            assert_eq!(state.phase == Phase::Degraded, state.next_attempt_at_ms.is_some(), "{state:?}");
            assert_eq!(state.reason.is_empty(), state.phase == Phase::Healthy, "{state:?}");
            assert_eq!(matches!(state.phase, Phase::Paused | Phase::Disabled), state.wait(0).is_none());
            assert!(state.since_ms == before.since_ms || state.phase != before.phase, "{state:?}");
            assert!(state.failed_rounds == 0 || state.failing_since_ms.is_some(), "{state:?}");
            let stored = serde_json::to_string(state).unwrap();
            assert_eq!(&serde_json::from_str::<ClientState>(&stored).unwrap(), state);
        });
    }

    #[test]
    fn no_state_is_a_dead_end(history in history(), random in 0.0..1.0_f64) {
        let schedule = Pacing::default();
        let (mut state, mut now_ms) = live(&history, random, |_, _| {});
        for event in [ClientEvent::Resume, ClientEvent::ConfigUsable] {
            state = state.apply(&event, now_ms, &schedule, random);
        }
        // From here on nobody helps: time passes, a request may start, and it succeeds.
        let wait = state.wait(now_ms).unwrap();
        prop_assert!(wait <= Duration::from_secs(7200 + 60), "{state:?}");
        now_ms += i64::try_from(wait.as_millis()).unwrap();
        prop_assert!(state.may_send(now_ms), "{state:?}");
        for event in [ClientEvent::Delivered, ClientEvent::RowsGone] {
            state = state.apply(&event, now_ms, &schedule, random);
        }
        prop_assert_eq!(state.phase, Phase::Healthy);
    }

    #[test]
    fn a_closed_gate_is_only_opened_by_time_success_or_people(
        history in history(), random in 0.0..1.0_f64, failures in 1..40_usize,
    ) {
        let schedule = Pacing::default();
        let (mut state, now_ms) = live(&history, random, |_, _| {});
        for event in [ClientEvent::Resume, ClientEvent::ConfigUsable, failed()] {
            state = state.apply(&event, now_ms, &schedule, random);
        }
        prop_assert!(state.phase == Phase::Degraded && !state.may_send(now_ms));
        let mut later = state.clone();
        for _ in 0..failures {
            later = later.apply(&failed(), now_ms, &schedule, random);
        }
        prop_assert_eq!(later.failed_rounds, state.failed_rounds);
        prop_assert_eq!(later.next_attempt_at_ms, state.next_attempt_at_ms);
    }
}
