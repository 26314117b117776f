//! `POST /v1/events`.

use actix_web::http::Method;
use bytes::Bytes;
use serde_json::json;

use super::{RECORD, World};
use crate::ports::StoreError;
use crate::web::REQUEST_BYTES;

#[actix_web::test]
async fn events_are_taken_one_or_many_and_in_order() {
    let world = World::start();
    for (content_type, query, body, count) in [
        ("application/json", "", RECORD.to_owned(), 1),
        ("application/json; charset=utf-8", "", format!("[{RECORD},{RECORD}]"), 2),
        ("application/x-ndjson", "", format!("{RECORD}\n{RECORD}\n{RECORD}\n"), 3),
        ("application/json", "?topic=mongo.c.d", r#"{"_id":1,"__op":"c"}"#.to_owned(), 1),
        ("application/json", "", r#"[{"topic":"mongo.a.b","key":null,"value":"not json"}]"#.to_owned(), 1),
        ("application/json", "", "[]".to_owned(), 0),
    ] {
        world.log.records.lock().unwrap().clear();
        let path = format!("/v1/events{query}");
        let answer = world.send(Method::POST, &path, &[("content-type", content_type)], body.clone()).await;
        assert_eq!((answer.status, answer.json()), (202, json!({ "accepted": count })), "{body}");
        assert_eq!(world.taken().len(), count, "{body}");
    }
    world.log.records.lock().unwrap().clear();
    world.post("/v1/events", RECORD).await;
    let record = &world.taken()[0];
    assert_eq!(&*record.topic, "mongo.a.b");
    assert_eq!(record.key.as_deref(), Some(&br#"{"id":"1"}"#[..]));
    assert_eq!(record.headers, [("h".to_owned(), Bytes::from_static(b"v"))]);
}

#[actix_web::test]
async fn a_broken_request_is_refused_whole_with_its_index() {
    let world = World::start();
    let broken = r#"{"topic":"mongo.a.b","value":"{}","key":5}"#;
    let answer = world.post("/v1/events", format!("[{RECORD},{broken},{RECORD}]")).await;
    assert_eq!(answer.problem().0, 400);
    assert_eq!(answer.json()["index"], 1);
    let lines = [("content-type", "application/x-ndjson")];
    let answer = world.send(Method::POST, "/v1/events", &lines, format!("{RECORD}\n{{\n")).await;
    assert_eq!((answer.problem().0, &answer.json()["index"]), (400, &json!(1)));
    for (headers, body, status) in [
        (&[][..], "", 400),
        (&[], "{", 400),
        (&[], "7", 400),
        (&[("content-type", "text/plain")], RECORD, 415),
        (&[("content-encoding", "gzip")], RECORD, 415),
    ] {
        let answer = world.send(Method::POST, "/v1/events", headers, body).await;
        assert_eq!(answer.problem().0, status, "{headers:?} {body}");
    }
    let webhook = [("webhook-id", "evt_1"), ("webhook-sequence", "1-0-0")];
    let answer = world.send(Method::POST, "/v1/events", &webhook, RECORD).await;
    assert_eq!(answer.problem().0, 403, "a client whose webhook is this address must not feed itself");
    assert_eq!(world.post("/v1/events?tpoic=x", RECORD).await.problem().0, 400);
    assert!(world.taken().is_empty());
}

#[actix_web::test]
async fn sizes_are_bounded_at_32_mib_a_request_and_16_mib_a_record() {
    let world = World::start();
    let record = |bytes: usize| format!(r#"{{"topic":"mongo.a.b","value":"{}"}}"#, "x".repeat(bytes));
    assert_eq!(world.post("/v1/events", record(16 << 20)).await.status, 202);
    let answer = world.post("/v1/events", record((16 << 20) + 1)).await;
    assert_eq!((answer.problem().0, &answer.json()["index"]), (400, &json!(0)));
    // Announced as too large: refused before the body is sent.
    let mut socket = std::net::TcpStream::connect(world.address).unwrap();
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\r\n",
        world.address,
        REQUEST_BYTES + 1
    );
    let answer = actix_rt::task::spawn_blocking(move || {
        use std::io::{Read, Write};
        socket.write_all(head.as_bytes()).unwrap();
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).unwrap();
        answer
    });
    assert_eq!(&answer.await.unwrap(), b"HTTP/1.1 413");
    // Not announced: refused as soon as it is too large.
    let chunks = (0..33).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1 << 20])));
    let sent = awc::Client::default()
        .post(format!("http://{}/v1/events", world.address))
        .send_stream(futures_util::stream::iter(chunks))
        .await;
    // The connection may break while the rest is still being sent.
    if let Ok(response) = sent {
        assert_eq!(response.status(), 413);
    }
    assert_eq!(world.taken().len(), 1);
}

#[actix_web::test]
async fn an_unavailable_log_or_a_stop_is_503_with_retry_after() {
    let world = World::start();
    *world.log.failure.lock().unwrap() = Some(StoreError::Unavailable("database or disk is full".into()));
    let answer = world.post("/v1/events", RECORD).await;
    assert_eq!(answer.problem(), (503, "store unavailable: database or disk is full".into()));
    assert_eq!(answer.retry_after, "5");
    *world.log.failure.lock().unwrap() = None;
    assert_eq!(world.post("/v1/events", RECORD).await.status, 202);
    world.readiness.close_intake();
    let answer = world.post("/v1/events", RECORD).await;
    assert_eq!((answer.problem().0, answer.retry_after.as_str()), (503, "5"));
    assert_eq!(world.taken().len(), 1);
}
