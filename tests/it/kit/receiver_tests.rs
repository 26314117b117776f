//! The receiver must do what its scripts say, or the tests that stand on it say nothing.

use super::*;
use crate::kit::wait::{eventually, holds};

async fn post(url: &str, body: &'static str) -> Result<u16, String> {
    let client = awc::Client::builder().disable_redirects().finish();
    let request = client.post(url).insert_header(("webhook-id", "evt_1"));
    request.send_body(body).await.map(|answer| answer.status().as_u16()).map_err(|err| err.to_string())
}

#[actix_web::test]
async fn enters_what_arrives_and_answers_by_script() {
    let receiver = Receiver::start(|arrival| match &arrival.body[..] {
        b"teapot" => Answer::Status(418),
        b"reset" => Answer::Reset,
        _ => Answer::WithHeader(302, "location", "/there".into()),
    });
    let hook = receiver.hook("a client/1");

    assert_eq!(post(&hook, "teapot").await, Ok(418));
    assert_eq!(post(&hook, "other").await, Ok(302));
    assert!(post(&hook, "reset").await.is_err());

    let arrivals = receiver.ledger().arrivals();
    assert_eq!(arrivals.len(), 3);
    assert_eq!(arrivals[0].client, "a client/1");
    assert_eq!(arrivals[0].webhook_id(), "evt_1");
    assert_eq!(&arrivals[0].body[..], b"teapot");
    assert!(arrivals[0].answered.is_some());
    assert!(arrivals[2].answered.is_none());
    assert_eq!(receiver.ledger().distinct(), 1);
}

#[actix_web::test]
async fn a_paused_receiver_refuses_and_comes_back_on_the_same_port() {
    let receiver = Receiver::healthy();
    let hook = receiver.hook("acme");
    assert_eq!(post(&hook, "").await, Ok(200));
    for _ in 0..3 {
        receiver.pause();
        let refused = post(&hook, "").await.unwrap_err();
        assert!(refused.contains("refused"), "{refused}");
        receiver.resume();
        assert_eq!(post(&hook, "").await, Ok(200));
    }
}

#[actix_web::test]
async fn a_gate_holds_the_answer_until_it_is_opened() {
    let gate = Gate::shut();
    let held = gate.clone();
    let receiver = Receiver::start(move |_| Answer::Held(held.clone(), 200));
    let answer = actix_web::rt::spawn({
        let hook = receiver.hook("acme");
        async move { post(&hook, "").await }
    });
    receiver.ledger().wait_for(1, Duration::from_secs(5)).await;
    assert!(!answer.is_finished());
    gate.open();
    assert_eq!(answer.await.unwrap(), Ok(200));
}

#[actix_web::test]
async fn a_flood_stops_when_the_other_side_goes() {
    for answer in [Answer::EndlessHeaders, Answer::Body(u64::MAX)] {
        let receiver = Receiver::start(move |_| answer.clone());
        let request = awc::Client::default().post(receiver.hook("acme")).timeout(Duration::from_secs(2));
        if let Ok(mut answer) = request.send().await {
            assert!(answer.body().limit(1024).await.is_err());
        }
        // It counts what it wrote after the other side could read it.
        eventually("a part of the answer", Duration::from_secs(5), async || {
            holds(receiver.answer_bytes() > 0, || "nothing is written".to_owned())
        })
        .await;
        assert!(receiver.ledger().arrivals()[0].answered.is_none());
    }
}
