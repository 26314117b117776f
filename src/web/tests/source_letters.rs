//! `/v1/dead-letters/source`.

use bytes::Bytes;
use serde_json::Value;

use super::World;
use crate::domain::transfer::SourcePosition;
use crate::ports::event_log::{DeadLetter, NewRecord, STASH_REFUSED};

#[actix_web::test]
async fn dead_letters_come_by_page_in_the_form_that_events_are_taken_in() {
    let world = World::start();
    let letter = |offset, record| DeadLetter {
        position: SourcePosition { topic: "mongo.a.b".into(), partition: 0, offset },
        timestamp_ms: 5,
        reason: "broken".into(),
        record,
    };
    let record = |value: &'static [u8]| NewRecord {
        topic: "mongo.a.b".into(),
        key: Some(Bytes::from_static(b"k")),
        value: Some(Bytes::from_static(value)),
        headers: vec![("h".into(), Bytes::from_static(b"v"))],
    };
    *world.log.letters.lock().unwrap() = vec![
        (1, letter(0, Some(record(b"not json")))),
        (3, letter(7, Some(record(b"\xff\x00")))),
        (9, letter(8, None)),
    ];
    let page = world.get("/v1/dead-letters/source?limit=2").await.json();
    assert_eq!(page["next"], 3);
    let letters = page["dead_letters"].as_array().unwrap();
    assert_eq!(letters[0]["reason"], "broken");
    assert_eq!(letters[1]["record"]["value_base64"], "/wA=");
    let rest = world.get("/v1/dead-letters/source?after=3&limit=2").await.json();
    assert_eq!((&rest["dead_letters"][0]["record"], &rest["next"]), (&Value::Null, &Value::Null));
    assert_eq!(rest["dead_letters"][0]["offset"], 8);

    let again = Value::Array(letters.iter().map(|letter| letter["record"].clone()).collect());
    assert_eq!(world.post("/v1/events", again.to_string()).await.status, 202);
    assert_eq!(world.taken(), [record(b"not json"), record(b"\xff\x00")]);
}

#[actix_web::test]
async fn a_page_of_dead_letters_is_bounded_in_bytes() {
    let world = World::start();
    let value = Bytes::from(vec![b'x'; 3 << 20]);
    let record = NewRecord { topic: "t".into(), key: None, value: Some(value), headers: vec![] };
    let letter = DeadLetter {
        position: SourcePosition { topic: "t".into(), partition: 0, offset: 0 },
        timestamp_ms: 0,
        reason: String::new(),
        record: Some(record),
    };
    *world.log.letters.lock().unwrap() = (1..=20).map(|id| (id, letter.clone())).collect();
    let page = world.get("/v1/dead-letters/source").await.json();
    assert!(page["dead_letters"].as_array().unwrap().len() < 8);
    assert!(page["next"].is_i64());
}

#[actix_web::test]
async fn a_record_is_read_again_when_this_version_can_read_it_and_force_says_so() {
    let world = World::start();
    let letter = |reason: &str, value: Option<&str>| DeadLetter {
        position: SourcePosition { topic: "mongo.wnx-identity.users".into(), partition: 0, offset: 0 },
        timestamp_ms: 5,
        reason: reason.into(),
        record: value.map(|value| NewRecord {
            topic: "mongo.wnx-identity.users".into(),
            key: Some(Bytes::from_static(br#"{"id":"{\"$oid\": \"65d10000aaaa0000bbbb0001\"}"}"#)),
            value: (!value.is_empty()).then(|| Bytes::copy_from_slice(value.as_bytes())),
            headers: vec![("h".into(), Bytes::from_static(b"v"))],
        }),
    };
    let change = r#"{"before":null,"after":"{\"_id\": {\"$oid\": \"65d10000aaaa0000bbbb0001\"}}","op":"c","ts_ms":7,
        "source":{"name":"mongo","db":"wnx-identity","collection":"users","ts_ms":7}}"#;
    *world.log.letters.lock().unwrap() = vec![
        (1, letter("an older version could not read it", Some(change))),
        (2, letter("broken", Some("not json"))),
        (3, letter("secret", None)),
        (4, letter("a tombstone", Some(""))),
        (6, letter(STASH_REFUSED, Some(change))),
    ];
    for (id, status, reason) in [
        ("1", 409, "may_be_older"),
        ("2", 409, "invalid"),
        ("3", 409, "not_kept"),
        ("4", 409, "tombstone"),
        ("5", 404, ""),
        ("6", 409, "no_source_record"),
        ("x", 400, ""),
    ] {
        let answer = world.post(&format!("/v1/dead-letters/source/{id}/redrive"), "").await;
        assert_eq!(answer.status, status, "{id}: {}", answer.text);
        assert_eq!(answer.json()["reason"].as_str().unwrap_or_default(), reason, "{id}");
    }
    let forced = world.post("/v1/dead-letters/source/2/redrive?force=true", "").await;
    assert_eq!(forced.json()["reason"], "invalid", "force changes nothing about that");
    assert!(world.taken().is_empty());
    let answer = world.post("/v1/dead-letters/source/1/redrive?force=true", "").await;
    assert_eq!((answer.status, &answer.json()["position"]["offset"]), (202, &Value::from(0)));
    assert_eq!(Some(&world.taken()[0]), letter("", Some(change)).record.as_ref());
}
