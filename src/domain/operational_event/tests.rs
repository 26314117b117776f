use std::collections::HashMap;
use std::time::Duration;

use standardwebhooks::Webhook;

use super::*;
use crate::domain::client_state::ClientEvent;
use crate::domain::retry::Pacing;

const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// What an operator is told of a history of one client, each step a second after the one before.
fn told(history: &[ClientEvent]) -> Vec<(Happening, String)> {
    let mut state = ClientState::new(0);
    let mut told = Vec::new();
    for (event, second) in history.iter().zip(1..) {
        let now_ms = second * 1000;
        let next = state.apply(event, now_ms, &Pacing::default(), 0.5);
        told.extend(OperationalEvent::of_step(&ClientId::new("a"), &state, &next, now_ms));
        state = next;
    }
    assert!(told.iter().all(|event| event.client == Some(ClientId::new("a"))));
    told.into_iter().map(|event| (event.happening, event.reason)).collect()
}

fn failed(reason: &str) -> ClientEvent {
    ClientEvent::EndpointFailed { reason: reason.to_owned(), retry_after: None }
}

#[test]
fn an_operator_is_told_of_steps_that_matter_and_once() {
    use ClientEvent::{ConfigInactive, ConfigUsable, Delivered, RowsGone, RowsWaiting};
    let pause = || ClientEvent::Pause { by: "ann".to_owned() };
    let off = "config is not active".to_owned();
    for (history, expected) in [
        (vec![RowsWaiting, Delivered, RowsGone], vec![]),
        (
            vec![failed("timeout"), failed("status_503"), RowsWaiting, Delivered, RowsGone],
            vec![
                (Happening::Degraded, "timeout".to_owned()),
                (Happening::Recovered, "status_503".to_owned()),
            ],
        ),
        // It was switched off, it did not recover.
        (
            vec![failed("timeout"), ConfigInactive, ConfigUsable, Delivered],
            vec![(Happening::Degraded, "timeout".to_owned()), (Happening::Enabled, off.clone())],
        ),
        (vec![ConfigInactive, RowsWaiting, ConfigUsable], vec![(Happening::Enabled, off)]),
        // It is still off: nobody is told that it was switched on.
        (
            vec![ConfigInactive, pause(), ClientEvent::Resume],
            vec![(Happening::Paused, "paused by ann".to_owned()), (Happening::Resumed, String::new())],
        ),
    ] {
        assert_eq!(told(&history), expected, "{history:?}");
    }
}

#[test]
fn every_word_is_read_back() {
    for happening in Happening::ALL {
        assert_eq!(happening.as_str().parse(), Ok(happening));
    }
    assert!("Degraded".parse::<Happening>().is_err());
}

#[test]
fn a_fingerprint_stands_for_all_of_an_event() {
    let event = || OperationalEvent::new(Happening::DeadLetter, 5).of(&ClientId::new("a")).with("n", 1);
    assert_eq!(event().fingerprint(), event().fingerprint());
    let others = [
        event().with("n", 2),
        event().because("x"),
        event().of(&ClientId::new("b")),
        OperationalEvent { client: None, ..event() },
        OperationalEvent { at_ms: 6, ..event() },
        OperationalEvent { happening: Happening::Disabled, ..event() },
    ];
    for other in others {
        assert_ne!(other.fingerprint(), event().fingerprint(), "{other:?}");
    }
}

#[test]
fn a_reason_is_bounded() {
    let event = OperationalEvent::new(Happening::Disabled, 0).because(&"å".repeat(10_000));
    assert_eq!(event.reason.chars().count(), 300);
}

#[test]
fn a_request_has_one_id_and_verifies() {
    let url = "https://ops.test/in?token=x".parse::<Url>().unwrap();
    let webhook = OperatorWebhook {
        url: url.clone(),
        key: SigningKey::read(SECRET).ok(),
        timeout: Duration::from_secs(15),
    };
    let event = OperationalEvent::new(Happening::Degraded, 7).of(&ClientId::new("a\u{0}")).because("dns");
    let event = NumberedEvent { id: 12, event };
    let now_ms = chrono::Utc::now().timestamp_millis();
    let request = event.request(&webhook, now_ms);
    let headers: HashMap<_, _> = request.headers.iter().cloned().collect();
    assert_eq!((headers["webhook-id"].as_str(), request.url), ("op_12", url));
    assert_eq!(
        request.body,
        r#"{"id":12,"type":"degraded","at_ms":7,"client":"a\u0000","reason":"dns","details":{}}"#
    );
    let verify = |secret: &str| {
        Webhook::new(secret).unwrap().verify(&request.body, &(&headers).try_into().unwrap()).is_ok()
    };
    assert!(verify(SECRET));
    assert!(!verify("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));

    let unsigned = event.request(&OperatorWebhook { key: None, ..webhook }, now_ms);
    assert!(unsigned.headers.iter().all(|(name, _)| name != "webhook-signature"));
}
