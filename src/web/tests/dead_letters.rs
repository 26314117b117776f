//! `/v1/dead-letters` and replays.

use actix_web::http::Method;
use bytes::Bytes;
use serde_json::{Value, json};

use super::World;
use super::fakes::FakeRow;
use crate::domain::config::ClientId;
use crate::domain::dead_row::{DeadRow, GivenUp};
use crate::domain::transfer::{DocumentHash, EventId, NewTransfer, Sequence, SourcePosition, TransferKind};

pub(super) fn row(client: &str, number: i64) -> FakeRow {
    let (client, event_id) = (ClientId::new(client), EventId::from_stored(&format!("evt_{number}")));
    let document = format!("identity.users:{number}");
    let source = SourcePosition { topic: "mongo.wnx-identity.users".into(), partition: 0, offset: number };
    let payload = NewTransfer {
        client: client.clone(),
        document: document.as_str().into(),
        document_hash: DocumentHash::of("identity", "users", &number.to_string()),
        event_id: event_id.clone(),
        kind: TransferKind::Live,
        source: source.clone(),
        traceparent: None,
        ts_ms: 5,
        body: Bytes::from(format!("{{\"id\":\"{number}\",\"n\":1.10}}")),
    };
    let row = DeadRow {
        client,
        event_id,
        document: document.into(),
        sequence: Sequence { incarnation: 1, partition: 3, offset: number },
        source,
        ts_ms: 5,
        bytes: 300,
        kind: GivenUp::Dead,
        attempts: 10,
        payload_failures: 10,
        first_failed_at_ms: 1_000 + number,
        last_failed_at_ms: Some(9_000),
        reason: Some("status_422".into()),
        status: Some(422),
    };
    FakeRow { row, payload, waits: false, newer_waits: false }
}

pub(super) fn superseded(row: FakeRow) -> FakeRow {
    FakeRow { row: DeadRow { kind: GivenUp::Superseded, ..row.row }, ..row }
}

async fn world(rows: Vec<FakeRow>) -> World {
    let world = World::start();
    *world.stash.1.lock().unwrap() = rows;
    for client in ["a", "source"] {
        let config = json!({ "value": { "webhook": "http://a.test/" } });
        assert_eq!(world.put(&format!("/v1/clients/{client}"), &config).await.status, 201);
    }
    world
}

fn events(page: &Value) -> Vec<&str> {
    let letters = page["dead_letters"].as_array().unwrap();
    letters.iter().map(|letter| letter["event_id"].as_str().unwrap()).collect()
}

/// Event and kind of what was appended to the transfer log.
fn appended(world: &World) -> Vec<(String, TransferKind)> {
    let transfers = world.log.transfers.lock().unwrap();
    transfers.iter().map(|transfer| (transfer.event_id.to_string(), transfer.kind)).collect()
}

#[actix_web::test]
async fn dead_letters_are_listed_without_their_payloads() {
    let world =
        world(vec![row("a", 1), row("b", 2), row("a", 3), superseded(row("a", 4)), row("a", 5)]).await;
    let all = world.get("/v1/dead-letters").await.json();
    assert_eq!((events(&all), &all["next"]), (vec!["evt_5", "evt_3", "evt_2", "evt_1"], &Value::Null));
    let letter = &all["dead_letters"][3];
    assert_eq!((&letter["reason"], &letter["sequence"]), (&json!("status_422"), &json!("1-3-1")));
    assert!(letter.get("body").is_none());
    let page = world.get("/v1/dead-letters?client=a&order=oldest&limit=2").await.json();
    assert_eq!(events(&page), ["evt_1", "evt_3"]);
    let next = page["next"].as_str().unwrap();
    let rest =
        world.get(&format!("/v1/dead-letters?client=a&order=oldest&limit=2&after={next}")).await.json();
    assert_eq!((events(&rest), &rest["next"]), (vec!["evt_5"], &Value::Null));
    assert_eq!(events(&world.get("/v1/dead-letters?state=superseded").await.json()), ["evt_4"]);
    assert_eq!(
        events(&world.get("/v1/dead-letters?from_ms=1002&to_ms=1005").await.json()),
        ["evt_3", "evt_2"]
    );
    for query in ["state=pending", "after=x", "order=up", "limit=-1", "colour=red"] {
        assert_eq!(world.get(&format!("/v1/dead-letters?{query}")).await.status, 400, "{query}");
    }
}

#[actix_web::test]
async fn a_payload_is_shown_on_request_byte_for_byte() {
    let mut binary = row("a", 2);
    binary.payload.body = Bytes::from_static(b"\xff");
    let world = world(vec![row("a", 1), binary]).await;
    let plain = world.get("/v1/dead-letters/a/evt_1").await;
    assert_eq!(plain.status, 200);
    assert!(!plain.text.contains("body"), "{}", plain.text);
    let whole = world.get("/v1/dead-letters/a/evt_1?body=true").await.json();
    assert_eq!(whole["body"], "{\"id\":\"1\",\"n\":1.10}");
    assert_eq!(world.get("/v1/dead-letters/a/evt_2?body=true").await.json()["body_base64"], "/w==");
    for path in ["/v1/dead-letters/a/evt_9", "/v1/dead-letters/b/evt_1"] {
        assert_eq!(world.get(path).await.status, 404, "{path}");
    }
    assert_eq!(world.send(Method::DELETE, "/v1/dead-letters/a/evt_1", &[], "").await.status, 204);
    assert_eq!(world.send(Method::DELETE, "/v1/dead-letters/a/evt_1", &[], "").await.status, 404);
    assert_eq!(world.get("/v1/dead-letters/a/evt_1").await.status, 404);
}

#[actix_web::test]
async fn a_replay_is_refused_when_the_receiver_would_go_back() {
    let waits = FakeRow { waits: true, ..row("a", 2) };
    let newer_waits = FakeRow { newer_waits: true, ..row("a", 4) };
    let rows =
        vec![row("a", 1), waits, superseded(row("a", 3)), newer_waits, row("gone", 5), row("source", 6)];
    let world = world(rows).await;
    for (path, plain, forced) in [
        ("a/evt_1", (202, ""), (202, "")),
        ("a/evt_2", (409, "waits"), (409, "waits")),
        ("a/evt_3", (409, "superseded"), (202, "")),
        ("a/evt_4", (409, "newer_waits"), (202, "")),
        ("gone/evt_5", (409, "client_gone"), (409, "client_gone")),
        ("source/evt_6", (202, ""), (202, "")),
        ("a/evt_9", (404, ""), (404, "")),
    ] {
        for (query, (status, reason)) in [("", plain), ("?force=true", forced)] {
            let answer = world.post(&format!("/v1/dead-letters/{path}/replay{query}"), "").await;
            assert_eq!(answer.status, status, "{path}{query}: {}", answer.text);
            assert_eq!(answer.json()["reason"].as_str().unwrap_or_default(), reason, "{path}{query}");
        }
    }
    let [plain, forced] = [TransferKind::Replay, TransferKind::ForcedReplay];
    let expected = [(1, plain), (1, forced), (3, forced), (4, forced), (6, plain), (6, forced)];
    assert_eq!(appended(&world), expected.map(|(number, kind)| (format!("evt_{number}"), kind)));
    let transfers = world.log.transfers.lock().unwrap();
    assert_eq!(transfers[0].body, row("a", 1).payload.body);
}

#[actix_web::test]
async fn the_dead_letters_of_a_client_are_replayed_in_parts() {
    let newer_waits = FakeRow { newer_waits: true, ..row("a", 2) };
    let mut large = row("a", 4);
    large.row.bytes = 9 << 20;
    let rows = vec![row("a", 1), newer_waits, row("b", 3), large, superseded(row("a", 5)), row("a", 6)];
    let world = world(rows).await;
    let path = "/v1/clients/a/dead-letters/replay";
    let mut answers = Vec::new();
    let mut after = Value::Null;
    loop {
        let answer = world.post(path, json!({ "limit": 3, "after": after }).to_string()).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        let answer = answer.json();
        after = answer["next"].clone();
        answers.push((answer["replayed"].as_u64().unwrap(), answer["refused"].clone()));
        if after.is_null() {
            break;
        }
    }
    assert_eq!(answers, [(1, json!({ "newer_waits": 1 })), (1, json!({})), (1, json!({}))]);
    let replayed: Vec<_> = appended(&world).into_iter().map(|(event, _)| event).collect();
    assert_eq!(replayed, ["evt_1", "evt_4", "evt_6"]);

    let range = json!({ "from_ms": 1_002, "to_ms": 1_006 }).to_string();
    assert_eq!(world.post(path, range).await.json()["refused"], json!({ "newer_waits": 1 }));
    assert_eq!(world.post(path, "").await.status, 202, "all of it");
    for broken in ["7", "{\"from\":1}", "x"] {
        assert_eq!(world.post(path, broken).await.status, 400, "{broken}");
    }
    assert_eq!(world.post("/v1/clients/gone/dead-letters/replay", "{}").await.status, 409);
}
